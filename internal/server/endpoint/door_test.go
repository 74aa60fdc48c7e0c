package endpoint_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/load"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

const (
	// widest is the limit of a node that is not overloaded. overload and calm are delays above and below the limit.
	widest   = 2000
	overload = 20 * time.Millisecond
	calm     = time.Millisecond
)

// narrowest is the limit of a node that stays overloaded.
func narrowest() int { return 8 * runtime.GOMAXPROCS(0) }

// narrow makes the limit of a door the narrowest.
func narrow(adapt func(time.Duration) (limit, inside, waiting int)) {
	for range 20 {
		adapt(overload)
	}
}

// The limit shrinks to a part of what is inside when the node is overloaded, and is back within 5 s after that.
func TestTheDoorFollowsTheDelay(t *testing.T) {
	t.Parallel()
	d := endpoint.NewDoor(time.Now)
	if limit, _, _ := d.Adapt(calm); limit != widest {
		t.Fatalf("the limit starts at %d", limit)
	}
	for range 1000 {
		d.Enter(t.Context(), "org_a")
	}
	if limit, _, _ := d.Adapt(overload); limit != 700 {
		t.Errorf("the limit is %d with 1,000 inside, want 700", limit)
	}
	for range 1000 {
		d.Leave("org_a")
	}
	d.Adapt(overload) // Most calls were inside since the last sample.
	for range 20 {
		if limit, _, _ := d.Adapt(overload); limit < narrowest() {
			t.Fatalf("the limit is %d", limit)
		}
	}
	if limit, _, _ := d.Adapt(overload); limit != narrowest() {
		t.Errorf("the limit of an overloaded node is %d, want %d", limit, narrowest())
	}
	samples, limit := 0, 0
	for ; limit < widest && samples < 1000; samples++ {
		limit, _, _ = d.Adapt(calm)
	}
	if after := time.Duration(samples) * load.Every; after > 5*time.Second {
		t.Errorf("the limit is back after %s", after)
	}
}

// Whatever the order of events, an org with less than its share never waits, no place stays free while a request waits,
// there are less than twice as many requests inside as the limit allowed, and nothing is lost.
func TestTheDoorIsFair(t *testing.T) {
	t.Parallel()
	orgs := []id.Org{"org_a", "org_b", "org_c"}
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 300).Draw(rt, "steps")
		whose := rapid.SliceOfN(rapid.IntRange(0, 5), len(steps), len(steps)).Draw(rt, "orgs")
		synctest.Test(t, func(t *testing.T) {
			d := endpoint.NewDoor(time.Now)
			narrow(d.Adapt)
			var (
				mu     sync.Mutex
				inside = map[id.Org]int{}
				wait   sync.WaitGroup
			)
			limit, highest := narrowest(), narrowest()
			for i, step := range steps {
				org := orgs[max(0, whose[i]-3)] // Most steps are of the first.
				switch {
				case step < 7:
					for range 5 {
						wait.Go(func() {
							if d.Enter(t.Context(), org) {
								mu.Lock()
								defer mu.Unlock()
								inside[org]++
							}
						})
						synctest.Wait()
					}
				case step < 9:
					mu.Lock()
					leaves := inside[org] > 0
					if leaves {
						inside[org]--
					}
					mu.Unlock()
					if leaves {
						d.Leave(org)
					}
				default:
					limit, _, _ = d.Adapt([]time.Duration{calm, overload}[whose[i]%2])
					highest = max(highest, limit)
				}
				synctest.Wait()
				total, waiting := d.State()
				if total >= 2*highest {
					rt.Fatalf("%d are inside, with a limit of %d", total, highest)
				}
				if waiting > 0 && total < limit {
					rt.Fatalf("%d wait although only %d of %d places are taken", waiting, total, limit)
				}
			}
			time.Sleep(2 * time.Second) // All have a place or were shed.
			wait.Wait()
			for org, n := range inside {
				for range n {
					d.Leave(org)
				}
			}
			if left, waiting := d.State(); left != 0 || waiting != 0 || d.Known() != 0 {
				rt.Fatalf("%d inside, %d waiting and %d orgs are left", left, waiting, d.Known())
			}
		})
	})
}

// An org that takes all places does not keep another from getting its share.
func TestAnOrgBelowItsShareNeverWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := endpoint.NewDoor(time.Now)
		narrow(d.Adapt)
		most := narrowest()
		var wait sync.WaitGroup
		for range 10 * most {
			wait.Go(func() { d.Enter(t.Context(), "org_greedy") })
		}
		synctest.Wait()
		began := time.Now()
		for i := range most / 2 {
			if !d.Enter(t.Context(), "org_modest") || time.Now() != began {
				t.Fatalf("call %d of an org below its share waited", i)
			}
		}
		wait.Go(func() { d.Enter(t.Context(), "org_modest") })
		synctest.Wait()
		if _, inside, waiting := d.Adapt(overload); inside != most+most/2 || waiting != 9*most+1 {
			t.Errorf("%d inside, %d waiting", inside, waiting)
		}
		// The next free places go to the org with fewer.
		for range most/2 + 1 {
			d.Leave("org_greedy")
		}
		synctest.Wait()
		if _, inside, waiting := d.Adapt(overload); inside != most || waiting != 9*most {
			t.Errorf("%d inside, %d waiting", inside, waiting)
		}
		wait.Wait() // All others are shed.
		if _, _, waiting := d.Adapt(overload); waiting != 0 || time.Since(began) != time.Second {
			t.Errorf("%d wait after %s", waiting, time.Since(began))
		}
	})
}

// Requests get their places in the order of arrival. If they wait for longer than 250 ms, the newest gets the next.
func TestTheNewestIsServedFirstIfTheDoorFallsBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pause time.Duration
		want  []int
	}{
		"keeps up":     {10 * time.Millisecond, []int{0, 1, 2, 3}},
		"falls behind": {100 * time.Millisecond, []int{3, 2, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := endpoint.NewDoor(time.Now)
				narrow(d.Adapt)
				for range narrowest() {
					d.Enter(t.Context(), "org_a")
				}
				var (
					wait  sync.WaitGroup
					order []int
				)
				for i := range 4 {
					wait.Go(func() {
						if d.Enter(t.Context(), "org_a") {
							order = append(order, i)
						}
					})
					time.Sleep(c.pause)
				}
				for range 4 {
					d.Leave("org_a")
					synctest.Wait()
				}
				if wait.Wait(); !slices.Equal(order, c.want) {
					t.Errorf("the order is %v, want %v", order, c.want)
				}
			})
		})
	}
}

// An overloaded node sheds calls of the org that has all places, with 503 after a second, before it reads their bodies.
// A caller that goes away does not wait. Other orgs are served.
func TestAnOverloadedNodeShedsTheBusiestOrg(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		f := newNotesFixture(t, time.Now, func() { <-free })
		call := func(ctx context.Context, method, key string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, method, "/notes", strings.NewReader(`{"text":"x"}`))
			r.Header.Set("Authorization", "Bearer "+key)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			return w
		}
		for range 20 {
			f.Adapt(overload)
		}
		var wait sync.WaitGroup
		for range narrowest() {
			wait.Go(func() { call(t.Context(), http.MethodGet, "greedy") })
		}
		synctest.Wait()
		began := time.Now()
		w := call(t.Context(), http.MethodPost, "greedy")
		if took := time.Since(began); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || took != time.Second {
			t.Errorf("one more: %d after %s, %v", w.Code, took, w.Header())
		}
		if bodies, _ := f.InFlight(); bodies != 0 {
			t.Errorf("%d bodies are counted", bodies)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		began = time.Now()
		if w := call(gone, http.MethodPost, "greedy"); w.Code != http.StatusRequestTimeout || time.Now() != began {
			t.Errorf("a caller that went away: %d after %s", w.Code, time.Since(began))
		}
		if w := call(t.Context(), http.MethodPost, "modest"); w.Code != http.StatusOK || time.Now() != began {
			t.Errorf("another org: %d after %s", w.Code, time.Since(began))
		}
		close(free)
		wait.Wait()
		if f.Inside() != 0 {
			t.Errorf("%d calls still have a place", f.Inside())
		}
	})
}

// A call has no place at the door while it waits for a platform, nor once a long operation was admitted.
func TestWhatWaitsHasNoPlaceAtTheDoor(t *testing.T) {
	t.Parallel()
	var f *fixture
	seen := map[string]int{}
	f = newFixture(t, nil)
	add := func(name string, change func(*endpoint.Operation), do func(call *endpoint.Call)) {
		op := endpoint.Operation{
			ID: name, Method: http.MethodGet, Path: "/" + name, Summary: "S", Tag: "T", Status: http.StatusOK, Quota: admission.Plain,
			Media: []string{"text/plain"},
		}
		change(&op)
		endpoint.Plain(f.Table, op, func(_ http.ResponseWriter, r *http.Request) error {
			do(endpoint.From(r.Context()))
			return nil
		})
	}
	see := func(name string) { seen[name] = f.Inside() }
	add("short", func(*endpoint.Operation) {}, func(*endpoint.Call) { see("short") })
	add("file", func(op *endpoint.Operation) { op.Streams = true }, func(call *endpoint.Call) {
		see("file")
		call.Away()()
		see("file, back")
	})
	add("long", func(op *endpoint.Operation) { op.Timeout = time.Minute }, func(*endpoint.Call) { see("long") })
	add("away", func(*endpoint.Operation) {}, func(call *endpoint.Call) {
		back := call.Away()
		see("away")
		back()
		see("back")
		call.Away() // It panics before it is back.
	})
	for _, name := range []string{"short", "file", "long", "away"} {
		if w := f.do(t, http.MethodGet, "/"+name, nil); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		see("after " + name)
	}
	for name, n := range seen {
		want := 0
		if name == "short" || name == "back" {
			want = 1
		}
		if n != want {
			t.Errorf("%s: %d places are taken, want %d", name, n, want)
		}
	}
}
