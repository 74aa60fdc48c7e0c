package ratelimit_test

import (
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
)

func TestEachHasItsOwnPace(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := ratelimit.New(3, time.Minute, func() time.Time { return now })
	take := func(one string, want bool) {
		t.Helper()
		if got := p.Take(one); got != want {
			t.Errorf("%s may go on: %t", one, got)
		}
	}
	spent := func(one string, want bool) {
		t.Helper()
		if got := p.Spent(one); got != want {
			t.Errorf("%s has nothing left: %t", one, got)
		}
	}
	spent("a", false) // whoever has done nothing
	for range 3 {
		take("a", true)
	}
	spent("a", true)
	take("a", false)
	take("b", true)
	spent("b", false)
	if p.Unused("a") || p.Unused("b") || !p.Unused("c") {
		t.Error("what a and b did is forgotten, or c did something")
	}
	now = now.Add(20 * time.Second)
	spent("a", false) // asking costs nothing
	spent("a", false)
	take("a", true)
	take("a", false)
	now = now.Add(time.Minute)
	if !p.Unused("a") {
		t.Error("a minute later a has not all of its bound")
	}
	for range 3 {
		take("a", true)
	}
	take("a", false)
}
