package endpoint

import (
	"context"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// keepEvery is the interval at which streams are checked, and so how soon they notice that their node is about to stop.
const keepEvery = time.Second

// maxRechecks bounds how many streams are checked concurrently after their org has changed.
const maxRechecks = 64

// streamRegistry sends the heartbeats of all streams of a table and checks their access, so that no stream needs a
// goroutine and timers of its own. It runs while there are streams.
type streamRegistry struct {
	mu    sync.Mutex
	byOrg map[id.Org]map[*Events]struct{}
	// quit ends the run; nil while it does not run.
	quit chan struct{}
}

func (reg *streamRegistry) add(t *Table, s *Events) {
	org := s.call.org()
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if reg.byOrg == nil {
		reg.byOrg = map[id.Org]map[*Events]struct{}{}
	}
	if reg.byOrg[org] == nil {
		reg.byOrg[org] = map[*Events]struct{}{}
	}
	reg.byOrg[org][s] = struct{}{}
	if reg.quit == nil {
		reg.quit = make(chan struct{})
		go reg.run(t, reg.quit)
	}
}

// remove forgets a stream. No pulse of it starts afterwards.
func (reg *streamRegistry) remove(s *Events) {
	org := s.call.org()
	reg.mu.Lock()
	defer reg.mu.Unlock()
	delete(reg.byOrg[org], s)
	if len(reg.byOrg[org]) == 0 {
		delete(reg.byOrg, org)
	}
	if len(reg.byOrg) == 0 && reg.quit != nil {
		close(reg.quit)
		reg.quit = nil
	}
}

// run pulses the streams that are due every keepEvery, and all of them if the node is about to stop.
func (reg *streamRegistry) run(t *Table, quit <-chan struct{}) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		reg.pulseDue(t.deps.Now(), t.deps.Draining())
	}
}

func (reg *streamRegistry) pulseDue(now time.Time, all bool) {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	for _, streams := range reg.byOrg {
		for s := range streams {
			if beat := !now.Before(s.due); beat || all {
				s.startPulse(now, beat)
			}
		}
	}
}

// startPulse starts a pulse unless one is running. The caller holds the lock of the registry, so the stream is not
// closed yet.
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

// Recheck makes every stream of an org check immediately whether its key is still valid. It is called when the org has
// changed, and does not wait for the checks.
func (t *Table) Recheck(org id.Org) {
	reg := &t.registry
	reg.mu.Lock()
	streams := make([]*Events, 0, len(reg.byOrg[org]))
	for s := range reg.byOrg[org] {
		s.pulses.Add(1) // Close waits for the check.
		streams = append(streams, s)
	}
	reg.mu.Unlock()
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
	s.mayGoOn()
}

// EndStreams ends all streams of a node that is about to stop and waits until they have ended. http.Server.Shutdown
// does not wait for streams whose connections were hijacked.
func (t *Table) EndStreams(ctx context.Context) error {
	tick := time.NewTicker(endEvery)
	defer tick.Stop()
	for {
		t.registry.pulseDue(t.deps.Now(), true)
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
