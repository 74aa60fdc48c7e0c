package account_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/account/accounttest"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Two nodes call at once and each is given another cookie: both are kept.
func TestTwoNodesRotateAtOnceAndBothCookiesAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := active(t, r, "1")
	nodes := []*account.Accounts{r.Node(nil), r.Node(nil)}
	for round := range 10 {
		cookies := []string{
			fmt.Sprintf("auth_id=1; sess=s%d; lang=l", round),
			fmt.Sprintf("auth_id=1; sess=s; lang=l%d", round),
		}
		changed := [][]string{{"sess"}, {"lang"}}
		seen, _, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		if session.Cookie("sess").Reveal() != fmt.Sprint("s", round) || session.Cookie("lang").Reveal() != fmt.Sprint("l", round) {
			t.Fatalf("round %d: a cookie is lost", round)
		}
		if now.SessionVersion != seen.SessionVersion+2 {
			t.Fatalf("version %d after %d", now.SessionVersion, seen.SessionVersion)
		}
	}
	if v := announced(t, r, a); v != uint32(r.Get(a).SessionVersion) {
		t.Fatalf("nodes are told version %d", v)
	}
}

// announced is the session version that every node learns with its next call.
func announced(t testing.TB, r *accounttest.Rig, a account.Account) uint32 {
	t.Helper()
	o, err := r.Orgs.Get(t.Context(), a.Org)
	if err != nil {
		t.Fatal(err)
	}
	d, err := r.Limits.Admit(t.Context(), admission.Call{Org: a.Org, Account: a.ID, Quota: admission.Read, Epoch: o.Epoch, Limits: &o.Limits})
	if err != nil || d.Degraded || d.Denied != nil {
		t.Fatalf("%+v, %v", d, err)
	}
	return d.SessionVersion
}

func TestARotationOfASessionThatWasReplacedIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := active(t, r, "1")
	again := r.Connected(old.Org, "1")
	again.Session = r.Session("auth_id=1; sess=fresh")
	r.Connect(again)
	if _, err := r.Accounts.Rotate(t.Context(), old, []string{"sess"}, r.Session("auth_id=1; sess=late")); err != nil {
		t.Fatal(err)
	}
	if _, session, err := r.Accounts.Session(t.Context(), old.Org, old.ID); err != nil || session.Cookie("sess").Reveal() != "fresh" {
		t.Fatal("the late cookie of an old session was stored", err)
	}
	// Nor is its death believed.
	_, err := r.Accounts.Trigger(t.Context(), system, old.Org, old.ID, account.Cause{On: account.SessionLost, About: &old})
	if !errors.Is(err, account.ErrStale) {
		t.Fatal(err)
	}
}

func TestNodesHearOfANewVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := active(t, r, "1")
	whose, heard := string(a.ID), make(chan int64, 16)
	ctx, stop := context.WithCancel(t.Context())
	listening := make(chan error, 1)
	go func() {
		listening <- r.Bus.Listen(ctx, account.SessionPattern, func(last string, payload []byte) {
			if version, err := strconv.ParseInt(string(payload), 10, 64); err == nil && last == whose {
				heard <- version
			}
		})
	}()
	// The subscription may need a moment: rotate until one is heard.
	for {
		next, err := r.Accounts.Rotate(t.Context(), a, []string{"lang"}, r.Session("auth_id=1; sess=first; lang=x"))
		if err != nil {
			t.Fatal(err)
		}
		ping, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := r.Bus.Ping(ping); err != nil {
			t.Fatal(err)
		}
		cancel()
		a = next
		select {
		case version := <-heard:
			if version < 2 || version > a.SessionVersion {
				t.Fatalf("heard %d at %d", version, a.SessionVersion)
			}
			stop()
			if err := <-listening; err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
}

func TestASealedSessionOpensAtItsOwnAccountOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := active(t, r, "1"), active(t, r, "2")
	_, err := r.DB.Pool().Exec(t.Context(), `UPDATE account_secret SET sealed = (SELECT sealed FROM account_secret WHERE account_id = $1) WHERE account_id = $2`, a.ID, b.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Accounts.Session(t.Context(), b.Org, b.ID); !errors.Is(err, seal.ErrCorrupt) {
		t.Fatal(err)
	}
}

// A call that succeeded puts the next probe off, and a thousand within a minute are written down once.
func TestASuccessIsWrittenDownOnceAMinuteAndPutsTheProbeOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := active(t, r, "1")
	r.Clock.Advance(10 * time.Minute)
	for range 1000 {
		if err := r.Accounts.Seen(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	first := r.Get(a)
	if !first.LastSeenAt.Equal(r.Clock.Now()) || first.Health.ProbeAt.Before(r.Clock.Now().Add(13*time.Minute)) || first.Health.ProbeAt.After(r.Clock.Now().Add(17*time.Minute)) {
		t.Fatalf("%+v", first.Health)
	}
	r.Clock.Advance(30 * time.Second)
	if err := r.Accounts.Seen(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := r.Get(a); !got.LastSeenAt.Equal(*first.LastSeenAt) {
		t.Fatal("written twice within a minute")
	}
	r.Clock.Advance(31 * time.Second)
	if err := r.Accounts.Seen(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := r.Get(a); !got.LastSeenAt.Equal(r.Clock.Now()) {
		t.Fatal("not written after a minute")
	}
	b := put(t, r, a, account.Cause{On: account.Pause, Reason: account.ReasonPausedByCaller})
	r.Clock.Advance(2 * time.Minute)
	if err := r.Accounts.Seen(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := r.Get(a); got.Health.ProbeAt != nil {
		t.Fatal("a late success started the probes of a paused account")
	}
}

func TestSignInsByTheSystemKeepTheirDistance(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.Connected(r.Org(), "1")
	c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
	a := put(t, r, r.Connect(c), account.Cause{On: account.Proved})
	begin := func() (id.Attempt, error) {
		attempt := id.New[id.Attempt]()
		return attempt, inTx(t, r, func(tx postgres.Tx) (account.After, error) {
			return r.Accounts.BeginReauth(t.Context(), tx, system, a.Org, a.ID, attempt)
		})
	}
	end := func(attempt id.Attempt, o account.ReauthOutcome) error {
		return inTx(t, r, func(tx postgres.Tx) (account.After, error) {
			return r.Accounts.EndReauth(t.Context(), tx, a.Org, a.ID, attempt, o)
		})
	}
	for i, wait := range []time.Duration{0, 15 * time.Minute, 2 * time.Hour} {
		if i > 0 {
			r.Clock.Advance(wait - time.Second)
			if _, err := begin(); !errors.Is(err, account.ErrNoTry) {
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
		is(t, err, problem.AttemptInProgress)
		if err := end(attempt, account.ReauthFailed); err != nil {
			t.Fatal(err)
		}
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

func inTx(t testing.TB, r *accounttest.Rig, do func(tx postgres.Tx) (account.After, error)) error {
	t.Helper()
	var after account.After
	err := r.DB.Tx(t.Context(), func(tx postgres.Tx) (err error) {
		after, err = do(tx)
		return err
	})
	if err == nil {
		after(t.Context())
	}
	return err
}

// Of two sign-ins for one account only the one with the lease is believed.
func TestALateSignInIsFencedOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.Connected(r.Org(), "1")
	c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
	a := put(t, r, r.Connect(c), account.Cause{On: account.Proved})
	by := accounttest.By("account.reauthenticate")
	begin := func() id.Attempt {
		t.Helper()
		attempt := id.New[id.Attempt]()
		err := inTx(t, r, func(tx postgres.Tx) (account.After, error) {
			return r.Accounts.BeginReauth(t.Context(), tx, by, a.Org, a.ID, attempt)
		})
		if err != nil {
			t.Fatal(err)
		}
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
	if err := inTx(t, r, func(tx postgres.Tx) (account.After, error) {
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

func TestAnAccountIsSignedInAgainOnlyWhereTheMachineAllowsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, test := range map[string]struct {
		causes []account.Cause
		forget bool
		kind   problem.Kind
	}{
		"without credentials": {[]account.Cause{{On: account.Proved}}, true, problem.CredentialsMissing},
		"paused":              {[]account.Cause{{On: account.Pause}}, false, problem.AccountPaused},
		"restricted":          {[]account.Cause{{On: account.Banned}}, false, problem.UpstreamAccountRestricted},
	} {
		c := r.Connected(r.Org(), name)
		if !test.forget {
			c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
		}
		a := r.Connect(c)
		for _, cause := range test.causes {
			a = put(t, r, a, cause)
		}
		err := inTx(t, r, func(tx postgres.Tx) (account.After, error) {
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

// A caller who asks before the prober came by need not wait for it: the connect has proved the session.
func TestAConnectingAccountCanBeSignedInAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.Connected(r.Org(), "1")
	c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
	a := r.Connect(c)
	err := inTx(t, r, func(tx postgres.Tx) (account.After, error) {
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
	r := newRig(t)
	a := active(t, r, "1") // its session lives 30 days
	warn := func() int {
		t.Helper()
		n, err := r.Accounts.Warn(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for i, step := range []struct {
		pass time.Duration
		told int
	}{{0, 0}, {22 * 24 * time.Hour, 0}, {25 * time.Hour, 1}, {time.Hour, 0}, {6 * 24 * time.Hour, 1}, {48 * time.Hour, 0}} {
		r.Clock.Advance(step.pass)
		if n := warn(); n != step.told {
			t.Fatalf("step %d: told %d", i, n)
		}
	}
	events := r.Events(a)
	for i, days := range []string{`"daysLeft": 7`, `"daysLeft": 1`} {
		e := events[len(events)-2+i]
		if e.Kind != "account.session_expiring" || !contains(e.Data, days) || !contains(e.Data, "sessionExpiresAt") {
			t.Fatalf("%s %s", e.Kind, e.Data)
		}
	}
	if org.EnvSandbox != a.Environment {
		t.Fatal(a.Environment)
	}
}

// Of many workers each takes other accounts, and takes none twice within a lease.
func TestDueAccountsAreTakenByOneWorkerEach(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	owner := r.Org()
	fillFrom(t, r, string(owner), 0, 2000)
	r.Clock.Advance(20 * time.Minute)
	var (
		wait  sync.WaitGroup
		mu    sync.Mutex
		taken = map[id.Account]int{}
	)
	take := func(node *account.Accounts) {
		for shard := range account.Shards {
			for {
				list, err := node.Due(t.Context(), shard, 50, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				if len(list) == 0 {
					break
				}
				mu.Lock()
				for _, ref := range list {
					taken[ref.Account]++
				}
				mu.Unlock()
			}
		}
	}
	for range 4 {
		wait.Go(func() { take(r.Node(nil)) })
	}
	wait.Wait()
	if len(taken) != 2000 {
		t.Fatalf("%d taken", len(taken))
	}
	for ref, times := range taken {
		if times != 1 {
			t.Fatalf("%s taken %d times", ref, times)
		}
	}
	// Whoever took them died: when the leases end, they are due again.
	r.Clock.Advance(61 * time.Second)
	take(r.Accounts)
	for ref, times := range taken {
		if times != 2 {
			t.Fatalf("%s taken %d times", ref, times)
		}
	}
}
