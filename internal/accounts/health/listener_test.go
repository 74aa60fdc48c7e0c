package health_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/health"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
)

func listening(d *health.Deps) { d.Accounts.Config.Listens = true }

// listener says how an account's listener stands.
func (r *rig) listener(a account.Account, s account.ListenerState) {
	r.t.Helper()
	if err := r.Accounts.TakeShard(r.t.Context(), account.ShardOf(a.ID), 1); err != nil {
		r.t.Fatal(err)
	}
	if err := r.Accounts.Listened(r.t.Context(), account.Ref{Org: a.Org, Account: a.ID}, 1, s); err != nil {
		r.t.Fatal(err)
	}
}

func TestAProvedSessionWaitsForItsListener(t *testing.T) {
	t.Parallel()
	r := newRig(t, listening)
	a, login := r.connect("ok", false)
	r.round(0) // its sign-in was its first probe
	a = r.state(a, account.Connecting, "")
	if r.asked(login) != 0 || !a.Health.ProbeAt.Equal(a.StateChangedAt.Add(30*time.Second)) {
		t.Fatalf("asked %d times, next at %s", r.asked(login), a.Health.ProbeAt)
	}
	r.listener(a, account.ListenerUp)
	r.state(a, account.Active, "")
	r.event(a, "account.connected")
	if r.asked(login) != 0 {
		t.Fatal("it was proved already")
	}
}

func TestASessionIsActiveWithoutAListenerAfterHalfAMinute(t *testing.T) {
	t.Parallel()
	r := newRig(t, listening)
	a, _ := r.connect("ok", false)
	r.Clock.Advance(29 * time.Second)
	r.round(0)
	r.Clock.Advance(time.Second)
	r.round(1)
	r.state(a, account.Active, "")
}

// The listener comes up between the probe and its being written down: nobody waits for the other.
func TestAListenerThatComesUpDuringTheProbeIsSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t, listening)
	a, _ := r.connect("ok", false)
	real := r.driver
	r.driver = scripted{r.driver, func(context.Context) (driver.Identity, error) {
		r.listener(a, account.ListenerUp)
		return driver.Identity{ID: a.UpstreamID}, nil
	}}
	r.Clock.Advance(30 * time.Second)
	r.round(1)
	r.driver = real
	r.state(a, account.Active, "")
}

func TestAnAccountWithoutAListenerStaysDegradedAndIsSeldomAsked(t *testing.T) {
	t.Parallel()
	r := newRig(t, listening)
	a, login := r.connect("ok", false)
	r.listener(a, account.ListenerUp)
	r.listener(a, account.ListenerDown)
	since := r.Clock.Now()
	r.Clock.Advance(account.ListenerPatience)
	a = r.Get(a)
	if _, err := r.Accounts.Trigger(t.Context(), system, a.Org, a.ID, account.Cause{On: account.Troubled, Reason: account.ReasonListenerDown, About: &a, TroubledAt: &since}); err != nil {
		t.Fatal(err)
	}
	r.state(a, account.Degraded, "listener_down")
	if data := r.event(a, "account.degraded"); data["sinceSec"] != float64(60) || data["reason"] != "listener_down" {
		t.Fatalf("%v", data)
	}
	r.forget()
	for range 60 { // half an hour
		r.Clock.Advance(30 * time.Second)
		r.health.Round(t.Context())
	}
	r.state(a, account.Degraded, "listener_down")
	if n := r.asked(login); n < 2 || n > 9 {
		t.Fatalf("asked %d times in half an hour", n)
	}
	r.listener(a, account.ListenerUp)
	r.state(a, account.Active, "")
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected", "account.degraded", "account.recovered"}) {
		t.Fatal(kinds)
	}
}
