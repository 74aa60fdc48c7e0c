package endpoint

import (
	"context"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// keepEvery is the interval of the keeper, and so how soon streams notice that their node is about to stop.
const keepEvery = time.Second

// maxRechecks bounds how many streams are checked concurrently after their org has changed.
const maxRechecks = 64

// keeper sends the heartbeats of all streams of a table and checks their access, so that no stream needs a goroutine
// and timers of its own. It runs while there are streams.
type keeper struct {
	mu    sync.Mutex
	byOrg map[id.Org]map[*Events]struct{}
	// quit ends the run; nil while the keeper does not run.
	quit chan struct{}
}

func (k *keeper) add(t *Table, s *Events) {
	org := s.org()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byOrg == nil {
		k.byOrg = map[id.Org]map[*Events]struct{}{}
	}
	if k.byOrg[org] == nil {
		k.byOrg[org] = map[*Events]struct{}{}
	}
	k.byOrg[org][s] = struct{}{}
	if k.quit == nil {
		k.quit = make(chan struct{})
		go k.run(t, k.quit)
	}
}

// remove forgets a stream. No pulse of it starts afterwards.
func (k *keeper) remove(s *Events) {
	org := s.org()
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byOrg[org], s)
	if len(k.byOrg[org]) == 0 {
		delete(k.byOrg, org)
	}
	if len(k.byOrg) == 0 && k.quit != nil {
		close(k.quit)
		k.quit = nil
	}
}

// run pulses the streams that are due every keepEvery, and all of them if the node is about to stop.
func (k *keeper) run(t *Table, quit <-chan struct{}) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		k.pulseDue(t.Now(), t.Draining())
	}
}

func (k *keeper) pulseDue(now time.Time, all bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, streams := range k.byOrg {
		for s := range streams {
			if beat := !now.Before(s.due); beat || all {
				s.startPulse(now, beat)
			}
		}
	}
}

// startPulse starts a pulse unless one is running. The caller holds the keeper's lock, so the stream is not closed yet.
func (s *Events) startPulse(now time.Time, beat bool) {
	if s.reservePulse() {
		if beat {
			s.due = now.Add(heartbeatEvery)
		}
		s.pulses.Go(func() { s.pulse(now, beat) })
	}
}

// reservePulse marks the stream as pulsing. It returns false if the stream is being written to, is pulsing or has
// ended.
func (s *Events) reservePulse() bool {
	if !s.mu.TryLock() {
		return false // A write in progress is as good as a heartbeat. The stream stays due for the next round.
	}
	defer s.mu.Unlock()
	if s.beating || s.ended {
		return false
	}
	s.beating = true
	return true
}

func (s *Events) org() id.Org {
	if p := s.call.Identity.Principal; p != nil {
		return p.Org.ID
	}
	return ""
}

// Recheck makes every stream of an org check immediately whether its key is still valid. It is called when the org has
// changed, and does not wait for the checks.
func (t *Table) Recheck(org id.Org) {
	k := &t.keeper
	k.mu.Lock()
	streams := make([]*Events, 0, len(k.byOrg[org]))
	for s := range k.byOrg[org] {
		s.pulses.Add(1) // Close waits for the check.
		streams = append(streams, s)
	}
	k.mu.Unlock()
	if len(streams) == 0 {
		return
	}
	next := make(chan *Events)
	for range min(maxRechecks, len(streams)) {
		go func() {
			for s := range next {
				s.recheck()
			}
		}()
	}
	go func() {
		defer close(next)
		for _, s := range streams {
			next <- s
		}
	}()
}

// recheck checks access even while a pulse is running: the pulse may have asked before the change.
func (s *Events) recheck() {
	defer s.pulses.Done()
	if err := s.checkAccess(); err != nil {
		s.fail(err)
	}
}

// EndStreams ends all streams of a node that is about to stop and waits until they have ended. http.Server.Shutdown
// does not wait for streams whose connections were hijacked.
func (t *Table) EndStreams(ctx context.Context) error {
	tick := time.NewTicker(endEvery)
	defer tick.Stop()
	for {
		t.keeper.pulseDue(t.Now(), true)
		if t.streams.Load() <= 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const endEvery = 20 * time.Millisecond
