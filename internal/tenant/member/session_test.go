package member_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// An unknown person can sign in only if they are invited or sign-up is open. Sign-up creates an org for them.
func TestSignInNeedsInvitationOrSignup(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, _, err := f.members.SignIn(t.Context(), by, claims("eve@else.test"), member.Welcome{}, ""); !errors.Is(err, member.ErrNotInvited) {
		t.Errorf("not invited: %v", err)
	}
	for _, c := range []member.Claims{{Issuer: "i", Subject: "s", Email: "nothing"}, {Issuer: "", Subject: "s", Email: "a@b.test"}, {Issuer: "i", Subject: "", Email: "a@b.test"}} {
		if _, _, err := f.members.SignIn(t.Context(), by, c, member.Welcome{Signup: true}, ""); !errors.Is(err, member.ErrEmail) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	ada := f.signIn(t, "ada@new.test", member.Welcome{Signup: true})
	places, err := f.members.Places(t.Context(), ada.Session)
	if err != nil || len(places) != 1 || places[0].Role != member.Owner || places[0].Org.Name != "Ada's organisation" || places[0].Org.Environment != "sandbox" {
		t.Errorf("an org of their own: %+v %v", places, err)
	}
	again := f.signIn(t, "ada@new.test", member.Welcome{Signup: true})
	if again.Person.ID != ada.Person.ID || again.Org != ada.Org {
		t.Errorf("a second time: %+v", again.Session)
	}
	// Issuer and subject identify a person. The address can change and proves nothing.
	moved, _, err := f.members.SignIn(t.Context(), by, member.Claims{Issuer: "https://id.test", Subject: "sub:ada@new.test", Email: "lovelace@new.test", Name: "Ada L"}, member.Welcome{}, "")
	if err != nil || moved.Person.ID != ada.Person.ID || moved.Person.Email != "lovelace@new.test" || moved.Person.Name != "Ada L" {
		t.Errorf("another address: %+v %v", moved, err)
	}
	if _, _, err := f.members.SignIn(t.Context(), by, member.Claims{Issuer: "https://other.test", Subject: "sub:ada@new.test", Email: "lovelace@new.test"}, member.Welcome{}, ""); !errors.Is(err, member.ErrNotInvited) {
		t.Errorf("the same address from another issuer: %v", err)
	}
}

// A person's first session shows a sandbox org, a later one the org that they used last.
func TestSessionShowsSandboxFirstThenLastUsedOrg(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	live, sandbox, other := f.orgIn(t, environment.Live), f.orgIn(t, environment.Sandbox), f.orgIn(t, environment.Live)
	for _, owner := range []id.Org{live, sandbox, other} {
		if _, _, err := f.members.Invite(t.Context(), by, owner, operator, member.Invitee{Email: "ada@acme.test", Role: string(member.Developer)}); err != nil {
			t.Fatal(err)
		}
	}
	first := f.signIn(t, "ada@acme.test", member.Welcome{TakeUp: true})
	if first.Org != sandbox {
		t.Errorf("first session shows %s of %s", first.Org, []id.Org{live, sandbox, other})
	}
	f.advance(time.Hour)
	if _, code := f.identify(t, first, other); code != "" {
		t.Fatal(code)
	}
	if again := f.signIn(t, "ada@acme.test", member.Welcome{}); again.Org != other {
		t.Errorf("used %s last, but the session shows %s", other, again.Org)
	}
}

// Concurrent first sign-ins create one person.
func TestConcurrentFirstSignInsCreateOnePerson(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		people = map[id.Person]bool{}
		tokens = map[string]bool{}
	)
	for range 8 {
		wait.Go(func() {
			b, cookie, err := f.members.SignIn(t.Context(), by, claims("ada@new.test"), member.Welcome{Signup: true}, "")
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			people[b.Person.ID], tokens[cookie.Reveal()] = true, true
		})
	}
	wait.Wait()
	if len(people) != 1 || len(tokens) != 8 {
		t.Errorf("%d people, %d cookies", len(people), len(tokens))
	}
}

// A browser is signed out after eight hours without use, and after a day in any case. Trim deletes what is left.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.org(t)
	idle, used := f.join(t, owner, "idle@acme.test", member.Admin), f.join(t, owner, "used@acme.test", member.Admin)
	for range 4 {
		f.advance(2*time.Hour - time.Minute)
		if _, refused := f.identify(t, used, owner); refused != "" {
			t.Fatalf("used: %s", refused)
		}
	}
	f.advance(10 * time.Minute)
	if _, refused := f.identify(t, idle, owner); refused != "signed-out" {
		t.Errorf("idle for eight hours: %q", refused)
	}
	if _, err := f.members.Find(t.Context(), idle.cookie); code(err) != "signed-out" {
		t.Errorf("idle for eight hours: %v", err)
	}
	for f.clock().Before(used.CreatedAt.Add(24*time.Hour - 2*time.Hour)) {
		f.advance(2 * time.Hour)
		if _, refused := f.identify(t, used, owner); refused != "" {
			t.Fatalf("used: %s", refused)
		}
	}
	f.advance(2*time.Hour + time.Minute)
	if _, refused := f.identify(t, used, owner); refused != "signed-out" {
		t.Errorf("after a day: %q", refused)
	}
	f.advance(31 * 24 * time.Hour)
	if err := f.members.Trim(t.Context()); err != nil {
		t.Error(err)
	}
	var left int
	err := f.db.Pool().QueryRow(t.Context(), "SELECT (SELECT count(*) FROM browser_session) + (SELECT count(*) FROM api_key WHERE kind = 'session')").Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d rows left, %v", left, err)
	}
}

// Signing out ends the session in all orgs, with an entry in each audit log. If a member ends another's session, only
// the log of the member's org names who did it.
func TestSignOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one, two := f.org(t), f.org(t)
	f.join(t, one, "ada@acme.test", member.Admin)
	ada := f.join(t, two, "ada@acme.test", member.Owner)
	for _, owner := range []id.Org{one, two} {
		if _, refused := f.identify(t, ada, owner); refused != "" {
			t.Fatal(refused)
		}
	}
	must.OK(t, f.members.SignOut(t.Context(), by, ada.cookie))
	for _, owner := range []id.Org{one, two} {
		if _, refused := f.identify(t, ada, owner); refused != "signed-out" {
			t.Errorf("signed out: %q", refused)
		}
		if got := f.actions(t, owner); got[0] != "member session.end" {
			t.Errorf("the log has %v", got)
		}
	}
	if err := f.members.SignOut(t.Context(), by, ada.cookie); err != nil {
		t.Errorf("again: %v", err)
	}

	bob := f.join(t, one, "bob@acme.test", member.Admin)
	ada = f.signIn(t, "ada@acme.test", member.Welcome{})
	f.identify(t, ada, one)
	f.identify(t, ada, two)
	acts := by
	acts.ID, acts.Label, acts.Kind, acts.Action = string(bob.Person.ID), bob.Person.Email, "member", "session.end"
	if err := f.members.End(t.Context(), acts, one, bob.Person.ID, false, string(ada.ID)); code(err) != "browser-session-not-found" {
		t.Errorf("ended another's session without the right to: %v", err)
	}
	if err := f.members.End(t.Context(), acts, f.org(t), bob.Person.ID, true, string(ada.ID)); code(err) != "browser-session-not-found" {
		t.Errorf("ended another org's session: %v", err)
	}
	must.OK(t, f.members.End(t.Context(), acts, one, bob.Person.ID, true, string(ada.ID)))
	if got := []string{f.actions(t, one)[0], f.actions(t, two)[0]}; !slices.Equal(got, []string{"member session.end", "system session.end"}) {
		t.Errorf("the logs have %v", got)
	}
	if _, refused := f.identify(t, ada, two); refused != "signed-out" {
		t.Errorf("ended: %q", refused)
	}
}

// A browser can act in its user's orgs only. The problem for another org does not depend on whether that org exists.
func TestIdentify(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mine, theirs := f.org(t), f.org(t)
	ada := f.join(t, mine, "ada@acme.test", member.Support)
	if scopes, refused := f.identify(t, ada, ""); scopes != member.Support.Scopes() {
		t.Errorf("the org that it shows: %v %s", scopes.Names(), refused)
	}
	for _, owner := range []id.Org{theirs, id.New[id.Org](), "org_x", "' OR 1=1"} {
		if _, refused := f.identify(t, ada, owner); refused != "membership-missing" {
			t.Errorf("%s: %q", owner, refused)
		}
	}
	for _, cookie := range []string{"", "x", ada.cookie.Reveal() + "x", "|" + ada.cookie.Reveal()[1:], string(make([]byte, 43))} {
		if _, refused := f.identify(t, browser{cookie: secret.New(cookie)}, mine); refused != "signed-out" {
			t.Errorf("%q: %q", cookie, refused)
		}
	}
	if err := f.members.Switch(t.Context(), ada.cookie, string(theirs)); code(err) != "membership-missing" {
		t.Errorf("switched to another's org: %v", err)
	}
	if got := f.actions(t, mine); !slices.Equal(got, []string{"member member.sign_in", "member member.join", "operator test", "operator test"}) {
		t.Errorf("the log has %v", got)
	}
	// A session key is not listed, does not count towards the plan and cannot be revoked as a key.
	keys, err := f.keys.List(t.Context(), mine)
	if err != nil || len(keys) != 0 {
		t.Errorf("listed: %+v %v", keys, err)
	}
	p, err := f.members.Identify(t.Context(), ada.cookie, string(mine), member.From{})
	must.OK(t, err)
	if err := f.keys.Revoke(t.Context(), p, by, string(p.Key.ID)); code(err) != "key-self-revoke" {
		t.Errorf("revoked by itself: %v", err)
	}
	other := *p
	other.Key.ID = id.New[id.Key]()
	if err := f.keys.Revoke(t.Context(), &other, by, string(p.Key.ID)); code(err) != "key-not-found" {
		t.Errorf("revoked as a key: %v", err)
	}
}

// A source that sends many unknown cookies is refused. A cookie whose session has ended can be sent any number of
// times.
func TestCookiesCannotBeGuessed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.org(t)
	ended := f.join(t, owner, "ada@acme.test", member.Admin)
	must.OK(t, f.members.SignOut(t.Context(), by, ended.cookie))
	for range 50 {
		if _, refused := f.identify(t, ended, owner); refused != "signed-out" {
			t.Fatalf("ended: %q", refused)
		}
	}
	var last string
	for i := range 30 {
		made := browser{cookie: secret.New(string(slices.Repeat([]byte{byte('A' + i)}, 42)) + "0")}
		if i < 26 {
			_, last = f.identify(t, made, owner)
		}
	}
	if last != "quota-exceeded" {
		t.Errorf("after many guesses: %q", last)
	}
}
