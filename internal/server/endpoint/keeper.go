package endpoint

import (
	"context"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// keepEvery is how often the keeper looks at the streams: how soon they notice that their node is about to stop.
const keepEvery = time.Second

// pulsesAtOnce bounds how many streams are checked at a time because their org has changed.
const pulsesAtOnce = 64

// keeper has an eye on all streams of a table, so that none of them needs a goroutine and timers of its own. It runs while there are
// any.
type keeper struct {
	mu    sync.Mutex
	byOrg map[id.Org]map[*Events]struct{}
	// quit ends the run; nil while there is none.
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

// remove takes a stream out. No check of it begins afterwards.
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

// run lets streams pulse when they are due, all of them if the node is about to stop.
func (k *keeper) run(t *Table, quit <-chan struct{}) {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		k.look(t.Now(), t.Draining())
	}
}

func (k *keeper) look(now time.Time, all bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, streams := range k.byOrg {
		for s := range streams {
			if beat := !now.Before(s.due); beat || all {
				s.begin(now, beat)
			}
		}
	}
}

// begin starts a pulse unless one is under way. The keeper is locked, so the stream is not closed yet.
func (s *Events) begin(now time.Time, beat bool) {
	if s.claim() {
		if beat {
			s.due = now.Add(heartbeatEvery)
		}
		s.pulses.Go(func() { s.pulse(now, beat) })
	}
}

// claim reserves the stream for one pulse.
func (s *Events) claim() bool {
	if !s.mu.TryLock() {
		return false // it is being written to, which is as good as a heartbeat; the next look finds it due again
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

// Recheck makes every stream of an org find out at once whether its key still holds, because the org has changed.
func (t *Table) Recheck(org id.Org) {
	k := &t.keeper
	k.mu.Lock()
	streams := make([]*Events, 0, len(k.byOrg[org]))
	for s := range k.byOrg[org] {
		s.pulses.Add(1) // it is not closed before it was checked
		streams = append(streams, s)
	}
	k.mu.Unlock()
	if len(streams) == 0 {
		return
	}
	next := make(chan *Events)
	for range min(pulsesAtOnce, len(streams)) {
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

// recheck judges a stream, also while a pulse is under way: that may have asked before the change.
func (s *Events) recheck() {
	defer s.pulses.Done()
	if err := s.judge(); err != nil {
		s.fail(err)
	}
}

// EndStreams ends all streams of a node that is about to stop, and waits until they have ended: the HTTP server does not know of those
// whose connections were taken over.
func (t *Table) EndStreams(ctx context.Context) error {
	look := time.NewTicker(endEvery)
	defer look.Stop()
	for {
		t.keeper.look(t.Now(), true)
		if t.streams.Load() <= 0 {
			return nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const endEvery = 20 * time.Millisecond
