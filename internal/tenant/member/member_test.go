package member_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Each role has the scopes in this table. An unknown role has none.
func TestRolesHaveTheirScopes(t *testing.T) {
	t.Parallel()
	everything := "accounts:read accounts:write sdk:call webhooks:read webhooks:write me:read me:write usage:read"
	for role, want := range map[member.Role]string{
		member.Owner: everything, member.Admin: everything,
		member.Developer: "accounts:read accounts:write sdk:call webhooks:read webhooks:write me:read usage:read",
		member.Support:   "accounts:read webhooks:read me:read usage:read",
		"king":           "",
	} {
		if got := strings.Join(role.Scopes().Names(), " "); got != want {
			t.Errorf("%s: %s", role, got)
		}
	}
	if _, err := member.ParseRole("king"); code(err) != "validation-failed" {
		t.Errorf("an unknown role: %v", err)
	}
}

// mayGive lists, by caller, which roles the caller may give, and so invite, change, remove and withdraw.
var mayGive = []struct {
	who    string
	caller func(t *testing.T, f *fixture, owner id.Org) member.Caller
	// answers are the problem codes for owner, admin, developer and support; empty means allowed.
	answers [4]string
}{
	{"an owner", withRole(member.Owner), [4]string{"", "", "", ""}},
	{"an admin", withRole(member.Admin), [4]string{"role-required", "", "", ""}},
	// The API refuses the next two earlier, because they lack me:write. This check is the second line of defence.
	{"a developer", withRole(member.Developer), [4]string{"role-required", "scope-escalation", "", ""}},
	{"a supporter", withRole(member.Support), [4]string{"role-required", "scope-escalation", "scope-escalation", ""}},
	{"an operator", func(*testing.T, *fixture, id.Org) member.Caller { return operator }, [4]string{"", "", "", ""}},
	{"a key", withKey(scope.Everyday(), false), [4]string{"role-required", "", "", ""}},
	{"a key for teams only", withKey(scope.Of(scope.MeRead, scope.MeWrite), false), [4]string{"role-required", "scope-escalation", "scope-escalation", "scope-escalation"}},
	{"a key for some accounts", withKey(scope.Everyday(), true), [4]string{"role-required", "scope-escalation", "scope-escalation", "scope-escalation"}},
	{"a stranger", func(t *testing.T, f *fixture, _ id.Org) member.Caller {
		t.Helper()
		return f.join(t, f.org(t), "stranger@else.test", member.Owner).caller()
	}, [4]string{"membership-missing", "membership-missing", "membership-missing", "membership-missing"}},
}

func withRole(role member.Role) func(*testing.T, *fixture, id.Org) member.Caller {
	return func(t *testing.T, f *fixture, owner id.Org) member.Caller {
		t.Helper()
		return f.join(t, owner, "actor@acme.test", role).caller()
	}
}

func withKey(scopes scope.Set, limited bool) func(*testing.T, *fixture, id.Org) member.Caller {
	return func(*testing.T, *fixture, id.Org) member.Caller {
		return member.Caller{Scopes: scopes, Limited: limited}
	}
}

// Every caller tries every action on a team with every role. No caller can give or take more than it has, and only
// owners can change owners. A refused action changes nothing.
func TestTeamMatrix(t *testing.T) {
	t.Parallel()
	for _, c := range mayGive {
		t.Run(c.who, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			owner := f.org(t)
			f.join(t, owner, "first@acme.test", member.Owner) // so that no other owner is the last one
			caller := c.caller(t, f, owner)
			for i, role := range member.Roles() {
				f.tryInvitations(t, owner, caller, role, c.answers[i])
				f.tryRemoval(t, owner, caller, role, c.answers[i])
				for j, to := range member.Roles() {
					want := cmp.Or(c.answers[i], c.answers[j])
					f.tryChange(t, owner, caller, role, to, want)
				}
			}
		})
	}
}

func (f *fixture) tryInvitations(t *testing.T, owner id.Org, caller member.Caller, role member.Role, want string) {
	t.Helper()
	_, _, err := f.members.Invite(t.Context(), by, owner, caller, member.Invitee{Email: fmt.Sprintf("new-%s@acme.test", role), Role: string(role)})
	if code(err) != want {
		t.Errorf("invite as %s: %v, want %q", role, err, want)
	}
	there, _, err := f.members.Invite(t.Context(), by, owner, operator, member.Invitee{Email: fmt.Sprintf("other-%s@acme.test", role), Role: string(role)})
	must.OK(t, err)
	// Replacing an invitation needs the right to withdraw the existing one.
	_, _, err = f.members.Invite(t.Context(), by, owner, caller, member.Invitee{Email: there.Email, Role: string(member.Support)})
	if refused := want != "" && code(err) == ""; refused {
		t.Errorf("replace an invitation as %s: %v", role, err)
	}
	if err == nil {
		there, _, err = f.members.Invite(t.Context(), by, owner, operator, member.Invitee{Email: there.Email, Role: string(role)})
		must.OK(t, err)
	}
	if err := f.members.Withdraw(t.Context(), by, owner, caller, string(there.ID)); code(err) != want {
		t.Errorf("withdraw an invitation as %s: %v, want %q", role, err, want)
	}
	_, open, err := f.members.List(t.Context(), owner)
	must.OK(t, err)
	if left := slices.ContainsFunc(open, func(i member.Invitation) bool { return i.ID == there.ID }); left != (want != "") {
		t.Errorf("after withdrawing an invitation as %s: still open is %v", role, left)
	}
}

func (f *fixture) tryChange(t *testing.T, owner id.Org, caller member.Caller, from, to member.Role, want string) {
	t.Helper()
	who := f.join(t, owner, fmt.Sprintf("%s-%s@acme.test", from, to), from)
	_, err := f.members.SetRole(t.Context(), by, owner, caller, string(who.Person.ID), string(to))
	if code(err) != want {
		t.Errorf("make %s %s: %v, want %q", from, to, err, want)
	}
	expected := to
	if want != "" {
		expected = from
	}
	if m, err := f.members.Get(t.Context(), owner, who.Person.ID); err != nil || m.Role != expected {
		t.Errorf("make %s %s: is %+v, %v", from, to, m, err)
	}
	if scopes, refused := f.identify(t, who, owner); scopes != expected.Scopes() || refused != "" {
		t.Errorf("make %s %s: the browser may %v %s", from, to, scopes.Names(), refused)
	}
}

func (f *fixture) tryRemoval(t *testing.T, owner id.Org, caller member.Caller, role member.Role, want string) {
	t.Helper()
	who := f.join(t, owner, fmt.Sprintf("gone-%s@acme.test", role), role)
	if _, err := f.members.Remove(t.Context(), by, owner, caller, string(who.Person.ID)); code(err) != want {
		t.Errorf("remove a %s: %v, want %q", role, err, want)
	}
	if _, refused := f.identify(t, who, owner); (refused == "") != (want != "") {
		t.Errorf("remove a %s: the browser gets %q", role, refused)
	}
}

// The last owner cannot leave, be removed or get another role. Two owners who remove each other concurrently do not
// both succeed.
func TestLastOwnerCannotBeRemovedOrChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.org(t)
	ada := f.join(t, owner, "ada@acme.test", member.Owner)
	if _, err := f.members.Remove(t.Context(), by, owner, ada.caller(), string(ada.Person.ID)); code(err) != "last-owner" {
		t.Errorf("removed: %v", err)
	}
	if _, err := f.members.SetRole(t.Context(), by, owner, operator, string(ada.Person.ID), "admin"); code(err) != "last-owner" {
		t.Errorf("changed: %v", err)
	}
	bob := f.join(t, owner, "bob@acme.test", member.Owner)
	var wait sync.WaitGroup
	errs := make([]error, 2)
	for i, pair := range [][2]browser{{ada, bob}, {bob, ada}} {
		wait.Go(func() {
			_, errs[i] = f.members.Remove(t.Context(), by, owner, pair[0].caller(), string(pair[1].Person.ID))
		})
	}
	wait.Wait()
	left, _, err := f.members.List(t.Context(), owner)
	if err != nil || len(left) != 1 || left[0].Role != member.Owner || (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("%v %v: left are %+v", errs, err, left)
	}
}

// An invitation is for one address and works once, until it expires, is replaced or is withdrawn.
func TestInvitations(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.org(t)
	invite := func(email string) secret.String {
		t.Helper()
		_, token, err := f.members.Invite(t.Context(), by, owner, operator, member.Invitee{Email: email, Role: "developer"})
		must.OK(t, err)
		return token
	}
	eve := f.signIn(t, "eve@else.test", member.Welcome{Signup: true})
	token := invite("Ada@Acme.Test")
	if i, err := f.members.Offered(t.Context(), token); err != nil || i.Email != "ada@acme.test" || i.Org != owner {
		t.Errorf("offered: %+v %v", i, err)
	}
	if _, err := f.members.Join(t.Context(), by, eve.cookie, token); !errors.Is(err, member.ErrOtherEmail) {
		t.Errorf("joined by another person: %v", err)
	}
	// The Kelvin sign becomes ASCII in lower case, but the address remains a different one.
	kelvin := f.signIn(t, "\u212aay@else.test", member.Welcome{Signup: true})
	if _, err := f.members.Join(t.Context(), by, kelvin.cookie, invite("kay@else.test")); !errors.Is(err, member.ErrOtherEmail) {
		t.Errorf("joined with a look-alike address: %v", err)
	}
	// An invited person can sign in, but becomes a member only through the link.
	ada := f.signIn(t, "ADA@acme.test", member.Welcome{})
	if ada.Org != "" {
		t.Errorf("the session shows an org before joining: %+v", ada.Session)
	}
	if _, refused := f.identify(t, ada, owner); refused != "membership-missing" {
		t.Errorf("not joined yet: %q", refused)
	}
	older := token
	token = invite("ada@acme.test")
	if _, err := f.members.Join(t.Context(), by, ada.cookie, older); code(err) != "invitation-not-found" {
		t.Errorf("joined by a replaced invitation: %v", err)
	}
	if at, err := f.members.Join(t.Context(), by, ada.cookie, token); err != nil || at != owner {
		t.Errorf("joined: %v %v", at, err)
	}
	if scopes, refused := f.identify(t, ada, owner); scopes != member.Developer.Scopes() {
		t.Errorf("joined: may %v %s", scopes.Names(), refused)
	}
	if _, err := f.members.Join(t.Context(), by, ada.cookie, token); code(err) != "invitation-not-found" {
		t.Errorf("joined a second time: %v", err)
	}
	if _, _, err := f.members.Invite(t.Context(), by, owner, operator, member.Invitee{Email: "ada@acme.test", Role: "owner"}); code(err) != "already-member" {
		t.Errorf("invited a member: %v", err)
	}
	late := invite("late@acme.test")
	f.signIn(t, "late@acme.test", member.Welcome{})
	f.advance(7*24*time.Hour + time.Second)
	bob := f.signIn(t, "late@acme.test", member.Welcome{})
	if _, err := f.members.Join(t.Context(), by, bob.cookie, late); code(err) != "invitation-not-found" {
		t.Errorf("joined by an expired invitation: %v", err)
	}
	if _, _, err := f.members.Invite(t.Context(), by, owner, operator, member.Invitee{Email: "Ada <ada@acme.test>", Role: "owner"}); code(err) != "validation-failed" {
		t.Errorf("invited an invalid address: %v", err)
	}
	want := []string{"member member.sign_in", "member member.join"}
	if got := f.actions(t, owner); !contains(got, want) {
		t.Errorf("the audit log has %v", got)
	}
}

func contains(list, part []string) bool {
	for i := range list {
		if i+len(part) <= len(list) && slices.Equal(list[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

// Concurrent requests with one invitation make one member.
func TestInvitationIsAcceptedOnceUnderConcurrency(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.org(t)
	_, token, err := f.members.Invite(t.Context(), by, owner, operator, member.Invitee{Email: "ada@acme.test", Role: "admin"})
	must.OK(t, err)
	b := f.signIn(t, "ada@acme.test", member.Welcome{})
	var (
		wait sync.WaitGroup
		mu   sync.Mutex
		won  int
	)
	for range 8 {
		wait.Go(func() {
			_, err := f.members.Join(t.Context(), by, b.cookie, token)
			mu.Lock()
			defer mu.Unlock()
			switch code(err) {
			case "":
				won++
			case "invitation-not-found":
			default:
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if joins := slices.DeleteFunc(f.actions(t, owner), func(a string) bool { return a != "member member.join" }); won != 1 || len(joins) != 1 {
		t.Errorf("%d succeeded, %v", won, joins)
	}
}

// CleanText returns one line of printable characters for any input. CleanEmail accepts single plain addresses only.
func TestTextsFromOutsideAreCleaned(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		" Ada\tLovelace\n": "Ada Lovelace", "a\x00b\u202ec\ufffd": "a b c", "": "", strings.Repeat("é", 130): strings.Repeat("é", 120), "\xff\xfe": "",
	} {
		if got := member.CleanText(given, 120); got != want {
			t.Errorf("%q: %q", given, got)
		}
	}
	for given, ok := range map[string]bool{
		"a@b.test": true, " a@b.test ": true, "a@b": true, "": false, "a": false, "a b@c.test": false, "<a@b.test>": false, "a@b.test,c@d.test": false,
		"a@b.test\nBcc: c@d.test": false, strings.Repeat("a", 250) + "@b.test": false,
	} {
		if _, got := member.CleanEmail(given); got != ok {
			t.Errorf("%q: %v", given, got)
		}
	}
}
