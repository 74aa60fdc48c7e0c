package apikey

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// missesPerMinute is how many unknown keys or cookies of one source are looked up per minute. A key of 256 bits cannot
// be guessed, but each attempt costs a database read. Keys in the cache are not affected.
const missesPerMinute = 20

// Guess returns the problem quota-exceeded if the source has sent too many unknown keys or cookies. It does not count;
// Missed does.
func (s *Keys) Guess(source string) error {
	if !s.misses.Spent(source) {
		return nil
	}
	return problem.QuotaExceeded.New("Too many requests with unknown keys came from this network.").
		After(int(time.Minute/time.Second)/missesPerMinute+1).
		With("reason", "auth_failures").With("limit", missesPerMinute).With("current", missesPerMinute)
}

// Missed counts an unknown key or cookie of a source.
func (s *Keys) Missed(source string) { s.misses.Take(source) }

// lookupsPerSource bounds the concurrent look-ups of one source.
const lookupsPerSource = 8

// lookupLimiter limits the concurrent look-ups of each source. The zero value is ready to use.
type lookupLimiter struct {
	mu       sync.Mutex
	bySource map[string]*sourceLookups
}

type sourceLookups struct {
	permits chan struct{}
	users   int // callers that hold or wait for a permit; at 0 the entry is deleted
}

// acquire waits up to queueTimeout for a permit of the source. The caller must call release.
func (t *lookupLimiter) acquire(ctx context.Context, source string) (release func(), err error) {
	t.mu.Lock()
	one := t.bySource[source]
	if one == nil {
		if t.bySource == nil {
			t.bySource = map[string]*sourceLookups{}
		}
		one = &sourceLookups{permits: make(chan struct{}, lookupsPerSource)}
		t.bySource[source] = one
	}
	one.users++
	t.mu.Unlock()
	unref := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.bySource, source)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, queueTimeout)
	defer cancel()
	select {
	case one.permits <- struct{}{}:
		return func() { <-one.permits; unref() }, nil
	case <-ctx.Done():
		unref()
		return nil, fmt.Errorf("wait to look up a key: %w", ctx.Err())
	}
}
