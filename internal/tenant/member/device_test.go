package member_test

import (
	"context"
	"errors"
	"regexp"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// rest lets a tool wait as long as it must between two polls, and expire lets its codes expire, by the database's clock.
func (f *fixture) rest(t *testing.T) {
	t.Helper()
	_, err := f.db.Pool().Exec(t.Context(), "UPDATE device_grant SET polled_at = polled_at - interval '1 minute'")
	must.OK(t, err)
}

func (f *fixture) expire(t *testing.T) {
	t.Helper()
	_, err := f.db.Pool().Exec(t.Context(), "UPDATE device_grant SET expires_at = now()")
	must.OK(t, err)
}

func (f *fixture) startDevice(t *testing.T) member.Device {
	t.Helper()
	d, err := f.members.StartDevice(t.Context(), "ada's\x00 laptop\n", "192.0.2.1")
	must.OK(t, err)
	return d
}

func (f *fixture) redeem(t *testing.T, code secret.String) (secret.String, error) {
	t.Helper()
	_, plain, err := f.members.RedeemDevice(t.Context(), audit.By{}, code)
	return plain, err
}

// A tool gets a key with the scopes of the person's role, once, after the person has approved it. The key names the person
// and the machine, and is found among the keys that the person has created.
func TestAToolIsSignedInOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner, ada := f.deviceOrg(t, member.Developer)
	d := f.startDevice(t)
	if !regexp.MustCompile(`^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$`).MatchString(d.UserCode) || len(d.Code.Reveal()) != 43 {
		t.Errorf("the codes are %q and %d characters", d.UserCode, len(d.Code.Reveal()))
	}
	if _, err := f.redeem(t, d.Code); !errors.Is(err, member.ErrDevicePending) {
		t.Errorf("before the decision: %v", err)
	}
	if _, err := f.redeem(t, d.Code); !errors.Is(err, member.ErrDeviceEarly) {
		t.Errorf("a poll that is too early: %v", err)
	}
	tool, err := f.members.FindDevice(t.Context(), " "+d.UserCode[:4]+d.UserCode[5:]+" ")
	if err != nil || tool.Machine != "ada's laptop" || tool.Address != "192.0.2.1" {
		t.Errorf("%+v %v", tool, err)
	}
	must.OK(t, f.members.ApproveDevice(t.Context(), ada.Person.ID, owner, d.UserCode))
	for what, err := range map[string]error{
		"approving again": f.members.ApproveDevice(t.Context(), ada.Person.ID, owner, d.UserCode),
		"denying later":   f.members.DenyDevice(t.Context(), ada.Person.ID, d.UserCode),
		"another code":    f.members.ApproveDevice(t.Context(), ada.Person.ID, owner, "BBBB-BBBB"),
	} {
		if !errors.Is(err, member.ErrDeviceUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
	f.rest(t)
	const tries = 6
	type result struct {
		plain secret.String
		err   error
	}
	results := make(chan result, tries)
	for range tries {
		go func() {
			_, plain, err := f.members.RedeemDevice(context.WithoutCancel(t.Context()), audit.By{}, d.Code)
			results <- result{plain, err}
		}()
	}
	var plain secret.String
	got := 0
	for range tries {
		switch r := <-results; {
		case r.err == nil:
			plain = r.plain
			got++
		case !errors.Is(r.err, member.ErrDeviceUnknown):
			t.Errorf("a concurrent poll: %v", r.err)
		}
	}
	if got != 1 {
		t.Fatalf("%d polls got a key", got)
	}
	p, err := f.keys.Verify(t.Context(), plain.Reveal(), "192.0.2.1")
	must.OK(t, err)
	if p.Scopes != member.Developer.Scopes() || p.Org.ID != owner || p.Key.MintedBy != ada.Person.ID || p.Key.Label != ada.Person.Email+" on ada's laptop" {
		t.Errorf("the key is %+v", p.Key)
	}
}

// A tool gets no key if the person refuses, leaves the org, or waits too long; and a stranger cannot approve it for an org.
func TestAToolGetsNoKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner, ada := f.deviceOrg(t, member.Developer)
	other, _ := f.deviceOrg(t, member.Owner)

	denied := f.startDevice(t)
	must.OK(t, f.members.DenyDevice(t.Context(), ada.Person.ID, denied.UserCode))
	if _, err := f.redeem(t, denied.Code); !errors.Is(err, member.ErrDeviceDenied) {
		t.Errorf("refused: %v", err)
	}

	foreign := f.startDevice(t)
	if err := f.members.ApproveDevice(t.Context(), ada.Person.ID, other, foreign.UserCode); code(err) != "member-not-found" {
		t.Errorf("approved for an org of others: %v", err)
	}

	left := f.startDevice(t)
	must.OK(t, f.members.ApproveDevice(t.Context(), ada.Person.ID, owner, left.UserCode))
	_, err := f.members.Remove(t.Context(), by, owner, member.Caller{Operator: true}, string(ada.Person.ID))
	must.OK(t, err)
	if _, err := f.redeem(t, left.Code); !errors.Is(err, member.ErrDeviceDenied) {
		t.Errorf("after the person has left: %v", err)
	}

	late := f.startDevice(t)
	f.expire(t)
	if _, err := f.members.FindDevice(t.Context(), late.UserCode); !errors.Is(err, member.ErrDeviceUnknown) {
		t.Errorf("an expired code is shown: %v", err)
	}
	if _, err := f.redeem(t, late.Code); !errors.Is(err, member.ErrDeviceExpired) {
		t.Errorf("expired: %v", err)
	}
	if _, err := f.redeem(t, secret.New("x")); !errors.Is(err, member.ErrDeviceUnknown) {
		t.Errorf("unknown: %v", err)
	}
}

// Each poll that is too early makes the tool wait longer.
func TestAToolThatPollsTooFastWaitsLonger(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := f.startDevice(t)
	for range 3 {
		_, _ = f.redeem(t, d.Code)
	}
	var interval int
	must.OK(t, f.db.Pool().QueryRow(t.Context(), "SELECT interval_sec FROM device_grant").Scan(&interval))
	if interval != 15 {
		t.Errorf("the interval is %d s", interval)
	}
}

// deviceOrg creates an org and a person with a role in it.
func (f *fixture) deviceOrg(t *testing.T, role member.Role) (id.Org, member.Session) {
	t.Helper()
	owner := f.org(t)
	return owner, f.join(t, owner, string(owner)+"@acme.test", role).Session
}
