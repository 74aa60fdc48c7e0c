package health_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

var listening = account.Config{Listens: true}

func (r *fixture) recordListener(a account.Account, s account.ListenerState) {
	r.t.Helper()
	must.OK(r.t, r.Accounts.TakeShard(r.t.Context(), account.ShardOf(a.ID), 1))
	must.OK(r.t, r.Accounts.RecordListener(r.t.Context(), account.Ref{Org: a.Org, Account: a.ID}, 1, s))
}

func TestVerifiedAccountWaitsForItsListener(t *testing.T) {
	t.Parallel()
	r := newFixtureOf(t, listening)
	a, login := r.connect("ok", false)
	r.runRound(0) // the sign-in was the first probe
	a = r.wantState(a, account.Connecting, "")
	if r.requestCount(login) != 0 || !a.Health.ProbeAt.Equal(a.StateChangedAt.Add(30*time.Second)) {
		t.Fatalf("%d requests, next at %s", r.requestCount(login), a.Health.ProbeAt)
	}
	r.recordListener(a, account.ListenerUp)
	r.wantState(a, account.Active, "")
	r.wantLastEvent(a, "account.connected")
	if r.requestCount(login) != 0 {
		t.Fatal("an account that was already verified was probed")
	}
}

func TestAccountIsActiveWithoutAListenerAfterHalfAMinute(t *testing.T) {
	t.Parallel()
	r := newFixtureOf(t, listening)
	a, _ := r.connect("ok", false)
	r.Clock.Advance(29 * time.Second)
	r.runRound(0)
	r.Clock.Advance(time.Second)
	r.runRound(1)
	r.wantState(a, account.Active, "")
}

// If the listener comes up between the probe and the write of its result, the account still becomes active.
func TestListenerThatComesUpDuringAProbeIsNoticed(t *testing.T) {
	t.Parallel()
	r := newFixtureOf(t, listening)
	a, _ := r.connect("ok", false)
	real := r.driver
	r.driver = scripted{r.driver, func(context.Context) (driver.Identity, error) {
		r.recordListener(a, account.ListenerUp)
		return driver.Identity{ID: a.UpstreamID}, nil
	}}
	r.Clock.Advance(30 * time.Second)
	r.runRound(1)
	r.driver = real
	r.wantState(a, account.Active, "")
}

func TestAccountWithoutAListenerStaysDegradedAndIsProbedRarely(t *testing.T) {
	t.Parallel()
	r := newFixtureOf(t, listening)
	a, login := r.connect("ok", false)
	r.recordListener(a, account.ListenerUp)
	r.recordListener(a, account.ListenerDown)
	since := r.Clock.Now()
	r.Clock.Advance(account.ListenerPatience)
	a = r.Get(a)
	if _, err := r.Accounts.Trigger(t.Context(), system, a.Org, a.ID,
		account.Cause{On: account.Failing, Reason: account.ReasonListenerDown, Observed: &a,
			FailingSince: &since}); err != nil {
		t.Fatal(err)
	}
	r.wantState(a, account.Degraded, "listener_down")
	if data := r.wantLastEvent(a, "account.degraded"); data["sinceSec"] != float64(60) ||
		data["reason"] != "listener_down" {
		t.Fatalf("%v", data)
	}
	r.clearRequests()
	for range 60 { // half an hour
		r.Clock.Advance(30 * time.Second)
		r.health.Round(t.Context())
	}
	r.wantState(a, account.Degraded, "listener_down")
	if n := r.requestCount(login); n < 2 || n > 9 {
		t.Fatalf("%d requests in half an hour", n)
	}
	r.recordListener(a, account.ListenerUp)
	r.wantState(a, account.Active, "")
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected", "account.degraded", "account.recovered"}) {
		t.Fatal(kinds)
	}
}
