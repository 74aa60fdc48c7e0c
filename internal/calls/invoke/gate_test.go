package invoke_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// enterGate calls Enter and returns the code of the problem if it is refused.
func enterGate(ctx context.Context, r *fixture, c invoke.Call, limits org.Limits) (leave func(), code string) {
	leave, err := r.Enter(ctx, &c, &limits)
	if err != nil {
		return func() {}, problem.Of(err).Kind.Code
	}
	return leave, ""
}

// An account has eight places and a queue of 16. Waiting calls get places in order of arrival, and wait for at most a
// second.
func TestAnAccountHasEightPlaces(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	synctest.Test(t, func(t *testing.T) {
		c, limits := call(t, writeMethod, sendArgs), org.Limits{CallsPerMinute: 6000}
		var leaves []func()
		for i := range 8 {
			leave, code := enterGate(t.Context(), r, c, limits)
			if code != "" {
				t.Fatalf("place %d: %s", i, code)
			}
			leaves = append(leaves, leave)
		}
		var (
			mu    sync.Mutex
			order []int
			wait  sync.WaitGroup
			late  = map[string]int{}
		)
		for i := range 20 {
			wait.Go(func() {
				leave, code := enterGate(t.Context(), r, c, limits)
				mu.Lock()
				if code == "" {
					order = append(order, i)
				} else {
					late[code]++
				}
				mu.Unlock()
				leave()
			})
			synctest.Wait()
		}
		if late["quota-exceeded"] != 4 {
			t.Errorf("%v were refused immediately, want 4 beyond the queue of 16", late)
		}
		leaves[0]() // each waiting call passes this place on
		synctest.Wait()
		for i := range order {
			if order[i] != i {
				t.Fatalf("the order is %v", order)
			}
		}
		if len(order) != 16 {
			t.Errorf("%d got a place", len(order))
		}
		wait.Wait()
		free, _ := enterGate(t.Context(), r, c, limits) // takes the place that is free again
		began := time.Now()
		_, code := enterGate(t.Context(), r, c, limits)
		if waited := time.Since(began); code != "quota-exceeded" || waited != time.Second {
			t.Errorf("%q after %s", code, waited)
		}
		other := call(t, writeMethod, sendArgs)
		if _, code := enterGate(t.Context(), r, other, limits); code != "" {
			t.Errorf("another account: %s", code)
		}
		free()
		for _, leave := range leaves[1:] {
			leave()
		}
	})
}

// An org has a limited share of a node. Near the node's limit, lists are refused first, then reads, then writes.
func TestListsAreRefusedBeforeReadsAndWrites(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	small := org.Limits{CallsPerMinute: 600}
	c := call(t, writeMethod, sendArgs)
	for i := range 64 {
		c.Account = id.New[id.Account]()
		if _, code := enterGate(t.Context(), r, c, small); code != "" {
			t.Fatalf("place %d of the org: %s", i, code)
		}
	}
	c.Account = id.New[id.Account]()
	if _, code := enterGate(t.Context(), r, c, small); code != "quota-exceeded" {
		t.Errorf("the org's 65th: %q", code)
	}
	counts := map[string]int{}
	for _, name := range []string{listMethod, readMethod, writeMethod} {
		args := ""
		if name == writeMethod {
			args = sendArgs
		}
		for {
			one := call(t, name, args)
			if _, code := enterGate(t.Context(), r, one, org.Limits{CallsPerMinute: -1}); code != "" {
				if code != "service-unavailable" {
					t.Fatalf("%s: %s", name, code)
				}
				break
			}
			counts[name]++
		}
	}
	if counts[listMethod] != 3276-64 || counts[readMethod] != 410 || counts[writeMethod] != 410 {
		t.Errorf("places %v", counts)
	}
}

// There are never more calls than places, and all places are returned.
func TestPlacesAreNeverLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r, c := newFixture(t), call(t, writeMethod, sendArgs)
		limits := org.Limits{CallsPerMinute: 6000}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		var held []func()
		for _, in := range rapid.SliceOfN(rapid.Bool(), 1, 200).Draw(rt, "steps") {
			switch {
			case in && len(held) < 8:
				leave, code := enterGate(t.Context(), r, c, limits)
				if code != "" {
					rt.Fatalf("no place although %d are taken: %s", len(held), code)
				}
				held = append(held, leave)
			case in: // full: a caller who has already gone away
				own := c
				if _, err := r.Enter(gone, &own, &limits); !errors.Is(err, context.Canceled) {
					rt.Fatalf("a ninth place: %v", err)
				}
			case len(held) > 0:
				held[0]()
				held = held[1:]
			}
		}
		for _, leave := range held {
			leave()
		}
		for i := range 8 {
			if _, code := enterGate(t.Context(), r, c, limits); code != "" {
				rt.Fatalf("place %d is lost: %s", i, code)
			}
		}
	})
}

// A breaker opens if calls of several accounts fail, and closes again after a while. Failures of one account do not
// open it.
func TestBreakerOpensForFailuresOfSeveralAccounts(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	synctest.Test(t, func(t *testing.T) {
		down := true
		r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) {
			if down {
				return driver.Answer{}, problem.UpstreamTimeout.New("late")
			}
			return driver.Answer{Result: []byte("1")}, nil
		}
		one := call(t, writeMethod, sendArgs)
		for range 100 {
			_, _ = r.do(t.Context(), one)
		}
		if r.requests() != 100 {
			t.Fatalf("%d of 100 requests were sent: failures of one account opened the breaker", r.requests())
		}
		time.Sleep(11 * time.Second)
		accounts := []invoke.Call{one, call(t, writeMethod, sendArgs), call(t, writeMethod, sendArgs)}
		for i := range 30 {
			_, _ = r.do(t.Context(), accounts[i%3])
		}
		before := r.requests()
		_, err := r.do(t.Context(), call(t, writeMethod, sendArgs))
		if p := problem.Of(err); r.requests() != before || p.Kind.Code != "upstream/unavailable" || !p.Retryable() || p.RetryAfter == 0 || p.Unknown() {
			t.Errorf("%v, and %d requests", err, r.requests()-before)
		}
		down = false
		time.Sleep(6 * time.Second)
		for range 10 {
			if _, err := r.do(t.Context(), call(t, writeMethod, sendArgs)); err != nil {
				t.Errorf("after the platform recovered: %v", err)
			}
		}
	})
}

// Calls without a response while this node is starved do not open a breaker, do not lower the limit of the route and do
// not make an account degraded. A refusal by the platform counts as ever.
func TestAStarvedNodeDoesNotBlameARoute(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err     error
		starved bool
		open    bool
	}{
		"late":                  {problem.UpstreamTimeout.New("late"), false, true},
		"late while starved":    {problem.UpstreamTimeout.New("late"), true, false},
		"broken while starved":  {problem.EgressUnavailable.New("no proxy"), true, false},
		"refused while starved": {refused(catalog.RefusedError, 500, 0), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			r.starved = c.starved
			synctest.Test(t, func(t *testing.T) {
				r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) { return driver.Answer{}, c.err }
				accounts := []invoke.Call{call(t, writeMethod, sendArgs), call(t, writeMethod, sendArgs), call(t, writeMethod, sendArgs)}
				for i := range 60 {
					_, _ = r.do(t.Context(), accounts[i%3])
				}
				if open := r.requests() < 60; open != c.open {
					t.Errorf("%d of 60 requests were sent", r.requests())
				}
				if excused := len(r.learnt) == 0; excused != (c.starved && !c.open) {
					t.Errorf("%d results were reported to the health of accounts", len(r.learnt))
				}
			})
		})
	}
}

// A call is away exactly while it waits: for a place of its account, for the platform, or for the call that it joined.
func TestACallIsAwayWhileItWaits(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	synctest.Test(t, func(t *testing.T) {
		answerSlowly(r)
		limits := org.Limits{CallsPerMinute: 100_000}
		at := call(t, listMethod, `{"limit":5}`)
		var away, trips atomic.Int64
		at.Away = func() func() {
			away.Add(1)
			trips.Add(1)
			return func() { away.Add(-1) }
		}
		var wait sync.WaitGroup
		fresh := at
		fresh.Fresh = true
		// The ninth waits for a place, and then for the platform. It comes a little later, so that the first call ends before
		// the ninth has waited too long.
		for range 9 {
			time.Sleep(time.Millisecond)
			own := fresh
			wait.Go(func() {
				if _, err := r.do(t.Context(), own); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if away.Load() != 9 {
			t.Errorf("%d calls are away, want 9", away.Load())
		}
		wait.Wait()
		for range 2 { // The second joins the first.
			own := at
			wait.Go(func() {
				if _, err := r.do(t.Context(), own); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		if away.Load() != 2 {
			t.Errorf("%d calls are away, want 2", away.Load())
		}
		wait.Wait()
		own := fresh
		leave, err := r.Enter(t.Context(), &own, &limits)
		must.OK(t, err)
		leave()
		if away.Load() != 0 || trips.Load() != 9+1+2 {
			t.Errorf("%d calls are away after %d trips, want 12 trips", away.Load(), trips.Load())
		}
	})
}

// platform simulates a platform with a route's limit in front of it, in steps of a millisecond. Calls arrive at a constant
// rate and take 300 ms. Of more than capacity calls, the platform answers none.
type platform struct {
	limit    invoke.Limit
	now      time.Time
	capacity int
	ends     []time.Time
	failed   []bool
}

func newPlatform(capacity int) *platform {
	p := &platform{now: time.Unix(1_800_000_000, 0), capacity: capacity}
	p.limit = invoke.NewLimit(func() time.Time { return p.now })
	return p
}

// run lets calls arrive for a time and returns how many were refused, and how many failed.
func (p *platform) run(perMilli int, lasting time.Duration) (refused, failed int) {
	for end := p.now.Add(lasting); p.now.Before(end); p.now = p.now.Add(time.Millisecond) {
		for len(p.ends) > 0 && !p.ends[0].After(p.now) {
			p.limit.Release(p.failed[0])
			if p.failed[0] {
				failed++
			}
			p.ends, p.failed = p.ends[1:], p.failed[1:]
		}
		for range perMilli {
			if p.limit.IsFull() {
				refused++
				continue
			}
			p.limit.Acquire()
			p.ends, p.failed = append(p.ends, p.now.Add(300*time.Millisecond)), append(p.failed, len(p.ends) >= p.capacity)
		}
	}
	return refused, failed
}

// The limit of a route follows the rate of the callers within seconds while the platform is healthy, keeps room to spare
// after a moment of failures, and settles at what the platform can take.
func TestTheLimitOfARouteFollowsTheLoad(t *testing.T) {
	t.Parallel()
	p := newPlatform(1 << 20)
	if refused, _ := p.run(10, 2*time.Second); refused == 0 {
		t.Error("a new route took 3,000 calls immediately")
	}
	if refused, _ := p.run(10, 8*time.Second); refused > 0 {
		t.Errorf("%d calls were refused although the platform was healthy", refused)
	}
	p.run(8, time.Second)
	p.limit.Acquire()
	p.limit.Release(true)
	if refused, _ := p.run(8, 30*time.Second); refused > 0 {
		t.Errorf("%d calls were refused after one failure", refused)
	}

	idle := newPlatform(1 << 20)
	idle.run(0, time.Second)
	before := idle.limit.Now()
	if idle.run(0, time.Second); idle.limit.Now() != before {
		t.Error("an idle limit changed")
	}
	slow := newPlatform(1 << 20)
	if slow.run(1, 10*time.Second); slow.limit.Now() > 2*300+1 {
		t.Errorf("300 concurrent calls have raised the limit to %d", slow.limit.Now())
	}

	weak := newPlatform(500)
	weak.run(10, time.Minute)
	refused, failed := weak.run(10, time.Minute)
	if served := 10*60_000 - refused - failed; served < 60*1000 {
		t.Errorf("%d calls were served in a minute, refused %d, failed %d; the platform can serve 100,000", served, refused, failed)
	}
	if failed > 60_000 {
		t.Errorf("%d calls failed in a minute", failed)
	}
}
