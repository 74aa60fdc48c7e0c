package invoke_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

// slowly makes the platform take a second, or until nobody waits.
func slowly(r *rig) (broken func() int) {
	var mu sync.Mutex
	n := 0
	r.answer = func(ctx context.Context, _ int, _ *catalog.Method) (driver.Answer, error) {
		select {
		case <-time.After(time.Second):
			return driver.Answer{Result: []byte("1")}, nil
		case <-ctx.Done():
			mu.Lock()
			defer mu.Unlock()
			n++
			return driver.Answer{}, context.Cause(ctx)
		}
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// together makes calls at the same time, each from its own caller, and counts those that went well.
func together(ctx context.Context, r *rig, calls ...invoke.Call) int {
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		good int
	)
	for _, c := range calls {
		wait.Go(func() {
			if a, err := r.do(ctx, c); err == nil && string(a.Result) == "1" {
				mu.Lock()
				good++
				mu.Unlock()
			}
		})
		synctest.Wait()
	}
	wait.Wait()
	return good
}

func times(n int, c invoke.Call) []invoke.Call {
	list := make([]invoke.Call, n)
	for i := range list {
		list[i] = c
	}
	return list
}

// Which calls share one request, and which must not.
func TestIdenticalReadsShareOneRequest(t *testing.T) {
	t.Parallel()
	rigs := make(chan *rig, 8)
	for range 8 {
		rigs <- newRig(t)
	}
	synctest.Test(t, func(t *testing.T) {
		base := call(t, lists, `{"limit":5}`)
		other := base
		_, other.Args = method(t, lists, `{"limit":6}`)
		elsewhere := call(t, lists, `{"limit":5}`)
		fresh := base
		fresh.Fresh = true
		alone := base
		alone.Admission.Degraded = true
		now := base.Admission.At
		lately, longAgo := base, base
		lately.Admission.LastWrite = now.Add(-10 * time.Second)
		longAgo.Admission.LastWrite = now.Add(-time.Hour)
		write := call(t, writes, sends)
		for name, c := range map[string]struct {
			calls    []invoke.Call
			requests int
		}{
			"identical":              {times(30, base), 1}, // more than an account has places for
			"other arguments":        {[]invoke.Call{base, other}, 2},
			"other accounts":         {[]invoke.Call{base, elsewhere}, 2},
			"one wants its own":      {[]invoke.Call{base, fresh, base}, 2},
			"nothing is known":       {times(3, alone), 3},
			"written to lately":      {times(3, lately), 3},
			"written to long before": {times(3, longAgo), 1},
			"writes":                 {times(3, write), 3},
		} {
			r := <-rigs
			slowly(r)
			if good := together(t.Context(), r, c.calls...); good != len(c.calls) || r.requests() != c.requests {
				t.Errorf("%s: %d of %d went well with %d requests, want %d", name, good, len(c.calls), r.requests(), c.requests)
			}
		}
	})
}

// A write on any node between two reads keeps the second from being given the first one's answer.
func TestAReadShowsWhatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		slowly(r)
		first := call(t, lists, `{"limit":5}`)
		second := first
		second.Admission.LastWrite = first.Admission.At.Add(300 * time.Millisecond)
		second.Admission.At = second.Admission.LastWrite.Add(300 * time.Millisecond)
		if good := together(t.Context(), r, first, second); good != 2 || r.requests() != 2 {
			t.Errorf("%d went well with %d requests", good, r.requests())
		}
	})
}

// Who joined a call is answered also if whoever made it goes away, and a call that nobody waits for is broken off.
func TestWhoJoinedIsAnsweredAlsoIfTheFirstGoes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		broken := slowly(r)
		one := call(t, reads, "")
		first, leave := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() { _, _ = r.do(first, one) })
		synctest.Wait()
		var err error
		wait.Go(func() { _, err = r.do(t.Context(), one) })
		synctest.Wait()
		leave()
		wait.Wait()
		if err != nil || r.requests() != 2 || broken() != 1 {
			t.Errorf("%v with %d requests, %d broken off", err, r.requests(), broken())
		}

		both, leave := context.WithCancel(t.Context())
		for range 2 {
			wait.Go(func() { _, _ = r.do(both, one) })
			synctest.Wait()
		}
		leave()
		wait.Wait()
		if r.requests() != 3 || broken() != 2 {
			t.Errorf("%d requests, %d broken off", r.requests(), broken())
		}
		if _, err := r.do(t.Context(), one); err != nil || r.requests() != 4 {
			t.Errorf("a call that was broken off was joined: %v", err)
		}
	})
}
