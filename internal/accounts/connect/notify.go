package connect

import (
	"context"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
)

// Pattern is the subject pattern of messages about changed attempts: the last token is the attempt's id. Heard handles
// them.
const Pattern = "connect.attempt.*"

// waiters holds the channels of requests on this node that wait for an attempt to change.
type waiters struct {
	mu   sync.Mutex
	byID map[id.Attempt]map[chan struct{}]struct{}
}

func newWaiters() waiters { return waiters{byID: map[id.Attempt]map[chan struct{}]struct{}{}} }

// add registers a waiter. changed has room for one signal, so that a signal is never lost and never blocks.
func (w *waiters) add(at id.Attempt) (changed chan struct{}, leave func()) {
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

// Heard handles a message of Pattern: it wakes the waiters for an attempt on this node.
func (c *Connects) Heard(at string, _ []byte) {
	c.waiters.mu.Lock()
	defer c.waiters.mu.Unlock()
	for one := range c.waiters.byID[id.Attempt(at)] {
		select {
		case one <- struct{}{}:
		default:
		}
	}
}

// publishChange wakes the waiters for an attempt on all nodes. It is best effort: waiters also poll.
func (c *Connects) publishChange(at id.Attempt) {
	c.Heard(string(at), nil)
	if subject, err := pubsub.Subject("connect", "attempt", string(at)); err == nil {
		_ = c.deps.Bus.Publish(subject, nil)
	}
}

// pollEvery is how often a waiter reads the row without a message.
const pollEvery = time.Second

// Changed waits until the attempt has a version other than known, has ended, or within is over, and returns it as it is
// then.
func (c *Connects) Changed(ctx context.Context, org id.Org, at id.Attempt, known int64, within time.Duration) (Found, error) {
	r, err := c.waitUntil(ctx, org, at, func(r record) bool { return r.Version != known || r.State.Final() }, within)
	if err != nil {
		return Found{}, err
	}
	return c.present(ctx, r)
}

// waitUntil waits at most within until wanted accepts the attempt, and returns it as it is then. The end of ctx is not
// an error: the caller gets what is known.
func (c *Connects) waitUntil(ctx context.Context, org id.Org, at id.Attempt, wanted func(record) bool,
	within time.Duration) (record, error) {
	woken, leave := c.waiters.add(at)
	defer leave()
	over := time.NewTimer(within)
	defer over.Stop()
	for {
		r, err := c.get(ctx, org, at)
		if err != nil || within <= 0 || wanted(r) {
			return r, err
		}
		again := time.NewTimer(pollEvery)
		select {
		case <-woken:
		case <-again.C:
		case <-over.C:
			within = 0
		case <-ctx.Done():
			within = 0
		}
		again.Stop()
		if ctx.Err() != nil {
			return r, nil // the client has gone or the server is stopping
		}
	}
}
