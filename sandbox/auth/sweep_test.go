package auth_test

import (
	"encoding/json"
	"testing"
	"time"
)

func TestWhatEndedLongAgoIsSwept(t *testing.T) {
	t.Parallel()
	a := newAuth(t)
	kept := func() int {
		n := 0
		if err := a.World.Kept("qr", func(string, json.RawMessage) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	token(t, a)
	token(t, a)
	if err := a.World.Advance(30 * time.Minute); err != nil {
		t.Fatal(err)
	}
	token(t, a)
	if n := kept(); n != 3 {
		t.Fatalf("%d sign-ins are kept, want 3: recently ended ones must stay", n)
	}
	if err := a.World.Advance(time.Hour); err != nil {
		t.Fatal(err)
	}
	token(t, a)
	if n := kept(); n != 2 {
		t.Fatalf("%d sign-ins are kept, want only the last 2", n)
	}
}
