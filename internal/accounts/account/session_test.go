package account_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// The platform changes a cookie while the database cannot be reached. When it is back, the newest cookies are stored: the
// old ones may be invalid by then.
func TestCookiesOfAnOutageAreStoredAfterIt(t *testing.T) {
	t.Parallel()
	server := testenv.PrivatePostgres(t, io.Discard)
	link := testenv.NewSwitch(t, server)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: link.URL, MaxConns: 8, Name: "test"})
	must.OK(t, err)
	t.Cleanup(db.Close)
	r := accounttest.New(t, accounttest.Engines{DB: db}, nil)
	a := connectActive(t, r, "1")
	link.Cut()
	for _, change := range [][2]string{{"sess", "auth_id=1; sess=old; lang=de"}, {"lang", "auth_id=1; sess=old; lang=en"}, {"sess", "auth_id=1; sess=new; lang=de"}} {
		if _, err := r.Accounts.Rotate(t.Context(), a, change[:1], r.Session(change[1])); err == nil {
			t.Fatal("the cookies were stored without a database")
		}
	}
	link.To(server)
	testenv.Await(t, "the newest cookies", func() bool {
		_, session, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
		return err == nil && session.Cookie("sess").Reveal() == "new" && session.Cookie("lang").Reveal() == "en"
	})
}

// Two nodes call concurrently and the platform changes a different cookie for each: both are kept.
func TestConcurrentRotationsKeepBothCookies(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := connectActive(t, r, "1")
	nodes := []*account.Accounts{r.Node(nil), r.Node(nil)}
	for round := range 10 {
		cookies := []string{
			fmt.Sprintf("auth_id=1; sess=s%d; lang=l", round),
			fmt.Sprintf("auth_id=1; sess=s; lang=l%d", round),
		}
		changed := [][]string{{"sess"}, {"lang"}}
		seen, _, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
		must.OK(t, err)
		var wait sync.WaitGroup
		for i, node := range nodes {
			wait.Go(func() {
				if _, err := node.Rotate(t.Context(), seen, changed[i], r.Session(cookies[i])); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		now, session, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
		must.OK(t, err)
		if session.Cookie("sess").Reveal() != fmt.Sprint("s", round) || session.Cookie("lang").Reveal() != fmt.Sprint("l", round) {
			t.Fatalf("round %d: a cookie is lost", round)
		}
		if now.SessionVersion != seen.SessionVersion+2 {
			t.Fatalf("version %d after %d", now.SessionVersion, seen.SessionVersion)
		}
	}
	if v := publishedVersion(t, r, a); v != uint32(r.Get(a).SessionVersion) {
		t.Fatalf("the published version is %d", v)
	}
}

// publishedVersion returns the session version that every node gets with its next admission.
func publishedVersion(t testing.TB, r *accounttest.Fixture, a account.Account) uint32 {
	t.Helper()
	o, err := r.Orgs.Get(t.Context(), a.Org)
	must.OK(t, err)
	d, err := r.Limits.Admit(t.Context(), admission.Call{Org: a.Org, Account: a.ID, Quota: admission.Read, Epoch: o.Epoch, Limits: &o.Limits})
	if err != nil || d.Degraded || d.Denied != nil {
		t.Fatalf("%+v, %v", d, err)
	}
	return d.SessionVersion
}

func TestARotationOfASessionThatWasReplacedIsDropped(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	old := connectActive(t, r, "1")
	again := r.Connected(old.Org, "1")
	again.Session = r.Session("auth_id=1; sess=fresh")
	r.Connect(again)
	if _, err := r.Accounts.Rotate(t.Context(), old, []string{"sess"}, r.Session("auth_id=1; sess=late")); err != nil {
		t.Fatal(err)
	}
	if _, session, err := r.Accounts.Session(t.Context(), old.Org, old.ID); err != nil || session.Cookie("sess").Reveal() != "fresh" {
		t.Fatal("the late cookie of an old session was stored", err)
	}
	// An observation that it is dead is ignored as well.
	_, err := r.Accounts.Trigger(t.Context(), system, old.Org, old.ID,
		account.Cause{On: account.SessionLost, Observed: &old})
	if !errors.Is(err, account.ErrStale) {
		t.Fatal(err)
	}
}

func TestNewVersionIsPublished(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := connectActive(t, r, "1")
	whose, heard := string(a.ID), make(chan int64, 16)
	ctx, stop := context.WithCancel(t.Context())
	listening := make(chan error, 1)
	go func() {
		listening <- r.Bus.Subscribe(ctx, account.SessionPattern, func(last string, payload []byte) {
			if version, err := strconv.ParseInt(string(payload), 10, 64); err == nil && last == whose {
				heard <- version
			}
		})
	}()
	// The subscription may need a moment: rotate until a message arrives.
	for {
		next, err := r.Accounts.Rotate(t.Context(), a, []string{"lang"}, r.Session("auth_id=1; sess=first; lang=x"))
		must.OK(t, err)
		ping, cancel := context.WithTimeout(t.Context(), time.Minute)
		must.OK(t, r.Bus.Ping(ping))
		cancel()
		a = next
		select {
		case version := <-heard:
			if version < 2 || version > a.SessionVersion {
				t.Fatalf("received version %d at %d", version, a.SessionVersion)
			}
			stop()
			must.OK(t, <-listening)
			return
		default:
		}
	}
}

func TestASealedSessionOpensAtItsOwnAccountOnly(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, b := connectActive(t, r, "1"), connectActive(t, r, "2")
	_, err := r.DB.Pool().Exec(t.Context(), `UPDATE account_secret SET sealed = (SELECT sealed FROM account_secret WHERE account_id = $1) WHERE account_id = $2`, a.ID, b.ID)
	must.OK(t, err)
	if _, _, err := r.Accounts.Session(t.Context(), b.Org, b.ID); !errors.Is(err, seal.ErrCorrupt) {
		t.Fatal(err)
	}
}

// A successful call postpones the next probe, and a thousand of them within a minute are written once.
func TestSuccessIsRecordedOnceAMinuteAndPostponesTheProbe(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := connectActive(t, r, "1")
	r.Clock.Advance(10 * time.Minute)
	for range 1000 {
		r.Accounts.RecordSeen(t.Context(), a)
	}
	must.OK(t, r.Accounts.WriteSeen(t.Context()))
	first := r.Get(a)
	if !first.LastSeenAt.Equal(r.Clock.Now()) || first.Health.ProbeAt.Before(r.Clock.Now().Add(13*time.Minute)) || first.Health.ProbeAt.After(r.Clock.Now().Add(17*time.Minute)) {
		t.Fatalf("%+v", first.Health)
	}
	r.Clock.Advance(30 * time.Second)
	r.Accounts.RecordSeen(t.Context(), a)
	must.OK(t, r.Accounts.WriteSeen(t.Context()))
	if got := r.Get(a); !got.LastSeenAt.Equal(*first.LastSeenAt) {
		t.Fatal("written twice within a minute")
	}
	r.Clock.Advance(31 * time.Second)
	r.Accounts.RecordSeen(t.Context(), a)
	must.OK(t, r.Accounts.WriteSeen(t.Context()))
	if got := r.Get(a); !got.LastSeenAt.Equal(r.Clock.Now()) {
		t.Fatal("not written after a minute")
	}
	b := trigger(t, r, a, account.Cause{On: account.Pause, Reason: account.ReasonPausedByCaller})
	r.Clock.Advance(2 * time.Minute)
	r.Accounts.RecordSeen(t.Context(), b)
	must.OK(t, r.Accounts.WriteSeen(t.Context()))
	if got := r.Get(a); got.Health.ProbeAt != nil {
		t.Fatal("a late success started the probes of a paused account")
	}
}

func TestAutomaticSignInsAreLimited(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	c := r.Connected(r.Org(), "1")
	c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
	a := trigger(t, r, r.Connect(c), account.Cause{On: account.ProbePassed})
	begin := func() (id.Attempt, error) {
		attempt := id.New[id.Attempt]()
		return attempt, inTx(t, r, func(tx postgres.Tx) (account.AfterCommit, error) {
			return r.Accounts.BeginReauth(t.Context(), tx, system, a.Org, a.ID, attempt)
		})
	}
	end := func(attempt id.Attempt, o account.ReauthOutcome) error {
		return inTx(t, r, func(tx postgres.Tx) (account.AfterCommit, error) {
			return r.Accounts.EndReauth(t.Context(), tx, a.Org, a.ID, attempt, o)
		})
	}
	for i, wait := range []time.Duration{0, 15 * time.Minute, 2 * time.Hour} {
		if i > 0 {
			r.Clock.Advance(wait - time.Second)
			if _, err := begin(); !errors.Is(err, account.ErrReauthLimit) {
				t.Fatalf("try %d too soon: %v", i, err)
			}
			r.Clock.Advance(time.Second)
		}
		attempt, err := begin()
		if err != nil {
			t.Fatalf("try %d: %v", i, err)
		}
		if got := r.Get(a); got.State != account.Reauthenticating || got.PendingAttempt != attempt {
			t.Fatalf("%+v", got)
		}
		_, err = begin()
		wantProblem(t, err, problem.AttemptInProgress)
		must.OK(t, end(attempt, account.ReauthFailed))
	}
	if got := r.Get(a); got.State != account.ReconnectRequired || got.PendingAttempt != "" {
		t.Fatalf("the tries are used up: %+v", got)
	}
	if _, ok := r.Get(a).NextReauth(r.Clock.Now()); ok {
		t.Fatal("a fourth try")
	}
	r.Clock.Advance(24 * time.Hour)
	if _, ok := r.Get(a).NextReauth(r.Clock.Now()); !ok {
		t.Fatal("no try on the next day")
	}
	want := []string{"account.connected", "account.reauthenticating", "account.reconnect_required"}
	if kinds := r.Kinds(a); fmt.Sprint(kinds) != fmt.Sprint(want) {
		t.Fatal(kinds)
	}
}

func inTx(t testing.TB, r *accounttest.Fixture, do func(tx postgres.Tx) (account.AfterCommit, error)) error {
	t.Helper()
	var after account.AfterCommit
	err := r.DB.Tx(t.Context(), func(tx postgres.Tx) (err error) {
		after, err = do(tx)
		return err
	})
	if err == nil {
		after(t.Context())
	}
	return err
}

// Of two sign-ins for one account only the one that holds the lease is accepted.
func TestALateSignInIsFencedOff(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	c := r.Connected(r.Org(), "1")
	c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
	a := trigger(t, r, r.Connect(c), account.Cause{On: account.ProbePassed})
	by := accounttest.By("account.reauthenticate")
	begin := func() id.Attempt {
		t.Helper()
		attempt := id.New[id.Attempt]()
		err := inTx(t, r, func(tx postgres.Tx) (account.AfterCommit, error) {
			return r.Accounts.BeginReauth(t.Context(), tx, by, a.Org, a.ID, attempt)
		})
		must.OK(t, err)
		return attempt
	}
	lost := begin()
	r.Clock.Advance(time.Hour) // its worker died, and so did its lease
	taken := begin()
	finish := func(attempt id.Attempt, sess string) (account.Account, error) {
		late := r.Connected(a.Org, "1")
		late.Account, late.Attempt, late.Kind, late.Session = a.ID, attempt, account.KindReauth, r.Session("auth_id=1; sess="+sess)
		return r.TryConnect(r.Accounts, late)
	}
	if _, err := finish(lost, "late"); !errors.Is(err, account.ErrFenced) {
		t.Fatal(err)
	}
	if err := inTx(t, r, func(tx postgres.Tx) (account.AfterCommit, error) {
		return r.Accounts.EndReauth(t.Context(), tx, a.Org, a.ID, lost, account.ReauthRefused)
	}); err != nil {
		t.Fatal(err)
	}
	if got := r.Get(a); got.State != account.Reauthenticating {
		t.Fatalf("a late failure counted: %s", got.State)
	}
	b, err := finish(taken, "taken")
	if err != nil || b.State != account.Active || !b.RememberCredentials {
		t.Fatalf("%+v, %v", b, err)
	}
	if _, session, err := r.Accounts.Session(t.Context(), a.Org, a.ID); err != nil || session.Cookie("sess").Reveal() != "taken" {
		t.Fatal(err)
	}
	if kinds := r.Kinds(a); fmt.Sprint(kinds) != "[account.connected account.reauthenticating account.reconnected]" {
		t.Fatal(kinds)
	}
}

func TestReauthIsAllowedOnlyWhereTheMachineHasAnEdge(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	for name, test := range map[string]struct {
		causes []account.Cause
		forget bool
		kind   problem.Kind
	}{
		"without credentials": {[]account.Cause{{On: account.ProbePassed}}, true, problem.CredentialsMissing},
		"paused":              {[]account.Cause{{On: account.Pause}}, false, problem.AccountPaused},
		"restricted":          {[]account.Cause{{On: account.Banned}}, false, problem.UpstreamAccountRestricted},
	} {
		c := r.Connected(r.Org(), name)
		if !test.forget {
			c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
		}
		a := r.Connect(c)
		for _, cause := range test.causes {
			a = trigger(t, r, a, cause)
		}
		err := inTx(t, r, func(tx postgres.Tx) (account.AfterCommit, error) {
			return r.Accounts.BeginReauth(t.Context(), tx, accounttest.By("account.reauthenticate"), a.Org, a.ID, id.New[id.Attempt]())
		})
		if !errors.Is(err, test.kind.New("")) {
			t.Errorf("%s: %v", name, err)
		}
		if got := r.Get(a); got.State != a.State {
			t.Errorf("%s: moved to %s", name, got.State)
		}
	}
}

// A caller can ask before the first probe: the connect has already verified the session.
func TestAConnectingAccountCanBeSignedInAgain(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	c := r.Connected(r.Org(), "1")
	c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
	a := r.Connect(c)
	err := inTx(t, r, func(tx postgres.Tx) (account.AfterCommit, error) {
		return r.Accounts.BeginReauth(t.Context(), tx, accounttest.By("account.reauthenticate"), a.Org, a.ID, id.New[id.Attempt]())
	})
	if got := r.Get(a); err != nil || got.State != account.Reauthenticating {
		t.Fatalf("%s, %v", got.State, err)
	}
	if kinds := r.Kinds(a); fmt.Sprint(kinds) != "[account.connected account.reauthenticating]" {
		t.Fatal(kinds)
	}
}

func TestAnOrgIsWarnedTwiceThatASessionEnds(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := connectActive(t, r, "1") // its session lives 30 days
	warn := func() int {
		t.Helper()
		n, err := r.Accounts.WarnExpiring(t.Context(), 10)
		must.OK(t, err)
		return n
	}
	for i, step := range []struct {
		pass   time.Duration
		warned int
	}{{0, 0}, {22 * 24 * time.Hour, 0}, {25 * time.Hour, 1}, {time.Hour, 0}, {6 * 24 * time.Hour, 1}, {48 * time.Hour, 0}} {
		r.Clock.Advance(step.pass)
		if n := warn(); n != step.warned {
			t.Fatalf("step %d: warned %d", i, n)
		}
	}
	events := r.Events(a)
	for i, days := range []string{`"daysLeft": 7`, `"daysLeft": 1`} {
		e := events[len(events)-2+i]
		if e.Kind != "account.session_expiring" || !contains(e.Data, days) || !contains(e.Data, "sessionExpiresAt") {
			t.Fatalf("%s %s", e.Kind, e.Data)
		}
	}
	if environment.Sandbox != a.Environment {
		t.Fatal(a.Environment)
	}
}

// No two workers claim the same probe, and none claims a probe twice within a lease.
func TestDueProbeIsClaimedByOneWorker(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	owner := r.Org()
	insertAccounts(t, r, string(owner), 0, 2000)
	r.Clock.Advance(20 * time.Minute)
	var (
		wait    sync.WaitGroup
		mu      sync.Mutex
		claimed = map[id.Account]int{}
	)
	claimAll := func(node *account.Accounts) {
		for shard := range account.Shards {
			for {
				list, err := node.ClaimProbes(t.Context(), shard, 50, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if len(list) == 0 {
					break
				}
				mu.Lock()
				for _, ref := range list {
					claimed[ref.Account]++
				}
				mu.Unlock()
			}
		}
	}
	for range 4 {
		wait.Go(func() { claimAll(r.Node(nil)) })
	}
	wait.Wait()
	if len(claimed) != 2000 {
		t.Fatalf("%d claimed", len(claimed))
	}
	for ref, times := range claimed {
		if times != 1 {
			t.Fatalf("%s claimed %d times", ref, times)
		}
	}
	// The workers died: when their leases expire, the probes are due again.
	r.Clock.Advance(61 * time.Second)
	claimAll(r.Accounts)
	for ref, times := range claimed {
		if times != 2 {
			t.Fatalf("%s claimed %d times", ref, times)
		}
	}
}
