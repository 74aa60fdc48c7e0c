package apikey

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Nobody can guess a key of 256 bits, but trying costs the database a look-up each time. A source may miss this often
// before its unknown keys are no longer looked up; keys that are in memory are not affected.
const missesPerMinute = 20

// Guess refuses a source that has sent too much which does not exist. Missed counts one more.
func (s *Keys) Guess(source string) error {
	if !s.misses.Spent(source) {
		return nil
	}
	return problem.QuotaExceeded.New("Too many keys that do not exist were sent from this network.").
		After(int(time.Minute/time.Second)/missesPerMinute+1).
		With("reason", "auth_failures").With("limit", missesPerMinute).With("current", missesPerMinute)
}

// Missed counts something that a source sent and that does not exist.
func (s *Keys) Missed(source string) { s.misses.Take(source) }

// lookupsPerSource is how many keys of one source are looked up at a time.
const lookupsPerSource = 8

// turns lets the callers of one source take turns. Its zero value is empty.
type turns struct {
	mu       sync.Mutex
	bySource map[string]*turn
}

type turn struct {
	places chan struct{}
	users  int
}

// wait waits for a turn, for up to queueTimeout. What it returns ends the turn.
func (t *turns) wait(ctx context.Context, source string) (leave func(), err error) {
	t.mu.Lock()
	one := t.bySource[source]
	if one == nil {
		if t.bySource == nil {
			t.bySource = map[string]*turn{}
		}
		one = &turn{places: make(chan struct{}, lookupsPerSource)}
		t.bySource[source] = one
	}
	one.users++
	t.mu.Unlock()
	gone := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.bySource, source)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	select {
	case one.places <- struct{}{}:
		return func() { <-one.places; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, fmt.Errorf("wait for a turn to look a key up: %w", ctx.Err())
	}
}
