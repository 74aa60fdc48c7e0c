package member_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Somebody unknown comes in only if invited, or where anybody may; then with an org of their own.
func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, _, err := r.members.SignIn(t.Context(), by, claims("eve@else.test"), member.Welcome{}, ""); !errors.Is(err, member.ErrNotInvited) {
		t.Errorf("nobody expected them: %v", err)
	}
	for _, c := range []member.Claims{{Issuer: "i", Subject: "s", Email: "nothing"}, {Issuer: "", Subject: "s", Email: "a@b.test"}, {Issuer: "i", Subject: "", Email: "a@b.test"}} {
		if _, _, err := r.members.SignIn(t.Context(), by, c, member.Welcome{Signup: true}, ""); !errors.Is(err, member.ErrEmail) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	ada := r.signIn(t, "ada@new.test", member.Welcome{Signup: true})
	places, err := r.members.Places(t.Context(), ada.Session)
	if err != nil || len(places) != 1 || places[0].Role != member.Owner || places[0].Org.Name != "Ada's organisation" || places[0].Org.Environment != "sandbox" {
		t.Errorf("an org of their own: %+v %v", places, err)
	}
	again := r.signIn(t, "ada@new.test", member.Welcome{Signup: true})
	if again.Person.ID != ada.Person.ID || again.Org != ada.Org {
		t.Errorf("a second time: %+v", again.Session)
	}
	// The identity is who somebody is. The address follows it, and is nobody's proof.
	moved, _, err := r.members.SignIn(t.Context(), by, member.Claims{Issuer: "https://id.test", Subject: "sub:ada@new.test", Email: "lovelace@new.test", Name: "Ada L"}, member.Welcome{}, "")
	if err != nil || moved.Person.ID != ada.Person.ID || moved.Person.Email != "lovelace@new.test" || moved.Person.Name != "Ada L" {
		t.Errorf("another address: %+v %v", moved, err)
	}
	if _, _, err := r.members.SignIn(t.Context(), by, member.Claims{Issuer: "https://other.test", Subject: "sub:ada@new.test", Email: "lovelace@new.test"}, member.Welcome{}, ""); !errors.Is(err, member.ErrNotInvited) {
		t.Errorf("the same address from elsewhere: %v", err)
	}
}

// Whoever comes for the first time begins where nothing can go wrong, and later where they were last.
func TestWhereSomebodyBegins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	live, sandbox, other := r.orgOf(t, org.EnvLive), r.orgOf(t, org.EnvSandbox), r.orgOf(t, org.EnvLive)
	for _, owner := range []id.Org{live, sandbox, other} {
		if _, _, err := r.members.Invite(t.Context(), by, owner, operator, "ada@acme.test", string(member.Developer)); err != nil {
			t.Fatal(err)
		}
	}
	first := r.signIn(t, "ada@acme.test", member.Welcome{TakeUp: true})
	if first.Org != sandbox {
		t.Errorf("began in %s of %s", first.Org, []id.Org{live, sandbox, other})
	}
	r.later(time.Hour)
	if _, code := r.identify(t, first, other); code != "" {
		t.Fatal(code)
	}
	if again := r.signIn(t, "ada@acme.test", member.Welcome{}); again.Org != other {
		t.Errorf("was in %s last, and began in %s", other, again.Org)
	}
}

// The first sign-in of somebody may come twice at once, and makes one person.
func TestSignedInTwiceAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex
		people = map[id.Person]bool{}
		tokens = map[string]bool{}
	)
	for range 8 {
		wait.Go(func() {
			b, cookie, err := r.members.SignIn(t.Context(), by, claims("ada@new.test"), member.Welcome{Signup: true}, "")
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

// A browser that is not used for eight hours is signed out, and each after a day; using it keeps it.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	owner := r.org(t)
	idle, used := r.join(t, owner, "idle@acme.test", member.Admin), r.join(t, owner, "used@acme.test", member.Admin)
	for range 4 {
		r.later(2*time.Hour - time.Minute)
		if _, refused := r.identify(t, used, owner); refused != "" {
			t.Fatalf("used: %s", refused)
		}
	}
	r.later(10 * time.Minute)
	if _, refused := r.identify(t, idle, owner); refused != "signed-out" {
		t.Errorf("idle for eight hours: %q", refused)
	}
	if _, err := r.members.Find(t.Context(), idle.cookie); code(err) != "signed-out" {
		t.Errorf("idle for eight hours: %v", err)
	}
	for r.clock().Before(used.CreatedAt.Add(24*time.Hour - 2*time.Hour)) {
		r.later(2 * time.Hour)
		if _, refused := r.identify(t, used, owner); refused != "" {
			t.Fatalf("used: %s", refused)
		}
	}
	r.later(2*time.Hour + time.Minute)
	if _, refused := r.identify(t, used, owner); refused != "signed-out" {
		t.Errorf("after a day: %q", refused)
	}
	r.later(31 * 24 * time.Hour)
	if err := r.members.Trim(t.Context()); err != nil {
		t.Error(err)
	}
	var left int
	err := r.db.Pool().QueryRow(t.Context(), "SELECT (SELECT count(*) FROM browser_session) + (SELECT count(*) FROM api_key WHERE kind = 'session')").Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d rows left, %v", left, err)
	}
}

// Signing out ends the browser in all orgs, with an entry in each log; ending another's tells only the own org who did it.
func TestSignOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.org(t), r.org(t)
	r.join(t, one, "ada@acme.test", member.Admin)
	ada := r.join(t, two, "ada@acme.test", member.Owner)
	for _, owner := range []id.Org{one, two} {
		if _, refused := r.identify(t, ada, owner); refused != "" {
			t.Fatal(refused)
		}
	}
	if err := r.members.SignOut(t.Context(), by, ada.cookie); err != nil {
		t.Fatal(err)
	}
	for _, owner := range []id.Org{one, two} {
		if _, refused := r.identify(t, ada, owner); refused != "signed-out" {
			t.Errorf("signed out: %q", refused)
		}
		if got := r.actions(t, owner); got[0] != "member session.end" {
			t.Errorf("the log has %v", got)
		}
	}
	if err := r.members.SignOut(t.Context(), by, ada.cookie); err != nil {
		t.Errorf("again: %v", err)
	}

	bob := r.join(t, one, "bob@acme.test", member.Admin)
	ada = r.signIn(t, "ada@acme.test", member.Welcome{})
	r.identify(t, ada, one)
	r.identify(t, ada, two)
	acts := by
	acts.ID, acts.Label, acts.Kind, acts.Action = string(bob.Person.ID), bob.Person.Email, "member", "session.end"
	if err := r.members.End(t.Context(), acts, one, bob.Person.ID, false, string(ada.ID)); code(err) != "browser-session-not-found" {
		t.Errorf("another's, without the right to: %v", err)
	}
	if err := r.members.End(t.Context(), acts, r.org(t), bob.Person.ID, true, string(ada.ID)); code(err) != "browser-session-not-found" {
		t.Errorf("another org's: %v", err)
	}
	if err := r.members.End(t.Context(), acts, one, bob.Person.ID, true, string(ada.ID)); err != nil {
		t.Fatal(err)
	}
	if got := []string{r.actions(t, one)[0], r.actions(t, two)[0]}; !slices.Equal(got, []string{"member session.end", "system session.end"}) {
		t.Errorf("the logs have %v", got)
	}
	if _, refused := r.identify(t, ada, two); refused != "signed-out" {
		t.Errorf("ended: %q", refused)
	}
}

// A browser acts in the orgs of its person and in no other, and what it is told of another does not depend on whether that exists.
func TestIdentify(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	mine, theirs := r.org(t), r.org(t)
	ada := r.join(t, mine, "ada@acme.test", member.Support)
	if scopes, refused := r.identify(t, ada, ""); scopes != member.Support.Scopes() {
		t.Errorf("the org that it shows: %v %s", scopes.Names(), refused)
	}
	for _, owner := range []id.Org{theirs, id.New[id.Org](), "org_x", "' OR 1=1"} {
		if _, refused := r.identify(t, ada, owner); refused != "membership-missing" {
			t.Errorf("%s: %q", owner, refused)
		}
	}
	for _, cookie := range []string{"", "x", ada.cookie.Reveal() + "x", "|" + ada.cookie.Reveal()[1:], string(make([]byte, 43))} {
		if _, refused := r.identify(t, browser{cookie: secret.New(cookie)}, mine); refused != "signed-out" {
			t.Errorf("%q: %q", cookie, refused)
		}
	}
	if err := r.members.Switch(t.Context(), ada.cookie, string(theirs)); code(err) != "membership-missing" {
		t.Errorf("switch to another's: %v", err)
	}
	if got := r.actions(t, mine); !slices.Equal(got, []string{"member member.sign_in", "member member.join", "operator test", "operator test"}) {
		t.Errorf("the log has %v", got)
	}
	// Its key is in no list, counts for nothing and cannot be revoked as one.
	keys, err := r.keys.List(t.Context(), mine)
	if err != nil || len(keys) != 0 {
		t.Errorf("listed: %+v %v", keys, err)
	}
	p, err := r.members.Identify(t.Context(), ada.cookie, string(mine), member.From{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.keys.Revoke(t.Context(), p, by, string(p.Key.ID)); code(err) != "key-self-revoke" {
		t.Errorf("by itself: %v", err)
	}
	other := *p
	other.Key.ID = id.New[id.Key]()
	if err := r.keys.Revoke(t.Context(), &other, by, string(p.Key.ID)); code(err) != "key-not-found" {
		t.Errorf("as a key: %v", err)
	}
}

// Who sends many cookies that were never ones is no longer looked up; a browser whose session has ended may ask as often as it likes.
func TestCookiesCannotBeGuessed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	owner := r.org(t)
	ended := r.join(t, owner, "ada@acme.test", member.Admin)
	if err := r.members.SignOut(t.Context(), by, ended.cookie); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, refused := r.identify(t, ended, owner); refused != "signed-out" {
			t.Fatalf("ended: %q", refused)
		}
	}
	var last string
	for i := range 30 {
		made := browser{cookie: secret.New(string(slices.Repeat([]byte{byte('A' + i)}, 42)) + "0")}
		if i < 26 {
			_, last = r.identify(t, made, owner)
		}
	}
	if last != "quota-exceeded" {
		t.Errorf("after many guesses: %q", last)
	}
}

// An operator looks into an org once per reason, reads only, for half an hour, and the org sees it.
func TestSupport(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	owner, other := r.org(t), r.org(t)
	acts := by
	acts.Action = "operator.access"
	if _, err := r.members.OfferSupport(t.Context(), acts, owner, " "); code(err) != "validation-failed" {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := r.members.OfferSupport(t.Context(), acts, id.New[id.Org](), "Ticket 1423"); code(err) != "org-not-found" {
		t.Errorf("no org: %v", err)
	}
	offer, err := r.members.OfferSupport(t.Context(), acts, owner, "Ticket 1423")
	if err != nil {
		t.Fatal(err)
	}
	if shown, err := r.members.SupportOffered(t.Context(), offer.Token); err != nil || shown.Org.Name != "Acme" || shown.Reason != "Ticket 1423" {
		t.Errorf("%+v %v", shown, err)
	}
	b, cookie, err := r.members.SignInSupport(t.Context(), by, offer.Token, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.members.SignInSupport(t.Context(), by, offer.Token, ""); code(err) != "invitation-not-found" {
		t.Errorf("a second time: %v", err)
	}
	looking := browser{b, cookie}
	if scopes, refused := r.identify(t, looking, owner); scopes != member.Support.Scopes() || scopes.Has(scope.MeWrite) {
		t.Errorf("%v %s", scopes.Names(), refused)
	}
	if _, refused := r.identify(t, looking, other); refused != "membership-missing" {
		t.Errorf("another org: %q", refused)
	}
	if err := r.members.Switch(t.Context(), cookie, string(owner)); code(err) != "membership-missing" {
		t.Errorf("switch: %v", err)
	}
	if got := r.actions(t, owner); !slices.Equal(got[:2], []string{"operator operator.sign_in", "operator operator.access"}) {
		t.Errorf("the log has %v", got)
	}
	r.later(30*time.Minute + time.Second)
	if _, refused := r.identify(t, looking, owner); refused != "signed-out" {
		t.Errorf("after half an hour: %q", refused)
	}
	offer, err = r.members.OfferSupport(t.Context(), acts, owner, "Ticket 1424")
	if err != nil {
		t.Fatal(err)
	}
	r.later(5*time.Minute + time.Second)
	if _, _, err := r.members.SignInSupport(t.Context(), by, offer.Token, ""); code(err) != "invitation-not-found" {
		t.Errorf("too late: %v", err)
	}
}
