package operator_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/operate/operator"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// fixture is an Operators whose settings are files.
type fixture struct {
	*operator.Operators
	db             *postgres.DB
	log            *audit.Log
	roster, tokens string
}

const provider = "https://id.test"

var (
	oldToken = secret.New(strings.Repeat("old-", 10))
	newToken = secret.New(strings.Repeat("new-", 10))
)

// newFixture returns operators who sign in at the provider, or with tokens if there is none.
func newFixture(t *testing.T, issuer string) *fixture {
	t.Helper()
	dir := t.TempDir()
	f := &fixture{db: testenv.Postgres(t), roster: filepath.Join(dir, "operators"), tokens: filepath.Join(dir, "tokens")}
	f.log = audit.New(f.db, sealtest.NewMemory(), time.Now)
	f.set(t, f.roster, "ana@example.com=owner group:sre=operator")
	f.set(t, f.tokens, oldToken.Reveal())
	f.Operators = operator.New(operator.Deps{
		Config: operator.Config{TokenFile: f.tokens, RosterFile: f.roster, Issuer: issuer}, DB: f.db, Audit: f.log, Log: slog.New(slog.DiscardHandler),
	})
	return f
}

func (f *fixture) set(t *testing.T, file, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
}

func (f *fixture) signIn(t *testing.T, email string, groups ...string) secret.String {
	t.Helper()
	cookie, err := f.SignIn(t.Context(), audit.By{Request: "req_x", IPHash: "h"}, operator.Claims{
		Issuer: provider, Subject: "sub:" + email, Email: email, Name: "Test", Groups: groups,
	}, "Test/1.0")
	must.OK(t, err)
	return cookie
}

// role returns the role of a cookie, or the code of the problem.
func (f *fixture) role(t *testing.T, cookie secret.String) string {
	t.Helper()
	who, err := f.Find(t.Context(), cookie)
	if err != nil {
		return problem.Of(err).Kind.Code
	}
	return string(who.Role)
}

func (f *fixture) want(t *testing.T, cookie secret.String, want string) {
	t.Helper()
	if got := f.role(t, cookie); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A changed role and a removed operator take effect at the next request, without a restart and without a new sign-in. A
// roster that cannot be read gives no one a role.
func TestRolesChangeAtTheNextRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, provider)
	ana, bob := f.signIn(t, "Ana@example.com"), f.signIn(t, "bob@example.com", "staff", "sre")
	f.want(t, ana, "owner")
	f.want(t, bob, "operator")
	f.set(t, f.roster, "ana@example.com=viewer group:sre=support")
	f.want(t, ana, "viewer")
	f.want(t, bob, "support")
	f.set(t, f.roster, "bob@example.com=owner")
	f.want(t, ana, "signed-out")
	f.want(t, bob, "owner")
	f.set(t, f.roster, "ana@example.com=owner nonsense")
	f.want(t, ana, "service-unavailable")
	must.OK(t, os.Remove(f.roster))
	f.want(t, bob, "service-unavailable")
}

// Only people with a role, an address and a subject are signed in.
func TestPeopleWithoutARoleAreNotSignedIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, provider)
	for name, c := range map[string]operator.Claims{
		"another address": {Issuer: "https://id.test", Subject: "x", Email: "eve@example.com", Groups: []string{"staff"}},
		"no address":      {Issuer: "https://id.test", Subject: "x", Groups: []string{"sre"}},
		"no subject":      {Issuer: "https://id.test", Email: "ana@example.com"},
		"no issuer":       {Subject: "x", Email: "ana@example.com"},
		"the token's id":  {Issuer: "https://id.test", Subject: operator.TokenID, Email: "ana@example.com"},
	} {
		if _, err := f.SignIn(t.Context(), audit.By{}, c, ""); !errors.Is(err, operator.ErrNoRole) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := f.Sessions(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
}

// The database has only the hash of a cookie. A session ends after an hour without use, after eight hours, when it is
// signed out, and when an owner ends it. All times are the database's.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, provider)
	exec := func(sql string, args ...any) {
		t.Helper()
		_, err := f.db.Pool().Exec(t.Context(), sql, args...)
		must.OK(t, err)
	}
	cookies := map[string]secret.String{}
	for _, name := range []string{"kept", "idle", "old", "left", "ended"} {
		cookies[name] = f.signIn(t, "ana@example.com")
		f.want(t, cookies[name], "owner")
	}
	which := func(name string) string {
		t.Helper()
		who, err := f.Find(t.Context(), cookies[name])
		must.OK(t, err)
		return string(who.Session)
	}
	var found int
	must.OK(t, f.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM operator_session s WHERE s::text LIKE '%' || $1 || '%'", cookies["kept"].Reveal()).Scan(&found))
	if found != 0 {
		t.Error("the cookie is in the database")
	}
	exec("UPDATE operator_session SET last_seen_at = now() - interval '59 minutes' WHERE id = $1", which("kept"))
	exec("UPDATE operator_session SET last_seen_at = now() - interval '61 minutes' WHERE id = $1", which("idle"))
	exec("UPDATE operator_session SET ends_at = now() - interval '1 second' WHERE id = $1", which("old"))
	must.OK(t, f.SignOut(t.Context(), audit.By{}, cookies["left"]))
	must.OK(t, f.SignOut(t.Context(), audit.By{}, cookies["left"]))
	must.OK(t, f.End(t.Context(), audit.By{Kind: audit.ActorOperator, ID: "x", Label: "x", Action: "operator.session_end"}, which("ended")))
	for name, want := range map[string]string{"kept": "owner", "idle": "signed-out", "old": "signed-out", "left": "signed-out", "ended": "signed-out"} {
		if got := f.role(t, cookies[name]); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, session := range []string{"bs_01k9x5ahzre4bb3069xb2way0g", "x", ""} {
		if err := f.End(t.Context(), audit.By{}, session); problem.Of(err).Kind.Code != "browser-session-not-found" {
			t.Errorf("%s: %v", session, err)
		}
	}
	// Use extends it: the row says so, by the database's clock.
	must.OK(t, f.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM operator_session WHERE id = $1 AND last_seen_at > now() - interval '1 minute'", which("kept")).Scan(&found))
	if found != 1 {
		t.Error("the use of the browser was not recorded")
	}
	list, err := f.Sessions(t.Context())
	must.OK(t, err)
	if len(list) != 1 || list[0].Operator.Label != "ana@example.com" || list[0].Operator.Role != operator.Owner || time.Until(list[0].ExpiresAt) > time.Hour {
		t.Errorf("%+v", list)
	}
	for _, value := range []string{"", "x", strings.Repeat("A", 43), cookies["kept"].Reveal() + "A"} {
		f.want(t, secret.New(value), "signed-out")
	}
	exec("UPDATE operator_session SET ends_at = now() - interval '31 days' WHERE ended_at IS NOT NULL")
	must.OK(t, f.Trim(t.Context()))
	must.OK(t, f.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM operator_session").Scan(&found))
	if found != 3 {
		t.Errorf("%d sessions are left", found)
	}
}

// During a rotation the old and the new token work. When the old one is removed from the file, it stops working
// immediately, and so do the browsers that signed in with it.
func TestTokensAreRotatedWithoutARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	check := func(token secret.String, want bool) {
		t.Helper()
		if ok, err := f.IsToken(t.Context(), token); err != nil || ok != want {
			t.Errorf("%t %v", ok, err)
		}
	}
	check(oldToken, true)
	check(newToken, false)
	check(secret.New(""), false)
	check(secret.New(oldToken.Reveal()+"\n"+newToken.Reveal()), false)
	f.set(t, f.tokens, "# since 19 November\n"+newToken.Reveal()+"\n"+oldToken.Reveal()+"\n")
	check(oldToken, true)
	check(newToken, true)
	sign := func(token secret.String) secret.String {
		t.Helper()
		cookie, err := f.SignInWithToken(t.Context(), audit.By{}, token, "Ana", "")
		must.OK(t, err)
		f.want(t, cookie, "owner")
		return cookie
	}
	byOld, byNew := sign(oldToken), sign(newToken)
	f.set(t, f.tokens, newToken.Reveal())
	check(oldToken, false)
	check(newToken, true)
	f.want(t, byOld, "signed-out")
	f.want(t, byNew, "owner")
	f.set(t, f.tokens, "")
	if _, err := f.IsToken(t.Context(), newToken); problem.Of(err).Kind.Code != "service-unavailable" {
		t.Errorf("an empty file: %v", err)
	}
	f.want(t, byNew, "service-unavailable")
}

// Sign-ins and sign-outs are in the operators' log, with the person or with the name that was entered with a token.
func TestSignInsAreAudited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, provider)
	must.OK(t, f.SignOut(t.Context(), audit.By{Request: "req_y", IPHash: "h"}, f.signIn(t, "ana@example.com")))
	_, err := f.SignInWithToken(t.Context(), audit.By{Request: "req_z", IPHash: "h"}, oldToken, "Noor", "")
	must.OK(t, err)
	entries, err := f.log.All(t.Context(), audit.Choice{Org: audit.Operators}, 10)
	must.OK(t, err)
	var got []string
	for _, e := range entries {
		got = append(got, e.By.Action+" "+e.By.ID+" "+e.By.Label)
	}
	want := []string{"operator.sign_in token Noor", "operator.sign_out sub:ana@example.com ana@example.com", "operator.sign_in sub:ana@example.com ana@example.com"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
}

// Browsers that signed in at another provider, or with a token before there was one, are signed out.
func TestSessionsOfAnotherProviderEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, provider)
	person := f.signIn(t, "ana@example.com")
	byToken, err := f.SignInWithToken(t.Context(), audit.By{}, oldToken, "Ana", "")
	must.OK(t, err)
	f.want(t, person, "owner")
	f.want(t, byToken, "signed-out")
	f.Operators = operator.New(operator.Deps{
		Config: operator.Config{TokenFile: f.tokens, RosterFile: f.roster, Issuer: "https://other.test"}, DB: f.db, Audit: f.log, Log: slog.New(slog.DiscardHandler),
	})
	f.want(t, person, "signed-out")
	f.want(t, byToken, "signed-out")
}
