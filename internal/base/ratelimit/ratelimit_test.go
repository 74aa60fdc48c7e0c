package ratelimit_test

import (
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
)

func TestEachKeyHasItsOwnBucket(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := ratelimit.New(3, time.Minute, func() time.Time { return now })
	take := func(key string, want bool) {
		t.Helper()
		if got := p.Take(key); got != want {
			t.Errorf("Take(%s) = %t", key, got)
		}
	}
	spent := func(key string, want bool) {
		t.Helper()
		if got := p.Spent(key); got != want {
			t.Errorf("Spent(%s) = %t", key, got)
		}
	}
	spent("a", false) // an unknown key has a full bucket
	for range 3 {
		take("a", true)
	}
	spent("a", true)
	take("a", false)
	take("b", true)
	spent("b", false)
	if p.Unused("a") || p.Unused("b") || !p.Unused("c") {
		t.Error("a or b counts as unused, or c as used")
	}
	now = now.Add(20 * time.Second)
	spent("a", false) // Spent takes no token
	spent("a", false)
	take("a", true)
	take("a", false)
	now = now.Add(time.Minute)
	if !p.Unused("a") {
		t.Error("the bucket of a is not full again after a minute")
	}
	for range 3 {
		take("a", true)
	}
	take("a", false)
}
