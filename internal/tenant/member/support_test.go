package member_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// ana is an operator to whom no org has granted anything.
var ana = audit.By{Kind: audit.ActorOperator, ID: "sub:ana", Label: "ana@stagedoor.test", Action: "operator.access"}

func (f *fixture) request(t *testing.T, who audit.By, owner id.Org) member.Access {
	t.Helper()
	made, err := f.members.RequestAccess(t.Context(), who, owner, "Ticket 1423")
	must.OK(t, err)
	return made
}

// grant requests access as ana and grants it as an owner.
func (f *fixture) grant(t *testing.T, boss browser, owner id.Org, lasts time.Duration) member.Access {
	t.Helper()
	granted, err := f.members.GrantAccess(t.Context(), by, owner, boss.Person.ID, string(f.request(t, ana, owner).ID), lasts)
	must.OK(t, err)
	return granted
}

// open opens the dashboard as ana.
func (f *fixture) open(t *testing.T, owner id.Org) browser {
	t.Helper()
	offer, err := f.members.OfferSupport(t.Context(), ana, owner)
	must.OK(t, err)
	b, cookie, err := f.members.SignInSupport(t.Context(), by, offer.Token, "")
	must.OK(t, err)
	return browser{b, cookie}
}

// With the consent of an owner, an offer signs the operator in once, read-only, for one org and half an hour. The org sees
// everything in its audit log, with the operator.
func TestSupport(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner, other := f.org(t), f.org(t)
	boss := f.join(t, owner, "boss@acme.test", member.Owner)
	f.grant(t, boss, owner, time.Hour)
	if _, err := f.members.OfferSupport(t.Context(), ana, id.New[id.Org]()); code(err) != "org-not-found" {
		t.Errorf("no org: %v", err)
	}
	offer, err := f.members.OfferSupport(t.Context(), ana, owner)
	must.OK(t, err)
	if shown, err := f.members.SupportOffered(t.Context(), offer.Token); err != nil || shown.Org.Name != "Acme" || shown.Reason != "Ticket 1423" {
		t.Errorf("%+v %v", shown, err)
	}
	b, cookie, err := f.members.SignInSupport(t.Context(), by, offer.Token, "")
	must.OK(t, err)
	if _, _, err := f.members.SignInSupport(t.Context(), by, offer.Token, ""); code(err) != "invitation-not-found" {
		t.Errorf("used an offer a second time: %v", err)
	}
	looking := browser{b, cookie}
	if scopes, refused := f.identify(t, looking, owner); scopes != member.Support.Scopes() || scopes.Has(scope.MeWrite) {
		t.Errorf("%v %s", scopes.Names(), refused)
	}
	if _, refused := f.identify(t, looking, other); refused != "membership-missing" {
		t.Errorf("another org: %q", refused)
	}
	if err := f.members.Switch(t.Context(), cookie, string(owner)); code(err) != "membership-missing" {
		t.Errorf("switch: %v", err)
	}
	entries, err := f.audit.Choose(t.Context(), owner, audit.Filter{}, 0, 2)
	must.OK(t, err)
	for i, want := range []string{"operator.sign_in", "operator.access"} {
		if e := entries[i]; e.By.Action != want || e.By.Label != ana.Label || e.By.Kind != audit.ActorOperator {
			t.Errorf("the log has %+v", e.By)
		}
	}
	f.advance(30*time.Minute + time.Second)
	if _, refused := f.identify(t, looking, owner); refused != "signed-out" {
		t.Errorf("after half an hour: %q", refused)
	}
	offer, err = f.members.OfferSupport(t.Context(), ana, owner)
	must.OK(t, err)
	f.advance(5*time.Minute + time.Second)
	if _, _, err := f.members.SignInSupport(t.Context(), by, offer.Token, ""); code(err) != "invitation-not-found" {
		t.Errorf("used an expired offer: %v", err)
	}
}

// Only an owner who is signed in grants access, for 1 hour to 7 days, to the operator who asked, and to no other org.
func TestOnlyAnOwnerConsents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner, other := f.org(t), f.org(t)
	boss, admin := f.join(t, owner, "boss@acme.test", member.Owner), f.join(t, owner, "admin@acme.test", member.Admin)
	stranger := f.join(t, other, "stranger@else.test", member.Owner)
	if _, err := f.members.RequestAccess(t.Context(), ana, owner, " x "); code(err) != "validation-failed" {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := f.members.RequestAccess(t.Context(), ana, id.New[id.Org](), "Ticket 1423"); code(err) != "org-not-found" {
		t.Errorf("no org: %v", err)
	}
	replaced, asked := f.request(t, ana, owner), f.request(t, ana, owner)
	refuses := func(what, want string) {
		t.Helper()
		if _, err := f.members.OfferSupport(t.Context(), ana, owner); code(err) != want {
			t.Errorf("%s: open: %v", what, err)
		}
		if err := f.members.UseAccess(t.Context(), ana, owner, "findAccounts"); code(err) != want {
			t.Errorf("%s: read: %v", what, err)
		}
		if _, _, err := f.members.Invite(t.Context(), ana, owner, operator, member.Invitee{Email: "eve@stagedoor.test", Role: "owner"}); code(err) != want {
			t.Errorf("%s: invite: %v", what, err)
		}
	}
	refuses("asked", "consent-required")
	for name, c := range map[string]struct {
		person id.Person
		in     id.Org
		access string
		lasts  time.Duration
		want   string
	}{
		"an admin":            {admin.Person.ID, owner, string(asked.ID), time.Hour, "role-required"},
		"a key":               {"", owner, string(asked.ID), time.Hour, "role-required"},
		"another org's owner": {stranger.Person.ID, owner, string(asked.ID), time.Hour, "membership-missing"},
		"in another org":      {stranger.Person.ID, other, string(asked.ID), time.Hour, "access-not-found"},
		"replaced":            {boss.Person.ID, owner, string(replaced.ID), time.Hour, "access-not-found"},
		"unknown":             {boss.Person.ID, owner, string(id.New[id.SupportAccess]()), time.Hour, "access-not-found"},
		"malformed":           {boss.Person.ID, owner, "x", time.Hour, "access-not-found"},
		"too short":           {boss.Person.ID, owner, string(asked.ID), time.Hour - 1, "validation-failed"},
		"too long":            {boss.Person.ID, owner, string(asked.ID), 7*24*time.Hour + 1, "validation-failed"},
	} {
		if _, err := f.members.GrantAccess(t.Context(), by, c.in, c.person, c.access, c.lasts); code(err) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	refuses("not granted", "consent-required")
	granted, err := f.members.GrantAccess(t.Context(), by, owner, boss.Person.ID, string(asked.ID), 7*24*time.Hour)
	must.OK(t, err)
	if lasts := granted.ExpiresAt.Sub(*granted.GrantedAt); granted.State != member.AccessGranted || lasts != 7*24*time.Hour || granted.GrantedBy != by.Label {
		t.Errorf("%+v", granted)
	}
	must.OK(t, f.members.UseAccess(t.Context(), ana, owner, "findAccounts"))
	if got := f.actions(t, owner)[0]; got != "operator operator.read" {
		t.Errorf("the log has %s", got)
	}
	noor := ana
	noor.ID, noor.Label = "sub:noor", "noor@stagedoor.test"
	if err := f.members.UseAccess(t.Context(), noor, owner, "findAccounts"); code(err) != "consent-required" {
		t.Errorf("another operator: %v", err)
	}
	if err := f.members.UseAccess(t.Context(), ana, other, "findAccounts"); code(err) != "consent-required" {
		t.Errorf("another org: %v", err)
	}
	if _, _, err := f.members.Invite(t.Context(), ana, owner, operator, member.Invitee{Email: "helper@stagedoor.test", Role: "support"}); err != nil {
		t.Errorf("with consent: %v", err)
	}
}

// A revoked access ends immediately: no new browser, no offer that was made before, and the operator's browsers are signed
// out. Repeating it changes nothing.
func TestRevokedAccessEndsImmediately(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.org(t)
	boss := f.join(t, owner, "boss@acme.test", member.Owner)
	granted := f.grant(t, boss, owner, 24*time.Hour)
	looking := f.open(t, owner)
	left, err := f.members.OfferSupport(t.Context(), ana, owner)
	must.OK(t, err)
	if _, refused := f.identify(t, looking, owner); refused != "" {
		t.Fatalf("before: %q", refused)
	}
	for range 2 {
		ended, err := f.members.RevokeAccess(t.Context(), by, owner, boss.Person.ID, string(granted.ID))
		if err != nil || ended.State != member.AccessEnded || ended.EndedBy != by.Label {
			t.Fatalf("%+v %v", ended, err)
		}
		if _, refused := f.identify(t, looking, owner); refused != "signed-out" {
			t.Errorf("the browser: %q", refused)
		}
	}
	if _, _, err := f.members.SignInSupport(t.Context(), by, left.Token, ""); code(err) != "invitation-not-found" {
		t.Errorf("an offer made before: %v", err)
	}
	if _, err := f.members.OfferSupport(t.Context(), ana, owner); code(err) != "consent-required" {
		t.Errorf("a new offer: %v", err)
	}
	if got := f.actions(t, owner); slices.Contains(got[:1], "operator operator.access") {
		t.Errorf("the log has %v", got)
	}
}

// An access ends by the database's clock, and a browser is signed out no later.
func TestAccessIsTimeBoxed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.org(t)
	boss := f.join(t, owner, "boss@acme.test", member.Owner)
	granted := f.grant(t, boss, owner, time.Hour)
	set := func(lasts string) {
		t.Helper()
		_, err := f.db.Pool().Exec(t.Context(), "UPDATE support_access SET expires_at = now() + $1::interval WHERE id = $2", lasts, granted.ID)
		must.OK(t, err)
	}
	set("10 minutes")
	looking := f.open(t, owner)
	f.advance(9 * time.Minute)
	if _, refused := f.identify(t, looking, owner); refused != "" {
		t.Errorf("before it ends: %q", refused)
	}
	f.advance(2 * time.Minute)
	if _, refused := f.identify(t, looking, owner); refused != "signed-out" {
		t.Errorf("after it has ended: %q", refused)
	}
	set("-1 second")
	if err := f.members.UseAccess(t.Context(), ana, owner, "findAccounts"); code(err) != "consent-required" {
		t.Errorf("after it has expired: %v", err)
	}
	list, err := f.members.ListAccess(t.Context(), owner)
	must.OK(t, err)
	if at := slices.IndexFunc(list, func(a member.Access) bool { return a.ID == granted.ID }); at < 0 || list[at].State != member.AccessExpired {
		t.Errorf("%+v", list)
	}
}

// What an operator's browser reads is in the org's audit log: each operation and account once per ten minutes, because
// pages poll.
func TestReadsOfOperatorsAreAudited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.org(t)
	f.grant(t, f.join(t, owner, "boss@acme.test", member.Owner), owner, time.Hour)
	looking := f.open(t, owner)
	account := id.New[id.Account]()
	read := func(operation string, of id.Account) {
		t.Helper()
		must.OK(t, f.members.RecordRead(t.Context(), ana, owner, looking.ID, operation, of))
	}
	count := func() (n int) {
		t.Helper()
		for _, a := range f.actions(t, owner) {
			if a == "operator operator.read" {
				n++
			}
		}
		return n
	}
	for range 3 {
		read("listEvents", "")
		read("getAccount", account)
	}
	if n := count(); n != 2 {
		t.Errorf("%d entries", n)
	}
	entries, err := f.audit.Choose(t.Context(), owner, audit.Filter{}, 0, 1)
	must.OK(t, err)
	if e := entries[0]; e.Target != string(account) || e.By.Label != ana.Label {
		t.Errorf("%+v", e)
	}
	f.advance(10*time.Minute + time.Second)
	read("listEvents", "")
	if n := count(); n != 3 {
		t.Errorf("%d entries after ten minutes", n)
	}
}

// An operator invites and issues keys without consent only where no owner could do so.
func TestOperatorsHelpOrgsWithoutAnOwner(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner := f.org(t)
	if _, _, err := f.members.Invite(t.Context(), ana, owner, operator, member.Invitee{Email: "boss@acme.test", Role: "owner"}); err != nil {
		t.Fatal(err)
	}
	boss := f.signIn(t, "boss@acme.test", member.Welcome{TakeUp: true})
	if boss.Org != owner {
		t.Fatalf("%+v", boss.Session)
	}
	again := operator
	again.Again = true
	if _, _, err := f.members.Invite(t.Context(), ana, owner, again, member.Invitee{Email: "eve@stagedoor.test", Role: "owner"}); code(err) != "consent-required" {
		t.Errorf("another address: %v", err)
	}
	if _, _, err := f.members.Invite(t.Context(), ana, owner, again, member.Invitee{Email: "boss@acme.test", Role: "owner"}); err != nil {
		t.Errorf("the owner, whose identity has changed: %v", err)
	}
}
