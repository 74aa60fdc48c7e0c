package invoke_test

import (
	"context"
	"errors"
	"sync"
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
)

// enter takes a place and gives the reason if there is none.
func enter(ctx context.Context, r *rig, c invoke.Call, limits org.Limits) (leave func(), code string) {
	leave, err := r.Enter(ctx, &c, &limits)
	if err != nil {
		return func() {}, problem.Of(err).Kind.Code
	}
	return leave, ""
}

// One account has eight places and a queue; who waits gets the next place in order, and not for longer than a second.
func TestAnAccountHasEightPlaces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		c, limits := call(t, writes, sends), org.Limits{CallsPerMinute: 6000}
		var leaves []func()
		for i := range 8 {
			leave, code := enter(t.Context(), r, c, limits)
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
				leave, code := enter(t.Context(), r, c, limits)
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
			t.Errorf("%v were turned away at once, want 4 beyond the queue of 16", late)
		}
		leaves[0]() // each passes its place on
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
		free, _ := enter(t.Context(), r, c, limits) // the one that was given back
		began := time.Now()
		_, code := enter(t.Context(), r, c, limits)
		if waited := time.Since(began); code != "quota-exceeded" || waited != time.Second {
			t.Errorf("%q after %s", code, waited)
		}
		other := call(t, writes, sends)
		if _, code := enter(t.Context(), r, other, limits); code != "" {
			t.Errorf("another account: %s", code)
		}
		free()
		for _, leave := range leaves[1:] {
			leave()
		}
	})
}

// An org has its share of a node, and near the node's limit lists go first, then reads, then writes.
func TestWhoIsTurnedAwayFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	small := org.Limits{CallsPerMinute: 600}
	c := call(t, writes, sends)
	for i := range 64 {
		c.Account = id.New[id.Account]()
		if _, code := enter(t.Context(), r, c, small); code != "" {
			t.Fatalf("place %d of the org: %s", i, code)
		}
	}
	c.Account = id.New[id.Account]()
	if _, code := enter(t.Context(), r, c, small); code != "quota-exceeded" {
		t.Errorf("the org's 65th: %q", code)
	}
	counts := map[string]int{}
	for _, name := range []string{lists, reads, writes} {
		args := ""
		if name == writes {
			args = sends
		}
		for {
			one := call(t, name, args)
			if _, code := enter(t.Context(), r, one, org.Limits{CallsPerMinute: -1}); code != "" {
				if code != "service-unavailable" {
					t.Fatalf("%s: %s", name, code)
				}
				break
			}
			counts[name]++
		}
	}
	if counts[lists] != 1440-64 || counts[reads] != 180 || counts[writes] != 180 {
		t.Errorf("places %v", counts)
	}
}

// Places are never given to more than there are, and all come back.
func TestPlacesAreNeverLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		r, c := newRig(t), call(t, writes, sends)
		limits := org.Limits{CallsPerMinute: 6000}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		var held []func()
		for _, in := range rapid.SliceOfN(rapid.Bool(), 1, 200).Draw(rt, "steps") {
			switch {
			case in && len(held) < 8:
				leave, code := enter(t.Context(), r, c, limits)
				if code != "" {
					rt.Fatalf("no place although %d are taken: %s", len(held), code)
				}
				held = append(held, leave)
			case in: // full: somebody who does not wait
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
			if _, code := enter(t.Context(), r, c, limits); code != "" {
				rt.Fatalf("place %d is lost: %s", i, code)
			}
		}
	})
}

// A platform that fails for many is left alone for a moment, and tried again; the trouble of one account is its own.
func TestABrokenPlatformIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	synctest.Test(t, func(t *testing.T) {
		down := true
		r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) {
			if down {
				return driver.Answer{}, problem.UpstreamTimeout.New("late")
			}
			return driver.Answer{Result: []byte("1")}, nil
		}
		one := call(t, writes, sends)
		for range 100 {
			_, _ = r.do(t.Context(), one)
		}
		if r.requests() != 100 {
			t.Fatalf("%d of 100 requests were sent: one account's trouble broke the way of all", r.requests())
		}
		time.Sleep(11 * time.Second)
		accounts := []invoke.Call{one, call(t, writes, sends), call(t, writes, sends)}
		for i := range 30 {
			_, _ = r.do(t.Context(), accounts[i%3])
		}
		before := r.requests()
		_, err := r.do(t.Context(), call(t, writes, sends))
		if p := problem.Of(err); r.requests() != before || p.Kind.Code != "upstream/unavailable" || !p.Retryable() || p.RetryAfter == 0 || p.Unknown() {
			t.Errorf("%v, and %d requests", err, r.requests()-before)
		}
		down = false
		time.Sleep(6 * time.Second)
		for range 10 {
			if _, err := r.do(t.Context(), call(t, writes, sends)); err != nil {
				t.Errorf("after it came back: %v", err)
			}
		}
	})
}
