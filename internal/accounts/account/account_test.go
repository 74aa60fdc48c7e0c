package account_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
)

func newFixture(t testing.TB, change ...func(*account.Deps)) *accounttest.Fixture {
	t.Helper()
	return accounttest.New(t, accounttest.Engines{}, func(d *account.Deps) {
		for _, c := range change {
			c(d)
		}
	})
}

var system = audit.By{Kind: audit.ActorSystem, ID: "test"}

func wantProblem(t testing.TB, err error, kind problem.Kind) {
	t.Helper()
	if !errors.Is(err, kind.New("")) {
		t.Fatalf("want %s, got %v", kind.Code, err)
	}
}

func trigger(t testing.TB, r *accounttest.Fixture, a account.Account, c account.Cause) account.Account {
	t.Helper()
	next, err := r.Accounts.Trigger(t.Context(), system, a.Org, a.ID, c)
	must.OK(t, err)
	return next
}

func connectActive(t testing.TB, r *accounttest.Fixture, creator string) account.Account {
	t.Helper()
	return trigger(t, r, r.Connect(r.Connected(r.Org(), creator)), account.Cause{On: account.ProbePassed})
}

func TestSignInBecomesAnAccountWithItsSessionSealed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	c := r.Connected(r.Org(), "90210")
	c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("luna@sandbox.test"), Password: secret.New("planted-password")}
	c.Session, c.ReferenceID, c.Metadata = r.Session("auth_id=90210; sess=planted-cookie"), "user_456", map[string]string{"team": "a"}
	a := r.Connect(c)
	if a.State != account.Connecting || a.UpstreamID != "90210" || !a.RememberCredentials || a.Attempt != c.Attempt {
		t.Fatalf("%+v", a)
	}
	_, session, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
	if err != nil || session.Cookie("sess").Reveal() != "planted-cookie" {
		t.Fatal(err)
	}
	known, err := r.Accounts.Credentials(t.Context(), a.Org, a.ID)
	if err != nil || known.Email.Reveal() != "luna@sandbox.test" || known.Password.Reveal() != "planted-password" {
		t.Fatal(err)
	}
	var kept []byte
	if err := r.DB.Pool().QueryRow(t.Context(), `SELECT string_agg(sealed, '') FROM account_secret WHERE account_id = $1`, a.ID).Scan(&kept); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(kept, []byte("planted")) {
		t.Fatal("a secret is stored in plain text")
	}
	agreed, err := r.Accounts.Consents(t.Context(), a.Org, a.ID)
	if err != nil || len(agreed) != 1 || agreed[0].Who != "caller" || agreed[0].Attempt != c.Attempt || agreed[0].TextHash != "abc" {
		t.Fatalf("%+v, %v", agreed, err)
	}
	entries, err := r.Audit.Choose(t.Context(), a.Org, audit.Filter{Target: string(a.ID)}, 0, 10)
	if err != nil || len(entries) != 1 || entries[0].By.Action != "account.connect" || bytes.Contains(entries[0].Changes, []byte("planted")) {
		t.Fatalf("%+v, %v", entries, err)
	}
	if kinds := r.Kinds(a); len(kinds) != 0 {
		t.Fatalf("events before the session is verified: %v", kinds)
	}
	view := r.Get(a).View()
	if view.OfUserID != "90210" || !view.Sandbox || view.UserAction != "none" || view.StateReason != nil || *view.ReferenceID != "user_456" ||
		view.Listener.State != "off" || view.LastSeenAt == nil || view.SessionExpiresAt == nil {
		t.Fatalf("%+v", view)
	}
}

func TestVerifiedAccountIsConnectedOnceAndReconnectedAfterwards(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	c := r.Connected(r.Org(), "1")
	a := trigger(t, r, r.Connect(c), account.Cause{On: account.ProbePassed})
	trigger(t, r, a, account.Cause{On: account.ProbePassed}) // a repeat writes no event
	trigger(t, r, a, account.Cause{On: account.SessionLost, Reason: account.ReasonSessionExpired})
	r.Clock.Advance(90 * time.Second)
	again := r.Connected(a.Org, "1")
	if a = r.Connect(again); a.State != account.Connecting {
		t.Fatal(a.State)
	}
	trigger(t, r, a, account.Cause{On: account.ProbePassed})
	events := r.Events(a)
	if kinds := r.Kinds(a); !slices.Equal(kinds, []string{"account.connected", "account.reconnect_required", "account.reconnected"}) {
		t.Fatal(kinds)
	}
	var data struct {
		From, To, UserAction, AttemptID, Kind, ConnectURL string
		Reason                                            *string
		DownForSec                                        int
		Account                                           contract.Account
	}
	read := func(i int) {
		t.Helper()
		data.Reason = nil
		must.OK(t, json.Unmarshal(events[i].Data, &data))
	}
	read(0)
	if data.From != "connecting" || data.To != "active" || data.AttemptID != string(c.Attempt) || data.Kind != "credentials" || data.Account.OfUserID != "1" || data.UserAction != "none" {
		t.Fatalf("%+v", data)
	}
	read(1)
	if data.To != "reconnect_required" || *data.Reason != "session_expired" || data.UserAction != "reconnect" || data.ConnectURL != "https://connect.test/reconnect/"+string(a.ID) {
		t.Fatalf("%+v", data)
	}
	read(2)
	if data.AttemptID != string(again.Attempt) || data.DownForSec != 90 || data.Account.State != "active" {
		t.Fatalf("%+v", data)
	}
}

func TestReconnectKeepsSettingsThatItDoesNotName(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	c := r.Connected(r.Org(), "7")
	c.Region, c.Metadata, c.Remember = "uk", map[string]string{"team": "a"}, true
	c.Credentials = &account.Credentials{Email: secret.New("e"), Password: secret.New("old")}
	a := r.Connect(c)
	keeps := func(what, password string, change func(*account.Connected)) {
		t.Helper()
		again := r.Connected(a.Org, "7")
		again.Label, again.Region = "", "us"
		change(&again)
		b := r.Connect(again)
		if b.ID != a.ID || b.Label != "Luna" || b.Region != "uk" || b.Metadata["team"] != "a" || !b.RememberCredentials {
			t.Fatalf("%s: %+v", what, b)
		}
		if known, err := r.Accounts.Credentials(t.Context(), a.Org, a.ID); err != nil || known.Password.Reveal() != password {
			t.Fatalf("%s: the wrong credentials are stored: %v", what, err)
		}
	}
	keeps("a copied session", "old", func(c *account.Connected) { c.Kind = "cookie" })
	keeps("a sign-in with a new password", "new", func(c *account.Connected) {
		c.Credentials = &account.Credentials{Email: secret.New("e"), Password: secret.New("new")}
	})
	named := r.Connected(a.Org, "7")
	named.Label, named.Region, named.Metadata = "", "us", map[string]string{}
	named.Credentials = &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
	named.Named = account.Named{Region: true, Label: true, Metadata: true, Remember: true}
	if b := r.Connect(named); b.Label != "" || b.Region != "us" || len(b.Metadata) != 0 || b.RememberCredentials {
		t.Fatalf("%+v", b)
	}
	_, err := r.Accounts.Credentials(t.Context(), a.Org, a.ID)
	wantProblem(t, err, problem.CredentialsMissing)
}

func TestSameCreatorIsTheSameAccount(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	c := r.Connected(r.Org(), "7")
	c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
	a := r.Connect(c)
	again := r.Connected(a.Org, "7")
	again.Session = r.Session("auth_id=7; sess=second")
	again.Remember, again.Named = false, account.Named{Remember: true}
	b := r.Connect(again)
	if b.ID != a.ID || b.RememberCredentials {
		t.Fatalf("%+v", b)
	}
	if _, session, err := r.Accounts.Session(t.Context(), a.Org, a.ID); err != nil || session.Cookie("sess").Reveal() != "second" {
		t.Fatal(err)
	}
	_, err := r.Accounts.Credentials(t.Context(), a.Org, a.ID)
	wantProblem(t, err, problem.CredentialsMissing)

	other := r.Connected(a.Org, "8")
	other.Account = a.ID
	if _, err := r.Accounts.Prepare(t.Context(), other); !errors.Is(err, account.ErrMismatch) {
		t.Fatal(err)
	}
	other.Account = id.New[id.Account]()
	_, err = r.Accounts.Prepare(t.Context(), other)
	wantProblem(t, err, problem.AccountNotFound)
	other.Account, other.MaxAccounts = "", 1
	if _, err := r.Accounts.Prepare(t.Context(), other); !errors.Is(err, account.ErrLimit) {
		t.Fatal(err)
	}
	if elsewhere := r.Connect(r.Connected(r.Org(), "7")); elsewhere.ID == a.ID {
		t.Fatal("two orgs share an account")
	}
}

func TestConcurrentSignInsMakeOneAccountPerCreatorAndKeepTheLimit(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	owner := r.Org()
	nodes := []*account.Accounts{r.Node(nil), r.Node(nil), r.Node(nil)}
	var (
		wait    sync.WaitGroup
		mu      sync.Mutex
		refused int
		ids     = map[string]map[id.Account]bool{}
	)
	for i := range 24 {
		wait.Go(func() {
			c := r.Connected(owner, fmt.Sprint(i%6))
			c.MaxAccounts = 4
			a, err := r.TryConnect(nodes[i%3], c)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, account.ErrLimit):
				refused++
			case err != nil:
				t.Error(err)
			default:
				if ids[a.UpstreamID] == nil {
					ids[a.UpstreamID] = map[id.Account]bool{}
				}
				ids[a.UpstreamID][a.ID] = true
			}
		})
	}
	wait.Wait()
	if len(ids) != 4 || refused != 8 {
		t.Fatalf("%d accounts, %d refused", len(ids), refused)
	}
	for creator, accounts := range ids {
		if len(accounts) != 1 {
			t.Errorf("creator %s has %d accounts", creator, len(accounts))
		}
	}
}

func TestCallFailsAsTheStateDemands(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	owner := r.Org()
	for _, test := range []struct {
		name   string
		causes []account.Cause
		kind   *problem.Kind
		has    string
	}{
		{"connecting", nil, nil, ""},
		{"active", []account.Cause{{On: account.ProbePassed}}, nil, ""},
		{"degraded", []account.Cause{{On: account.ProbePassed}, {On: account.Failing, Reason: account.ReasonEgressDown}},
			nil, ""},
		{"reconnect_required", []account.Cause{{On: account.LoggedOut, Reason: account.ReasonLoggedOut}}, &problem.AccountDisconnected, `"accountId":"acct_`},
		{"restricted", []account.Cause{{On: account.Banned, Reason: account.ReasonBanned}}, &problem.UpstreamAccountRestricted, `"upstreamCode":null`},
		{"paused", []account.Cause{{On: account.Pause, Reason: account.ReasonPausedByCaller}}, &problem.AccountPaused, `"retryable":false`},
		{"reauthenticating", []account.Cause{{On: account.SessionLost, Reason: account.ReasonSessionExpired}}, &problem.AccountReauthenticating, `"retryAfterSec":5`},
	} {
		c := r.Connected(owner, test.name)
		c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
		a := r.Connect(c)
		for _, cause := range test.causes {
			a = trigger(t, r, a, cause)
		}
		if string(a.State) != test.name {
			t.Fatalf("%s is %s", test.name, a.State)
		}
		_, _, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
		if test.kind == nil {
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		wantProblem(t, err, *test.kind)
		document, failed := problem.Of(err).Document(problem.Place{ProblemsURL: "https://p.test", Instance: "urn:request:1"})
		if failed != nil || !bytes.Contains(document, []byte(test.has)) {
			t.Errorf("%s: %s lacks %s", test.name, document, test.has)
		}
	}
}

func TestPausedAccountStaysPausedUntilResumed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := connectActive(t, r, "1")
	pause := func() account.Account {
		t.Helper()
		p, err := r.Accounts.Pause(t.Context(), accounttest.By("account.pause"), a.Org, a.ID, account.ReasonPausedByCaller)
		if err != nil || p.State != account.Paused || p.Health.ProbeAt != nil || p.UserAction() != "resume" {
			t.Fatalf("%+v, %v", p, err)
		}
		return p
	}
	pause()
	pause()
	// Neither a connect nor a late observation starts it.
	if b := r.Connect(r.Connected(a.Org, "1")); b.State != account.Paused {
		t.Fatal(b.State)
	}
	trigger(t, r, a, account.Cause{On: account.Banned, Reason: account.ReasonBanned})
	b, err := r.Accounts.Resume(t.Context(), accounttest.By("account.resume"), a.Org, a.ID)
	if err != nil || b.State != account.Connecting || b.Health.ProbeAt.After(r.Clock.Now()) {
		t.Fatalf("%+v, %v", b, err)
	}
	if _, err := r.Accounts.Resume(t.Context(), accounttest.By("account.resume"), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	pause()
	trigger(t, r, a, account.Cause{On: account.SessionLost, Reason: account.ReasonSessionExpired})
	if b, err := r.Accounts.Resume(t.Context(), accounttest.By("account.resume"), a.Org, a.ID); err != nil || b.State != account.ReconnectRequired {
		t.Fatalf("the session died while paused: %+v, %v", b, err)
	}
	want := []string{"account.connected", "account.paused", "account.resumed", "account.paused", "account.resumed"}
	if kinds := r.Kinds(a); !slices.Equal(kinds, want) {
		t.Fatal(kinds)
	}
	entries, err := r.Audit.Choose(t.Context(), a.Org, audit.Filter{Target: string(a.ID)}, 0, 20)
	if err != nil || len(entries) != 6 { // two connects, two pauses, two resumes; repeats leave none
		t.Fatalf("%d entries, %v", len(entries), err)
	}
}

func TestUpdateChangesNamedFieldsAndWritesAnEvent(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	c := r.Connected(r.Org(), "1")
	c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
	a := trigger(t, r, r.Connect(c), account.Cause{On: account.ProbePassed})
	by := accounttest.By("account.update")
	label, region, metadata := "Mia", "uk", map[string]string{"team": "b"}
	change := account.Change{Label: &label, Region: &region, Metadata: &metadata, ForgetCredentials: true}
	b, err := r.Accounts.Update(t.Context(), by, a.Org, a.ID, change)
	if err != nil || b.Label != "Mia" || b.Region != "uk" || b.Metadata["team"] != "b" || b.RememberCredentials || b.SessionVersion <= a.SessionVersion {
		t.Fatalf("%+v, %v", b, err)
	}
	if at := r.Get(a).Health.ProbeAt; at.After(r.Clock.Now()) {
		t.Fatalf("the new region is probed at %s, not immediately", at)
	}
	if _, err := r.Accounts.Credentials(t.Context(), a.Org, a.ID); err == nil {
		t.Fatal("the credentials are still there")
	}
	if _, err := r.Accounts.Update(t.Context(), by, a.Org, a.ID, change); err != nil {
		t.Fatal(err)
	}
	events := r.Events(a)
	if len(events) != 2 || events[1].Kind != "account.updated" || !bytes.Contains(events[1].Data, []byte(`["label", "metadata", "proxyCountry", "rememberCredentials"]`)) {
		t.Fatalf("%s", events[len(events)-1].Data)
	}
	many, nowhere := map[string]string{}, "fr"
	for i := range 17 {
		many[fmt.Sprint(i)] = ""
	}
	long := string(bytes.Repeat([]byte("x"), 121))
	_, err = r.Accounts.Update(t.Context(), by, a.Org, a.ID, account.Change{Label: &long, Region: &nowhere, Metadata: &many})
	if bad := problem.Of(err); len(bad.Fields) != 3 {
		t.Fatalf("%v", err)
	}
	_, err = r.Accounts.Update(t.Context(), by, a.Org, a.ID, account.Change{})
	wantProblem(t, err, problem.ValidationFailed)
}

func TestAccountOfAnotherOrgIsNotFound(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := connectActive(t, r, "1")
	other, by, ctx, label := r.Org(), accounttest.By("x"), t.Context(), "x"
	inTx := func(do func(tx postgres.Tx) error) error { return r.DB.Tx(ctx, do) }
	for name, err := range map[string]error{
		"get":         second(r.Accounts.Get(ctx, other, a.ID)),
		"session":     third(r.Accounts.Session(ctx, other, a.ID)),
		"stored":      third(r.Accounts.StoredSession(ctx, other, a.ID)),
		"credentials": second(r.Accounts.Credentials(ctx, other, a.ID)),
		"update":      second(r.Accounts.Update(ctx, by, other, a.ID, account.Change{Label: &label})),
		"pause":       second(r.Accounts.Pause(ctx, by, other, a.ID, "")),
		"resume":      second(r.Accounts.Resume(ctx, by, other, a.ID)),
		"trigger":     second(r.Accounts.Trigger(ctx, by, other, a.ID, account.Cause{On: account.Banned})),
		"disconnect":  r.Accounts.Disconnect(ctx, by, other, a.ID),
		"receipt":     second(r.Accounts.Receipt(ctx, other, a.ID)),
		"begin": inTx(func(tx postgres.Tx) error {
			return second(r.Accounts.BeginReauth(ctx, tx, by, other, a.ID, id.New[id.Attempt]()))
		}),
		"challenged": inTx(func(tx postgres.Tx) error {
			return r.Accounts.RecordChallenge(ctx, tx, other, a.ID, contract.AccountChallengeRequired{})
		}),
	} {
		if !errors.Is(err, problem.AccountNotFound.New("")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Accounts.List(ctx, other, account.Filter{}, func(account.Account) error { return errors.New("not theirs") }); err != nil {
		t.Error(err)
	}
	if agreed, err := r.Accounts.Consents(ctx, other, a.ID); err != nil || len(agreed) != 0 {
		t.Error(agreed, err)
	}
	if entries, err := r.Audit.Choose(ctx, other, audit.Filter{Target: string(a.ID)}, 0, 10); err != nil || len(entries) != 0 {
		t.Error(entries, err)
	}
	foreign := a
	foreign.Org = other
	r.Accounts.RecordSeen(t.Context(), foreign)
	if err := r.Accounts.WriteSeen(ctx); err != nil {
		t.Error(err)
	}
	if got := r.Get(a); got.State != account.Active || got.Label != "Luna" || got.SessionVersion != a.SessionVersion {
		t.Fatalf("%+v", got)
	}
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

func TestFiveThousandAccountsAreStreamedInOrder(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	owner := r.Org()
	insertAccounts(t, r, string(owner), 0, 5000)
	last, n := id.Account(""), 0
	err := r.Accounts.List(t.Context(), owner, account.Filter{}, func(a account.Account) error {
		if a.ID <= last {
			return fmt.Errorf("%s after %s", a.ID, last)
		}
		last, n = a.ID, n+1
		return nil
	})
	if err != nil || n != 5000 {
		t.Fatal(n, err)
	}
	count := func(f account.Filter) (n int, last id.Account) {
		t.Helper()
		must.OK(t, r.Accounts.List(t.Context(), owner, f, func(a account.Account) error { n++; last = a.ID; return nil }))
		return n, last
	}
	seen, after := 0, id.Account("")
	for {
		n, end := count(account.Filter{Limit: 700, After: account.PageKey{ID: after}})
		seen, after = seen+n, end
		if n < 700 {
			break
		}
	}
	if seen != 5000 {
		t.Fatal("pages have", seen)
	}
	if n, _ := count(account.Filter{States: []account.State{account.Paused}}); n != 500 {
		t.Error("paused:", n)
	}
	if n, _ := count(account.Filter{States: []account.State{account.Paused, account.Active}}); n != 5000 {
		t.Error("paused or active:", n)
	}
	if n, _ := count(account.Filter{ReferenceID: "ref-17"}); n != 1 {
		t.Error("by reference:", n)
	}
	if n, _ := count(account.Filter{Label: "label 3", States: []account.State{account.Active}}); n != 100 {
		t.Error("by label and state:", n)
	}
	enough := errors.New("enough")
	if err := r.Accounts.List(t.Context(), owner, account.Filter{}, func(account.Account) error { return enough }); !errors.Is(err, enough) {
		t.Error(err)
	}
}

// A query matches names and ids in any case and contains no wildcards. In every order, paging lists each account once.
func TestAccountsAreFoundAndSorted(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	owner := r.Org()
	insertAccounts(t, r, string(owner), 0, 300)
	for _, sql := range []string{
		`UPDATE account SET label = 'Äpfel 100% _x' WHERE org_id = $1 AND upstream_id = '7'`,
		`UPDATE account SET username = 'LunaLux', state = 'degraded' WHERE org_id = $1 AND upstream_id = '8'`,
		`UPDATE account_health SET last_seen_at = now() - (substr(account_id, 28)::int % 50) * interval '1 minute' WHERE org_id = $1 AND account_id < 'acct_' || lpad('250', 26, '0')`,
	} {
		execSlow(t, r, sql, string(owner))
	}
	find := func(f account.Filter) (found []account.Account) {
		t.Helper()
		if err := r.Accounts.List(t.Context(), owner, f, func(a account.Account) error { found = append(found, a); return nil }); err != nil {
			t.Fatal(err)
		}
		return found
	}
	for query, want := range map[string]int{"äPFEL": 1, "100%": 1, "%": 1, "_x": 1, "LUNALUX": 1, "ACCT_00000000000000000000000007": 9, "nothing": 0, "ref-299": 1, "' OR 1=1": 0} {
		if got := find(account.Filter{Query: query}); len(got) < min(want, 1) || len(got) > want+1 {
			t.Errorf("%q finds %d", query, len(got))
		}
	}
	for _, order := range []account.Order{account.ByLabel, account.ByLastSeen} {
		seen := map[id.Account]bool{}
		var last account.Account
		for f := (account.Filter{Order: order, Limit: 70}); ; {
			page := find(f)
			for _, a := range page {
				if seen[a.ID] {
					t.Fatalf("%s twice in order %d", a.ID, order)
				}
				if seen[a.ID] = true; len(seen) > 1 && !inOrder(order, last, a) {
					t.Errorf("order %d: %q %v before %q %v", order, last.Label, last.LastSeenAt, a.Label, a.LastSeenAt)
				}
				last = a
			}
			if len(page) < f.Limit {
				break
			}
			f.After = page[len(page)-1].PageKey()
		}
		if len(seen) != 300 {
			t.Errorf("order %d has %d accounts", order, len(seen))
		}
	}
	counts, err := r.Accounts.CountByState(t.Context(), owner, account.Filter{States: []account.State{account.Paused}})
	if err != nil || counts[account.Paused] != 30 || counts[account.Degraded] != 1 || counts[account.Active] != 269 {
		t.Errorf("%v %v", counts, err)
	}
	one := find(account.Filter{Query: "lunalux"})
	if labels, err := r.Accounts.Labels(t.Context(), owner, []id.Account{one[0].ID, id.New[id.Account]()}); err != nil || len(labels) != 1 || labels[one[0].ID] != one[0].Label {
		t.Errorf("%v %v", labels, err)
	}
}

func inOrder(order account.Order, a, b account.Account) bool {
	if order == account.ByLabel {
		return true // the database's collation decides
	}
	switch {
	case a.LastSeenAt == nil:
		return b.LastSeenAt == nil && a.ID < b.ID
	case b.LastSeenAt == nil:
		return true
	}
	return a.LastSeenAt.After(*b.LastSeenAt) || a.LastSeenAt.Equal(*b.LastSeenAt) && a.ID < b.ID
}

// A probe that one node has claimed is not claimed by another whose clock is an hour fast or slow, and the probe of an
// account that such a node connects is due on all nodes at the same time.
func TestProbeIsClaimedOnceWhenClocksDiffer(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{20 * time.Second, time.Hour, -time.Hour} {
		r := newFixture(t)
		other := r.Node(func(d *account.Deps) { d.Now = func() time.Time { return r.Clock.Now().Add(ahead) } })
		claim := func(s *account.Accounts) (list []account.Ref) {
			t.Helper()
			shards, err := s.DueShards(t.Context())
			for _, shard := range shards {
				some, failed := s.ClaimProbes(t.Context(), shard, 10, 5*time.Second)
				list, err = append(list, some...), errors.Join(err, failed)
			}
			must.OK(t, err)
			return list
		}
		for i, nodes := range [][2]*account.Accounts{{r.Accounts, other}, {other, r.Accounts}} {
			p, err := nodes[0].Prepare(t.Context(), r.Connected(r.Org(), fmt.Sprint("creator ", i)))
			must.OK(t, err)
			err = r.DB.Tx(t.Context(), func(tx postgres.Tx) error {
				_, _, err := nodes[0].Connect(t.Context(), tx, accounttest.By("account.connect"), p)
				return err
			})
			must.OK(t, err)
			if got := claim(nodes[0]); len(got) != 1 || got[0].Account != p.AccountID() {
				t.Errorf("%s: claimed %v, want the account that was just connected", ahead, got)
			}
			if got := claim(nodes[1]); len(got) != 0 {
				t.Errorf("%s: %v was claimed twice", ahead, got)
			}
			r.Clock.Advance(time.Minute)
			if got := claim(nodes[1]); len(got) != i+1 {
				t.Errorf("%s: claimed %v after the leases expired, want %d accounts", ahead, got, i+1)
			}
		}
	}
}
