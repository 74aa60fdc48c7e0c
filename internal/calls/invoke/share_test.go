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
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// answerSlowly makes the platform respond after a second. The returned function counts cancelled requests.
func answerSlowly(r *fixture) (broken func() int) {
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

// callTogether makes concurrent calls and counts the successful ones.
func callTogether(ctx context.Context, r *fixture, calls ...invoke.Call) int {
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

func repeatCall(n int, c invoke.Call) []invoke.Call {
	list := make([]invoke.Call, n)
	for i := range list {
		list[i] = c
	}
	return list
}

// Identical reads share one request. Other calls, and reads soon after a write, do not.
func TestIdenticalReadsShareOneRequest(t *testing.T) {
	t.Parallel()
	fixtures := make(chan *fixture, 9)
	for range 9 {
		fixtures <- newFixture(t)
	}
	synctest.Test(t, func(t *testing.T) {
		base := call(t, listMethod, `{"limit":5}`)
		other := base
		_, other.Args = method(t, listMethod, `{"limit":6}`)
		elsewhere := call(t, listMethod, `{"limit":5}`)
		fresh := base
		fresh.Fresh = true
		alone := base
		alone.Admission.Degraded = true
		now := base.Admission.At
		lately, longAgo := base, base
		lately.Admission.LastWrite = now.Add(-10 * time.Second)
		longAgo.Admission.LastWrite = now.Add(-time.Hour)
		write := call(t, writeMethod, sendArgs)
		unknown := base
		unknown.Admission.SessionVersion = 0
		for name, c := range map[string]struct {
			calls    []invoke.Call
			requests int
		}{
			"identical":              {repeatCall(30, base), 1}, // more than an account has places
			"other arguments":        {[]invoke.Call{base, other}, 2},
			"other accounts":         {[]invoke.Call{base, elsewhere}, 2},
			"one wants its own":      {[]invoke.Call{base, fresh, base}, 2},
			"nothing is known":       {repeatCall(3, alone), 3},
			"written to lately":      {repeatCall(3, lately), 3},
			"written to long before": {repeatCall(3, longAgo), 1},
			"writes":                 {repeatCall(3, write), 3},
			"unknown session":        {repeatCall(3, unknown), 3},
		} {
			r := <-fixtures
			answerSlowly(r)
			if good := callTogether(t.Context(), r, c.calls...); good != len(c.calls) || r.requests() != c.requests {
				t.Errorf("%s: %d of %d went well with %d requests, want %d", name, good, len(c.calls), r.requests(), c.requests)
			}
		}
	})
}

// After a write on any node, a read does not share the result of a read that began before the write.
func TestAReadShowsWhatWasWrittenBefore(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	synctest.Test(t, func(t *testing.T) {
		answerSlowly(r)
		first := call(t, listMethod, `{"limit":5}`)
		second := first
		second.Admission.LastWrite = first.Admission.At.Add(300 * time.Millisecond)
		second.Admission.At = second.Admission.LastWrite.Add(300 * time.Millisecond)
		if good := callTogether(t.Context(), r, first, second); good != 2 || r.requests() != 2 {
			t.Errorf("%d went well with %d requests", good, r.requests())
		}
	})
}

// After an account was paused, disconnected or signed in again, a read does not share the result of a read that was
// admitted before.
func TestAReadAfterAChangeOfTheAccountDoesNotJoin(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	synctest.Test(t, func(t *testing.T) {
		answerSlowly(r)
		first := call(t, listMethod, `{"limit":5}`)
		second, third := first, first
		second.Admission.SessionVersion++
		if good := callTogether(t.Context(), r, first, second, third); good != 3 || r.requests() != 2 {
			t.Errorf("%d went well with %d requests, want 2", good, r.requests())
		}
	})
}

// Calls that joined a flight get a result even if its first caller goes away. A call is cancelled when no caller waits.
func TestJoinedCallsSurviveTheFirstCaller(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	synctest.Test(t, func(t *testing.T) {
		broken := answerSlowly(r)
		one := call(t, readMethod, "")
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
			t.Errorf("%v with %d requests, %d cancelled", err, r.requests(), broken())
		}

		both, leave := context.WithCancel(t.Context())
		for range 2 {
			wait.Go(func() { _, _ = r.do(both, one) })
			synctest.Wait()
		}
		leave()
		wait.Wait()
		if r.requests() != 3 || broken() != 2 {
			t.Errorf("%d requests, %d cancelled", r.requests(), broken())
		}
		if _, err := r.do(t.Context(), one); err != nil || r.requests() != 4 {
			t.Errorf("a cancelled call was joined: %v", err)
		}
	})
}

// Reads that reserved every place of the account join a read that has none. They give their places up, so that it gets
// one: otherwise all of them would wait for each other.
func TestJoinedCallsHoldNoPlace(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	synctest.Test(t, func(t *testing.T) {
		answerSlowly(r)
		limits := org.Limits{CallsPerMinute: 100_000}
		base := call(t, listMethod, `{"limit":5}`)
		var wait sync.WaitGroup
		wait.Go(func() { _, _ = r.do(t.Context(), base) })
		synctest.Wait()
		calls := repeatCall(9, base) // The first expects to join; the others get the 8 places of the account.
		leaves := make([]func(), len(calls))
		for i := range calls {
			var err error
			leaves[i], err = r.Enter(t.Context(), &calls[i], &limits)
			must.OK(t, err)
			wait.Wait() // After the first Enter, the flight that it expects to join ends.
		}
		began := time.Now()
		for i := range calls {
			wait.Go(func() {
				defer leaves[i]()
				if _, err := r.Do(t.Context(), calls[i]); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		wait.Wait()
		if took := time.Since(began); took != time.Second || r.requests() != 2 {
			t.Errorf("%d requests took %s, want 2 requests, the second within the platform's second", r.requests(), took)
		}
		// No place is lost, and none was freed twice: 8 calls fit, the ninth waits.
		var again []func()
		for range 8 {
			c := base
			c.Fresh = true
			leave, err := r.Enter(t.Context(), &c, &limits)
			must.OK(t, err)
			again = append(again, leave)
		}
		ninth := base
		ninth.Fresh = true
		if _, err := r.Enter(t.Context(), &ninth, &limits); err == nil {
			t.Error("the account has a ninth place")
		}
		for _, leave := range again {
			leave()
		}
	})
}
