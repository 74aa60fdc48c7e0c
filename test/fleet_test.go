// Package test holds the system tests. They run built servers with real engines and inject faults.
package test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// unlimited removes the limits of an organisation, for tests that are not about limits.
var unlimited = map[string]int{"callsPerMinute": -1, "callsPerMonth": -1, "maxKeys": -1}

// outcome is the result of one call of a load.
type outcome struct {
	started time.Time
	took    time.Duration
	status  int
	code    string
	err     error
}

// load calls an operation on all nodes until stopLoad.
type load struct {
	mu       sync.Mutex
	outcomes []outcome
	cancel   context.CancelFunc
	wait     sync.WaitGroup
	count    atomic.Int64
}

// startLoad starts callers. Each makes one call per pace, to one node after the other; a pace of 0 means without pause.
func startLoad(t *testing.T, nodes []*testnode.Node, key string, callers int, pace time.Duration) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel}
	for i := range callers {
		l.wait.Go(func() {
			tick := time.NewTicker(max(pace, time.Microsecond))
			defer tick.Stop()
			for n := i; ctx.Err() == nil; n++ {
				l.call(ctx, nodes[n%len(nodes)], key)
				if pace > 0 {
					select {
					case <-tick.C:
					case <-ctx.Done():
					}
				}
			}
		})
	}
	return l
}

func (l *load) call(ctx context.Context, node *testnode.Node, key string) {
	// A call that has started may finish, because the result of a cancelled one is unknown.
	ctx = context.WithoutCancel(ctx)
	o := outcome{started: time.Now()}
	r, err := testnode.Do(ctx, http.MethodGet, node.URL+"/v1/me", key, nil)
	o.took, o.status, o.err = time.Since(o.started), r.Status, err
	if r.Status >= http.StatusBadRequest {
		o.code = r.Code()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes = append(l.outcomes, o)
	l.count.Add(1)
}

func (l *load) stopLoad() []outcome {
	l.cancel()
	l.wait.Wait()
	return l.outcomes
}

// await polls until a condition holds, and fails the test after a time.
func await(t *testing.T, what string, within time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(within)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after %s: %s", within, what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// awaitCalls waits until the load has made n more calls.
func (l *load) awaitCalls(t *testing.T, n int64) {
	t.Helper()
	goal := l.count.Load() + n
	await(t, fmt.Sprintf("%d more calls", n), 2*time.Minute, func() bool { return l.count.Load() >= goal })
}

// lowestP99 returns the lowest p99 of any second between two times. Other work on the machine slows down some seconds;
// a slow node slows down all of them.
func lowestP99(outcomes []outcome, from, to time.Time) (best time.Duration) {
	seconds := make([][]time.Duration, to.Sub(from)/time.Second)
	for _, o := range outcomes {
		if n := o.started.Sub(from); n >= 0 && int(n/time.Second) < len(seconds) {
			seconds[n/time.Second] = append(seconds[n/time.Second], o.took)
		}
	}
	best = math.MaxInt64
	for _, took := range seconds {
		if len(took) >= 100 {
			slices.Sort(took)
			best = min(best, took[len(took)*99/100])
		}
	}
	return best
}
