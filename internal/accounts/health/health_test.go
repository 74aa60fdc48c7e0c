package health_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/health"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
)

func TestTheFirstGoodProbeMakesAnAccountActive(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connect("ok", false)
	r.runRound(1)
	a = r.wantState(a, account.Active, "")
	if a.LastCheckedAt == nil || !a.LastCheckedAt.Equal(r.Clock.Now()) || r.requestCount(login) != 1 {
		t.Fatalf("%v, %d requests", a.LastCheckedAt, r.requestCount(login))
	}
	r.wantLastEvent(a, "account.connected")
	r.runRound(0)
}

// An idle account is probed every quarter of an hour; an account in use is not.
func TestOnlyIdleAccountsAreProbed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(false)
	r.Clock.Advance(13 * time.Minute)
	r.runRound(0)
	r.Accounts.RecordSeen(t.Context(), a)
	must.OK(t, r.Accounts.WriteSeen(t.Context()))
	r.Clock.Advance(13 * time.Minute)
	r.runRound(0)
	if n := r.requestCount(login); n != 0 {
		t.Fatalf("%d requests", n)
	}
	r.Clock.Advance(4 * time.Minute)
	r.runRound(1)
	a = r.wantState(a, account.Active, "")
	if n := r.requestCount(login); n != 1 || !a.LastSeenAt.Equal(r.Clock.Now()) {
		t.Fatalf("%d requests", n)
	}
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected"}) {
		t.Fatal(kinds)
	}
}

func TestOneRefusalDoesNotMakeASessionDead(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(false)
	r.addFault(login, "error", 401, 1)
	r.Clock.Advance(17 * time.Minute)
	r.runRound(1)
	r.wantState(a, account.Active, "")
	if n := r.requestCount(login); n != 2 {
		t.Fatalf("%d requests", n)
	}
}

func TestDeadSessionWithoutCredentialsNeedsAReconnect(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(false)
	r.endSessions(login)
	r.Clock.Advance(17 * time.Minute)
	r.runRound(1)
	a = r.wantState(a, account.ReconnectRequired, "session_expired")
	data := r.wantLastEvent(a, "account.reconnect_required")
	if data["from"] != "active" || data["userAction"] != "reconnect" || data["connectUrl"] == nil ||
		r.requestCount("") != 2 {
		t.Fatalf("%v, %d requests", data, r.requestCount(""))
	}
	r.Clock.Advance(24 * time.Hour)
	r.runRound(0) // a dead session is not probed
}

func TestADeadSessionWithCredentialsIsReplaced(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(true)
	r.endSessions(login)
	r.Clock.Advance(17 * time.Minute)
	r.runRound(1)
	a = r.wantState(a, account.Reauthenticating, "session_expired")
	if len(r.signIns.began) != 1 || r.wantLastEvent(a,
		"account.reauthenticating")["attemptId"] != string(r.signIns.began[0]) || a.PendingAttempt != r.signIns.began[0] {
		t.Fatalf("%v", r.signIns.began)
	}
	r.Clock.Advance(10 * time.Minute)
	r.runRound(0) // it is being signed in
	// The worker of the attempt died: the next try starts automatically, and there are at most three a day.
	for range 40 {
		r.Clock.Advance(30 * time.Minute)
		r.health.Round(t.Context())
	}
	r.wantState(a, account.ReconnectRequired, "session_expired")
	if len(r.signIns.began) != 3 {
		t.Fatalf("%d sign-ins", len(r.signIns.began))
	}
}

func TestSignInThatCannotStartIsRetried(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(true)
	r.endSessions(login)
	r.signIns.fails = problem.ConnectUnavailable.New("not now")
	r.Clock.Advance(17 * time.Minute)
	r.runRound(1)
	r.wantState(a, account.Reauthenticating, "session_expired")
	if r.wantLastEvent(a, "account.reauthenticating")["attemptId"] != nil {
		t.Fatal("the event names an attempt that does not exist")
	}
	r.signIns.fails = nil
	r.Clock.Advance(61 * time.Second)
	r.runRound(1)
	if got := r.Get(a); len(r.signIns.began) != 1 || got.PendingAttempt != r.signIns.began[0] {
		t.Fatalf("%+v", got)
	}
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected", "account.reauthenticating"}) {
		t.Fatal(kinds)
	}
}

func TestABannedAccountIsRestricted(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connect("restricted", false)
	r.control("POST", "clock", map[string]any{"advance_sec": 6})
	r.runRound(1)
	a = r.wantState(a, account.Restricted, "locked")
	data := r.wantLastEvent(a, "account.restricted")
	if data["upstreamCode"] != float64(1024) || data["upstreamMessage"] == "" || data["userAction"] != "open_native" {
		t.Fatalf("%v", data)
	}
	r.clearRequests()
	r.Clock.Advance(5 * time.Hour)
	r.runRound(0)
	r.Clock.Advance(2 * time.Hour)
	r.runRound(1)
	r.wantState(a, account.Restricted, "locked")
	if kinds := r.Kinds(a); len(kinds) != 1 || r.requestCount(login) != 1 {
		t.Fatal(kinds)
	}
}

// Three failures within a minute degrade the account, two successes end that, and probes become rarer in between.
func TestFailuresOfThePlatformDegradeTheAccountUntilTheyEnd(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(false)
	r.addFault(login, "error", 503, 0)
	r.Clock.Advance(17 * time.Minute)
	for range 2 {
		r.runRound(1)
		r.wantState(a, account.Active, "")
		r.Clock.Advance(11 * time.Second)
	}
	r.runRound(1)
	a = r.wantState(a, account.Degraded, "upstream_unavailable")
	if data := r.wantLastEvent(a, "account.degraded"); data["sinceSec"] != float64(22) || data["userAction"] != "wait" {
		t.Fatalf("%v", data)
	}
	if _, _, err := r.Accounts.Session(t.Context(), a.Org, a.ID); err != nil {
		t.Fatalf("a call failed while degraded: %v", err)
	}
	var waits []time.Duration
	for range 6 {
		wait := r.Get(a).Health.ProbeAt.Sub(r.Clock.Now())
		waits = append(waits, wait)
		r.Clock.Advance(wait)
		r.runRound(1)
	}
	if waits[0] > 33*time.Second || waits[0] < 27*time.Second || waits[5] < 270*time.Second || waits[5] > 330*time.Second {
		t.Fatalf("the waits between probes are %v", waits)
	}
	r.control("DELETE", "faults", nil)
	for range 2 {
		r.wantState(a, account.Degraded, "upstream_unavailable")
		r.Clock.Advance(r.Get(a).Health.ProbeAt.Sub(r.Clock.Now()))
		r.runRound(1)
	}
	a = r.wantState(a, account.Active, "")
	r.wantLastEvent(a, "account.recovered")
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected", "account.degraded", "account.recovered"}) {
		t.Fatal(kinds)
	}
}

func TestFailuresThatAreFarApartDoNotDegradeTheAccount(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(false)
	for range 4 {
		r.addFault(login, "error", 500, 1)
		r.Clock.Advance(17 * time.Minute)
		r.runRound(1) // fails
		r.Clock.Advance(11 * time.Second)
		r.runRound(1) // is fine again
		r.wantState(a, account.Active, "")
	}
}

func TestAccountIsDegradedWithEgressDownWhenItsProxyIsDown(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, _ := r.connectActive(false)
	for _, p := range slices.Concat(r.platform.US, r.platform.UK) {
		p.Kill()
	}
	r.Clock.Advance(17 * time.Minute)
	for range 3 {
		r.runRound(1)
		r.Clock.Advance(11 * time.Second)
	}
	r.wantState(a, account.Degraded, "egress_down")
}

func TestRateLimitPostponesProbesAndPausesCalls(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(false)
	r.addFault(login, "rate_limit", 600, 1)
	r.Clock.Advance(17 * time.Minute)
	r.runRound(1)
	if a = r.wantState(a, account.Active, ""); a.Health.ProbeAt.Before(r.Clock.Now().Add(10 * time.Minute)) {
		t.Fatalf("the next probe is at %s", a.Health.ProbeAt)
	}
	o, err := r.Orgs.Get(t.Context(), a.Org)
	must.OK(t, err)
	d, err := r.Limits.Admit(t.Context(), admission.Call{Org: a.Org, Account: a.ID, Quota: admission.Read, Epoch: o.Epoch, Limits: &o.Limits})
	if err != nil || d.Denied == nil || !d.Denied.CoolDown {
		t.Fatalf("%+v, %v", d, err)
	}
}

// The platform sometimes changes a cookie in a response; the next request uses the new one.
func TestCookieFromAProbeIsStored(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, _ := r.connectActive(false)
	_, before, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
	must.OK(t, err)
	r.control("POST", "clock", map[string]any{"advance_sec": 31 * 60})
	r.Clock.Advance(17 * time.Minute)
	r.runRound(1)
	_, after, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
	if err != nil || after.Cookie("sess").Equal(before.Cookie("sess")) {
		t.Fatal("the session did not rotate", err)
	}
	r.control("POST", "clock", map[string]any{"advance_sec": 5 * 60}) // the old cookie has expired
	r.Clock.Advance(17 * time.Minute)
	r.runRound(1)
	r.wantState(a, account.Active, "")
}

func TestAPausedAccountIsNotProbed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connectActive(false)
	if _, err := r.Accounts.Pause(t.Context(), accounttest.By("account.pause"), a.Org, a.ID, account.ReasonPausedByCaller); err != nil {
		t.Fatal(err)
	}
	r.Clock.Advance(time.Hour)
	r.runRound(0)
	_, err := r.health.Profile(t.Context(), a.Org, a.ID)
	if !errors.Is(err, problem.AccountPaused.New("")) || r.requestCount(login) != 0 {
		t.Fatal(err)
	}
	if _, err := r.Accounts.Resume(t.Context(), accounttest.By("account.resume"), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	r.runRound(1)
	r.wantState(a, account.Active, "")
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected", "account.paused", "account.resumed", "account.reconnected"}) {
		t.Fatal(kinds)
	}
}

func TestTheSessionsOfASuspendedOrgAreNotUsed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, login := r.connect("ok", false)
	if _, err := r.DB.Pool().Exec(t.Context(), `UPDATE org SET suspended_at = now() WHERE id = $1`, a.Org); err != nil {
		t.Fatal(err)
	}
	r.runRound(1)
	r.wantState(a, account.Connecting, "")
	if n := r.requestCount(login); n != 0 {
		t.Fatalf("%d requests", n)
	}
}

// If a worker claims a probe and dies, another worker gets it when the lease expires.
func TestProbeOfADeadWorkerIsClaimedByAnother(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, _ := r.connect("ok", false)
	taken := 0
	for shard := range account.Shards {
		list, err := r.Node(nil).ClaimProbes(t.Context(), shard, 10, time.Minute)
		must.OK(t, err)
		taken += len(list)
	}
	if taken != 1 {
		t.Fatal(taken)
	}
	r.runRound(0)
	r.Clock.Advance(61 * time.Second)
	r.runRound(1)
	r.wantState(a, account.Active, "")
}

// scripted is a driver whose probes return what a test decides.
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

func TestRestrictedAccountRecoversOrNeedsAReconnect(t *testing.T) {
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
			r := newFixture(t)
			a, _ := r.connectActive(true)
			answer := refusal(catalog.RefusedRestricted)
			r.driver = scripted{r.driver, func(context.Context) (driver.Identity, error) { return driver.Identity{ID: a.UpstreamID}, answer }}
			r.Clock.Advance(17 * time.Minute)
			r.runRound(1)
			a = r.wantState(a, account.Restricted, "locked")
			answer = test.err
			r.Clock.Advance(7 * time.Hour)
			r.runRound(1)
			if got := r.Get(a); got.State != test.state {
				t.Fatal(got.State)
			}
			r.wantLastEvent(a, test.event)
		})
	}
}

func TestSessionOfAnotherCreatorIsDead(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, _ := r.connectActive(false)
	r.driver = scripted{r.driver, func(context.Context) (driver.Identity, error) { return driver.Identity{ID: "another"}, nil }}
	r.Clock.Advance(17 * time.Minute)
	r.runRound(1)
	r.wantState(a, account.ReconnectRequired, "logged_out")
}

// manualTickers are tickers that a test fires.
type manualTickers struct {
	rounds, sweeps chan time.Time
	stopped        chan struct{}
}

func newManualTickers() *manualTickers {
	return &manualTickers{make(chan time.Time), make(chan time.Time), make(chan struct{}, 2)}
}

func (k *manualTickers) ticker(d time.Duration) (<-chan time.Time, func()) {
	stop := func() { k.stopped <- struct{}{} }
	if d < time.Second {
		return k.rounds, stop
	}
	return k.sweeps, stop
}

// A node that is stopped during a probe releases it immediately and leaves nothing running.
func TestStoppedNodeReleasesItsProbes(t *testing.T) {
	t.Parallel()
	k := newManualTickers()
	r := newFixture(t, func(d *health.Deps) { d.Ticker = k.ticker })
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
	must.OK(t, <-ended)
	<-k.stopped
	<-k.stopped
	r.driver = real
	r.runRound(1)
	r.wantState(a, account.Active, "")
}

func TestSweepFinishesDisconnectsAndWarns(t *testing.T) {
	t.Parallel()
	k := newManualTickers()
	r := newFixture(t, func(d *health.Deps) { d.Ticker = k.ticker })
	a, _ := r.connectActive(false) // its session lives 30 days
	b, _ := r.connectActive(false)
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
	must.OK(t, <-ended)
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

// A disconnect also ends the session on the platform.
func TestADisconnectSignsOutUpstream(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, _ := r.connectActive(false)
	_, session, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
	must.OK(t, err)
	must.OK(t, r.Accounts.Disconnect(t.Context(), accounttest.By("account.disconnect"), a.Org, a.ID))
	_, _, err = r.driver.Probe(t.Context(), a.Via(), session)
	if refused, ok := errors.AsType[*driver.Refused](err); !ok || refused.Kind != catalog.RefusedSession {
		t.Fatalf("the session still works: %v", err)
	}
	r.Clock.Advance(time.Hour)
	r.runRound(0)
}

// A probe that ends after a new sign-in is ignored.
func TestALateProbeOfAnOldSessionChangesNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, _ := r.connectActive(false)
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
	r.runRound(1)
	r.wantState(a, account.Connecting, "")
}
