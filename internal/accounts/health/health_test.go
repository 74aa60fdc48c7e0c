package health_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/account/accounttest"
	"github.com/stagedoor/stagedoor/internal/accounts/health"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

func TestTheFirstGoodProbeMakesAnAccountActive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.connect("ok", false)
	r.round(1)
	a = r.state(a, account.Active, "")
	if a.LastCheckedAt == nil || !a.LastCheckedAt.Equal(r.Clock.Now()) || r.asked(login) != 1 {
		t.Fatalf("%v, asked %d times", a.LastCheckedAt, r.asked(login))
	}
	r.event(a, "account.connected")
	r.round(0)
}

// An account that nobody uses is probed every quarter of an hour, one that is used is not.
func TestOnlyIdleAccountsAreProbed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(false)
	r.Clock.Advance(13 * time.Minute)
	r.round(0)
	if err := r.Accounts.Seen(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	r.Clock.Advance(13 * time.Minute)
	r.round(0)
	if n := r.asked(login); n != 0 {
		t.Fatalf("asked %d times", n)
	}
	r.Clock.Advance(4 * time.Minute)
	r.round(1)
	a = r.state(a, account.Active, "")
	if n := r.asked(login); n != 1 || !a.LastSeenAt.Equal(r.Clock.Now()) {
		t.Fatalf("asked %d times", n)
	}
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected"}) {
		t.Fatal(kinds)
	}
}

func TestOneRefusalIsNoDeadSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(false)
	r.fault(login, "error", 401, 1)
	r.Clock.Advance(17 * time.Minute)
	r.round(1)
	r.state(a, account.Active, "")
	if n := r.asked(login); n != 2 {
		t.Fatalf("asked %d times", n)
	}
}

func TestADeadSessionWithoutCredentialsNeedsAPerson(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(false)
	r.endSessions(login)
	r.Clock.Advance(17 * time.Minute)
	r.round(1)
	a = r.state(a, account.ReconnectRequired, "session_expired")
	data := r.event(a, "account.reconnect_required")
	if data["from"] != "active" || data["userAction"] != "reconnect" || data["connectUrl"] == nil || r.asked("") != 2 {
		t.Fatalf("%v, asked %d times", data, r.asked(""))
	}
	r.Clock.Advance(24 * time.Hour)
	r.round(0) // nobody asks a platform for a session that is dead
}

func TestADeadSessionWithCredentialsIsReplaced(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(true)
	r.endSessions(login)
	r.Clock.Advance(17 * time.Minute)
	r.round(1)
	a = r.state(a, account.Reauthenticating, "session_expired")
	if len(r.signIns.began) != 1 || r.event(a, "account.reauthenticating")["attemptId"] != string(r.signIns.began[0]) || a.PendingAttempt != r.signIns.began[0] {
		t.Fatalf("%v", r.signIns.began)
	}
	r.Clock.Advance(10 * time.Minute)
	r.round(0) // it is being signed in
	// Its worker is never heard of again: the next try comes by itself, and then no more than three a day.
	for range 40 {
		r.Clock.Advance(30 * time.Minute)
		r.health.Round(t.Context())
	}
	r.state(a, account.ReconnectRequired, "session_expired")
	if len(r.signIns.began) != 3 {
		t.Fatalf("%d sign-ins", len(r.signIns.began))
	}
}

func TestASignInThatCannotBeStartedIsStartedLater(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(true)
	r.endSessions(login)
	r.signIns.fails = problem.ConnectUnavailable.New("not now")
	r.Clock.Advance(17 * time.Minute)
	r.round(1)
	r.state(a, account.Reauthenticating, "session_expired")
	if r.event(a, "account.reauthenticating")["attemptId"] != nil {
		t.Fatal("an attempt that is not there")
	}
	r.signIns.fails = nil
	r.Clock.Advance(61 * time.Second)
	r.round(1)
	if got := r.Get(a); len(r.signIns.began) != 1 || got.PendingAttempt != r.signIns.began[0] {
		t.Fatalf("%+v", got)
	}
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected", "account.reauthenticating"}) {
		t.Fatal(kinds)
	}
}

func TestABannedAccountIsRestricted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.connect("restricted", false)
	r.control("POST", "clock", map[string]any{"advance_sec": 6})
	r.round(1)
	a = r.state(a, account.Restricted, "locked")
	data := r.event(a, "account.restricted")
	if data["upstreamCode"] != float64(1024) || data["upstreamMessage"] == "" || data["userAction"] != "open_native" {
		t.Fatalf("%v", data)
	}
	r.forget()
	r.Clock.Advance(5 * time.Hour)
	r.round(0)
	r.Clock.Advance(2 * time.Hour)
	r.round(1)
	r.state(a, account.Restricted, "locked")
	if kinds := r.Kinds(a); len(kinds) != 1 || r.asked(login) != 1 {
		t.Fatal(kinds)
	}
}

// Three failures within a minute are told, two successes end it, and the platform is asked less and less meanwhile.
func TestTroubleOfThePlatformDegradesAndPasses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(false)
	r.fault(login, "error", 503, 0)
	r.Clock.Advance(17 * time.Minute)
	for range 2 {
		r.round(1)
		r.state(a, account.Active, "")
		r.Clock.Advance(11 * time.Second)
	}
	r.round(1)
	a = r.state(a, account.Degraded, "upstream_unavailable")
	if data := r.event(a, "account.degraded"); data["sinceSec"] != float64(22) || data["userAction"] != "wait" {
		t.Fatalf("%v", data)
	}
	if _, _, err := r.Accounts.Session(t.Context(), a.Org, a.ID); err != nil {
		t.Fatalf("calls run on: %v", err)
	}
	var waits []time.Duration
	for range 6 {
		wait := r.Get(a).Health.ProbeAt.Sub(r.Clock.Now())
		waits = append(waits, wait)
		r.Clock.Advance(wait)
		r.round(1)
	}
	if waits[0] > 33*time.Second || waits[0] < 27*time.Second || waits[5] < 270*time.Second || waits[5] > 330*time.Second {
		t.Fatalf("the platform is asked after %v", waits)
	}
	r.control("DELETE", "faults", nil)
	for range 2 {
		r.state(a, account.Degraded, "upstream_unavailable")
		r.Clock.Advance(r.Get(a).Health.ProbeAt.Sub(r.Clock.Now()))
		r.round(1)
	}
	a = r.state(a, account.Active, "")
	r.event(a, "account.recovered")
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected", "account.degraded", "account.recovered"}) {
		t.Fatal(kinds)
	}
}

func TestFailuresThatAreFarApartAreNoTrouble(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(false)
	for range 4 {
		r.fault(login, "error", 500, 1)
		r.Clock.Advance(17 * time.Minute)
		r.round(1) // fails
		r.Clock.Advance(11 * time.Second)
		r.round(1) // is fine again
		r.state(a, account.Active, "")
	}
}

func TestAWayOutThatIsGoneIsSaid(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, _ := r.active(false)
	for _, p := range r.proxies {
		p.Kill()
	}
	r.Clock.Advance(17 * time.Minute)
	for range 3 {
		r.round(1)
		r.Clock.Advance(11 * time.Second)
	}
	r.state(a, account.Degraded, "egress_down")
}

func TestAPlatformThatWantsToBeLeftAloneIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(false)
	r.fault(login, "rate_limit", 600, 1)
	r.Clock.Advance(17 * time.Minute)
	r.round(1)
	if a = r.state(a, account.Active, ""); a.Health.ProbeAt.Before(r.Clock.Now().Add(10 * time.Minute)) {
		t.Fatalf("asked again at %s", a.Health.ProbeAt)
	}
	o, err := r.Orgs.Get(t.Context(), a.Org)
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Limits.Admit(t.Context(), admission.Call{Org: a.Org, Account: a.ID, Quota: admission.Read, Epoch: o.Epoch, Limits: &o.Limits})
	if err != nil || d.Denied == nil || !d.Denied.CoolDown {
		t.Fatalf("%+v, %v", d, err)
	}
}

// The platform gives a new cookie now and then; whoever comes next uses it.
func TestACookieThatAProbeWasGivenIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, _ := r.active(false)
	_, before, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	r.control("POST", "clock", map[string]any{"advance_sec": 31 * 60})
	r.Clock.Advance(17 * time.Minute)
	r.round(1)
	_, after, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
	if err != nil || after.Cookie("sess").Equal(before.Cookie("sess")) {
		t.Fatal("the session did not rotate", err)
	}
	r.control("POST", "clock", map[string]any{"advance_sec": 5 * 60}) // the old one is dead by now
	r.Clock.Advance(17 * time.Minute)
	r.round(1)
	r.state(a, account.Active, "")
}

func TestAPausedAccountIsNotProbed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.active(false)
	if _, err := r.Accounts.Pause(t.Context(), accounttest.By("account.pause"), a.Org, a.ID, account.ReasonPausedByCaller); err != nil {
		t.Fatal(err)
	}
	r.Clock.Advance(time.Hour)
	r.round(0)
	_, err := r.health.Profile(t.Context(), a.Org, a.ID)
	if !errors.Is(err, problem.AccountPaused.New("")) || r.asked(login) != 0 {
		t.Fatal(err)
	}
	if _, err := r.Accounts.Resume(t.Context(), accounttest.By("account.resume"), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.round(1)
	r.state(a, account.Active, "")
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected", "account.paused", "account.resumed", "account.reconnected"}) {
		t.Fatal(kinds)
	}
}

func TestTheSessionsOfASuspendedOrgAreNotUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, login := r.connect("ok", false)
	if _, err := r.DB.Pool().Exec(t.Context(), `UPDATE org SET suspended_at = now() WHERE id = $1`, a.Org); err != nil {
		t.Fatal(err)
	}
	r.round(1)
	r.state(a, account.Connecting, "")
	if n := r.asked(login); n != 0 {
		t.Fatalf("asked %d times", n)
	}
}

// A worker takes a probe and dies: another one has it when the lease ends.
func TestAProbeOfADeadWorkerIsTakenByAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, _ := r.connect("ok", false)
	taken := 0
	for shard := range account.Shards {
		list, err := r.Node(nil).Due(t.Context(), shard, 10, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		taken += len(list)
	}
	if taken != 1 {
		t.Fatal(taken)
	}
	r.round(0)
	r.Clock.Advance(61 * time.Second)
	r.round(1)
	r.state(a, account.Active, "")
}

// scripted is a driver whose probes find what a test says.
type scripted struct {
	driver.Driver
	probe func(ctx context.Context) (driver.Identity, error)
}

func (s scripted) Probe(ctx context.Context, _ driver.Via, session driver.Session) (driver.Identity, driver.Answer, error) {
	who, err := s.probe(ctx)
	return who, driver.Answer{Session: session}, err
}

func refusal(kind catalog.RefusalKind) error {
	return &driver.Refused{Refusal: catalog.Refusal{Kind: kind}, Status: 403}
}

func TestARestrictedAccountComesBackOrNeedsAPerson(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err   error
		state account.State
		event string
	}{
		"the ban is lifted": {nil, account.Active, "account.recovered"},
		"the session ended": {refusal(catalog.RefusedSession), account.ReconnectRequired, "account.reconnect_required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			a, _ := r.active(true)
			answer := refusal(catalog.RefusedRestricted)
			r.driver = scripted{r.driver, func(context.Context) (driver.Identity, error) { return driver.Identity{ID: a.UpstreamID}, answer }}
			r.Clock.Advance(17 * time.Minute)
			r.round(1)
			a = r.state(a, account.Restricted, "locked")
			answer = test.err
			r.Clock.Advance(7 * time.Hour)
			r.round(1)
			if got := r.Get(a); got.State != test.state {
				t.Fatal(got.State)
			}
			r.event(a, test.event)
		})
	}
}

func TestASessionOfSomebodyElseIsNotTheAccounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, _ := r.active(false)
	r.driver = scripted{r.driver, func(context.Context) (driver.Identity, error) { return driver.Identity{ID: "another"}, nil }}
	r.Clock.Advance(17 * time.Minute)
	r.round(1)
	r.state(a, account.ReconnectRequired, "logged_out")
}

// ticks are tickers in a test's hand.
type ticks struct {
	rounds, sweeps chan time.Time
	stopped        chan struct{}
}

func newTicks() *ticks {
	return &ticks{make(chan time.Time), make(chan time.Time), make(chan struct{}, 2)}
}

func (k *ticks) ticker(d time.Duration) (<-chan time.Time, func()) {
	stop := func() { k.stopped <- struct{}{} }
	if d < time.Second {
		return k.rounds, stop
	}
	return k.sweeps, stop
}

// A node that is stopped in the middle of a probe gives it back at once, and leaves nothing running.
func TestAStoppedNodeGivesItsProbesBack(t *testing.T) {
	t.Parallel()
	k := newTicks()
	r := newRig(t, func(d *health.Deps) { d.Ticker = k.ticker })
	a, _ := r.connect("ok", false)
	real, began := r.driver, make(chan struct{})
	r.driver = scripted{r.driver, func(ctx context.Context) (driver.Identity, error) {
		close(began)
		<-ctx.Done()
		return driver.Identity{}, ctx.Err()
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.health.Run(ctx) }()
	k.rounds <- r.Clock.Now()
	<-began
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	<-k.stopped
	<-k.stopped
	r.driver = real
	r.round(1)
	r.state(a, account.Active, "")
}

func TestASweepFinishesWhatIsLeftAndWarns(t *testing.T) {
	t.Parallel()
	k := newTicks()
	r := newRig(t, func(d *health.Deps) { d.Ticker = k.ticker })
	a, _ := r.active(false) // its session lives 30 days
	b, _ := r.active(false)
	if _, err := r.DB.Pool().Exec(t.Context(), `UPDATE account SET disconnecting_at = $2, disconnecting_by = '{}' WHERE id = $1`, b.ID, r.Clock.Now()); err != nil {
		t.Fatal(err)
	}
	r.Clock.Advance(24 * 24 * time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.health.Run(ctx) }()
	k.sweeps <- r.Clock.Now()
	k.rounds <- r.Clock.Now() // taken only by a loop that does not wait for the sweep
	r.health.Sweep(t.Context())
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := r.Accounts.Receipt(t.Context(), b.Org, b.ID); err != nil {
		t.Fatal(err)
	}
	if kinds := r.Kinds(a); kinds[len(kinds)-1] != "account.session_expiring" || len(kinds) != 2 {
		t.Fatal(kinds)
	}
	if kinds := r.Kinds(b); kinds[len(kinds)-1] != "account.disconnected" || len(kinds) != 2 {
		t.Fatal(kinds)
	}
}

// A disconnect ends the session on the platform too.
func TestADisconnectSignsOutUpstream(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, _ := r.active(false)
	_, session, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Accounts.Disconnect(t.Context(), accounttest.By("account.disconnect"), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	_, _, err = r.driver.Probe(t.Context(), a.Via(), session)
	if refused, ok := errors.AsType[*driver.Refused](err); !ok || refused.Kind != catalog.RefusedSession {
		t.Fatalf("the session still works: %v", err)
	}
	r.Clock.Advance(time.Hour)
	r.round(0)
}

// A probe that ends after a new sign-in says nothing about it.
func TestALateProbeOfAnOldSessionChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, _ := r.active(false)
	calls := 0
	r.driver = scripted{r.driver, func(context.Context) (driver.Identity, error) {
		if calls++; calls == 2 {
			c := r.Connected(a.Org, a.UpstreamID)
			if _, err := r.TryConnect(r.Accounts, c); err != nil {
				t.Error(err)
			}
		}
		return driver.Identity{}, refusal(catalog.RefusedSession)
	}}
	r.Clock.Advance(17 * time.Minute)
	r.round(1)
	r.state(a, account.Connecting, "")
}
