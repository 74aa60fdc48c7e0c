package connect

import (
	"context"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
)

// Pattern is where nodes tell each other that an attempt has changed.
const Pattern = "connect.attempt.*"

// waiting are those on this node who wait for an attempt to change.
type waiting struct {
	mu   sync.Mutex
	byID map[id.Attempt]map[chan struct{}]struct{}
}

func newWaiting() waiting { return waiting{byID: map[id.Attempt]map[chan struct{}]struct{}{}} }

func (w *waiting) join(at id.Attempt) (changed chan struct{}, leave func()) {
	changed = make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID[at] == nil {
		w.byID[at] = map[chan struct{}]struct{}{}
	}
	w.byID[at][changed] = struct{}{}
	return changed, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.byID[at], changed)
		if len(w.byID[at]) == 0 {
			delete(w.byID, at)
		}
	}
}

// Heard wakes those who wait for an attempt; the bus calls it.
func (c *Connects) Heard(at string, _ []byte) {
	c.waiting.mu.Lock()
	defer c.waiting.mu.Unlock()
	for one := range c.waiting.byID[id.Attempt(at)] {
		select {
		case one <- struct{}{}:
		default:
		}
	}
}

// tell says on all nodes that an attempt has changed. Who misses it finds out by itself a moment later.
func (c *Connects) tell(at id.Attempt) {
	c.Heard(string(at), nil)
	if subject, err := pubsub.Subject("connect", "attempt", string(at)); err == nil {
		_ = c.Bus.Poke(subject, nil)
	}
}

// lookAgain is how often somebody who waits looks for themselves.
const lookAgain = time.Second

// Changed waits until an attempt has another version than the one known, has ended, or the time is over, and gives it as it is then.
func (c *Connects) Changed(ctx context.Context, org id.Org, at id.Attempt, known int64, within time.Duration) (Found, error) {
	r, err := c.changed(ctx, org, at, func(r record) bool { return r.Version != known || r.State.Final() }, within)
	if err != nil {
		return Found{}, err
	}
	return c.show(ctx, r)
}

// changed waits until a row is as wanted, at most so long.
func (c *Connects) changed(ctx context.Context, org id.Org, at id.Attempt, wanted func(record) bool, within time.Duration) (record, error) {
	poked, leave := c.waiting.join(at)
	defer leave()
	over := time.NewTimer(within)
	defer over.Stop()
	for {
		r, err := c.get(ctx, org, at)
		if err != nil || within <= 0 || wanted(r) {
			return r, err
		}
		again := time.NewTimer(lookAgain)
		select {
		case <-poked:
		case <-again.C:
		case <-over.C:
			within = 0
		case <-ctx.Done():
			within = 0
		}
		again.Stop()
		if ctx.Err() != nil {
			return r, nil // who asked has gone, or the server is stopping: what is known is an answer
		}
	}
}
