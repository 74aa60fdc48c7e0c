package apikey_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

type announcer struct{ epochs []int64 }

func (a *announcer) Announce(_ context.Context, _ id.Org, epoch int64) error {
	a.epochs = append(a.epochs, epoch)
	return nil
}

type fixture struct {
	db        *postgres.DB
	keys      *apikey.Keys
	orgs      *org.Orgs
	announcer *announcer
	now       time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{db: testenv.Postgres(t), announcer: &announcer{}, now: time.Now().UTC()}
	now := func() time.Time { return f.now }
	log := audit.New(f.db, sealtest.NewMemory(), now)
	f.orgs = org.New(org.Deps{DB: f.db, Audit: log, Jobs: testenv.NoJobs{}, Announce: f.announcer, Now: now})
	f.keys = apikey.New(apikey.Deps{DB: f.db, Orgs: f.orgs, Audit: log, Outbox: outbox.New(f.db, now), Troubled: func() time.Time { return time.Time{} }, Now: now})
	return f
}

var by = audit.By{Kind: audit.ActorSystem, ID: "test", Action: "test"}

// create creates an org and its first key.
func (f *fixture) create(t *testing.T, limits org.Override) (org.Org, string) {
	t.Helper()
	var (
		o     org.Org
		plain string
	)
	err := f.db.Tx(t.Context(), func(tx postgres.Tx) error {
		var err error
		if o, err = f.orgs.Create(t.Context(), tx, by, org.Draft{Name: "T", Plan: "starter", Environment: environment.Live, ContactEmail: "a@b.test", Override: limits}); err != nil {
			return err
		}
		_, key, err := f.keys.Issue(t.Context(), tx, o, by, apikey.Draft{Label: "first"})
		plain = key.Reveal()
		return err
	})
	must.OK(t, err)
	return o, plain
}

func (f *fixture) verify(t *testing.T, key string) (*apikey.Principal, string) {
	t.Helper()
	p, err := f.keys.Verify(t.Context(), key, "192.0.2.1")
	if err != nil {
		return p, problem.Of(err).Kind.Code
	}
	return p, ""
}

// Verify uses a cached identity for 30 seconds, reads it again immediately after an announcement of its org, and
// distinguishes the reasons why a key may not call.
func TestVerify(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	o, key := f.create(t, nil)
	p, code := f.verify(t, key)
	if code != "" || p.Org.ID != o.ID {
		t.Fatalf("%+v %s", p, code)
	}
	if again, _ := f.verify(t, key); again != p {
		t.Error("a cached key was read again")
	}
	f.keys.Heard(o.ID, p.Org.Epoch+1)
	if again, _ := f.verify(t, key); again == p {
		t.Error("a cached key was used although its org had changed")
	}
	p, _ = f.verify(t, key)
	f.keys.Heard(o.ID, 0)
	f.now = f.now.Add(31 * time.Second)
	if again, _ := f.verify(t, key); again == p {
		t.Error("a cached key was used for more than 30 seconds")
	}

	unknown, _, _, err := apikey.NewToken(environment.Live)
	must.OK(t, err)
	if _, code := f.verify(t, unknown.Reveal()); code != "key-invalid" {
		t.Errorf("an unknown key: %s", code)
	}
	yes := true
	if _, err := f.orgs.Update(t.Context(), o.ID, by, org.Change{Suspended: &yes}); err != nil {
		t.Fatal(err)
	}
	f.keys.Distrust()
	f.now = f.now.Add(time.Millisecond)
	if _, code := f.verify(t, key); code != "org-suspended" {
		t.Errorf("a key of a suspended org: %q", code)
	}
}

// A cached key expires by the clock, without an announcement.
func TestVerifyNoticesExpiry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, first := f.create(t, nil)
	caller, _ := f.verify(t, first)
	end := f.now.Add(10 * time.Second)
	_, plain, err := f.keys.Mint(t.Context(), caller, by, apikey.Draft{Label: "short", ExpiresAt: &end})
	must.OK(t, err)
	if _, code := f.verify(t, plain.Reveal()); code != "" {
		t.Fatalf("a key that has not expired: %s", code)
	}
	f.now = end
	if _, code := f.verify(t, plain.Reveal()); code != "key-expired" {
		t.Errorf("a key that has expired: %q", code)
	}
}

// LastUsedAt is accurate to two minutes for a key in use. It does not change for an unused key or for a refused call.
func TestLastUsedAtIsAccurateToTwoMinutes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	owner, first := f.create(t, nil)
	caller, _ := f.verify(t, first)
	used := f.now
	key, plain, err := f.keys.Mint(t.Context(), caller, by, apikey.Draft{Label: "idle"})
	must.OK(t, err)
	lastUses := func() map[id.Key]*time.Time {
		list, err := f.keys.List(t.Context(), owner.ID)
		must.OK(t, err)
		uses := map[id.Key]*time.Time{}
		for _, k := range list {
			uses[k.ID] = k.LastUsedAt
		}
		return uses
	}
	if uses := lastUses(); uses[key.ID] != nil || uses[caller.Key.ID] == nil || used.Sub(*uses[caller.Key.ID]).Abs() > time.Millisecond {
		t.Errorf("after the first call: %v", uses)
	}
	for range 20 {
		f.now = f.now.Add(31 * time.Second)
		f.verify(t, first)
		if last := lastUses()[caller.Key.ID]; f.now.Sub(*last) > 2*time.Minute {
			t.Fatalf("used at %v, LastUsedAt is %v", f.now, last)
		}
	}
	must.OK(t, f.keys.Revoke(t.Context(), caller, by, string(key.ID)))
	if _, code := f.verify(t, plain.Reveal()); code != "key-revoked" {
		t.Errorf("a revoked key: %q", code)
	}
	if last := lastUses()[key.ID]; last != nil {
		t.Errorf("a refused call set LastUsedAt to %v", last)
	}
}

// While announcements may get lost, Verify uses a cached identity for at most ten seconds.
func TestVerifyReadsAgainSoonerWhenAnnouncementsMayBeLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, key := f.create(t, nil)
	f.keys.Deps().Troubled = func() time.Time { return f.now }
	p, _ := f.verify(t, key)
	f.now = f.now.Add(9 * time.Second)
	if again, _ := f.verify(t, key); again != p {
		t.Error("read again before ten seconds")
	}
	f.now = f.now.Add(2 * time.Second)
	if again, _ := f.verify(t, key); again == p {
		t.Error("used for more than ten seconds although announcements may be lost")
	}
}

// A source that sends many unknown keys is refused. Known keys from the same source still work.
func TestVerifyRefusesSourceWithManyUnknownKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, known := f.create(t, nil)
	if _, code := f.verify(t, known); code != "" {
		t.Fatal(code)
	}
	var last string
	for range 30 {
		guess, _, _, err := apikey.NewToken(environment.Live)
		must.OK(t, err)
		_, last = f.verify(t, guess.Reveal())
	}
	if last != "quota-exceeded" {
		t.Errorf("the thirtieth guess got %s", last)
	}
	if _, code := f.verify(t, known); code != "" {
		t.Errorf("a known key from the same source got %s", code)
	}
}

// Concurrent mints cannot exceed the number of keys in the plan.
func TestMintKeepsToThePlanUnderConcurrency(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, key := f.create(t, org.Override{"maxKeys": 4})
	caller, _ := f.verify(t, key)
	results := make(chan error, 10)
	for i := range 10 {
		go func() {
			_, _, err := f.keys.Mint(t.Context(), caller, by, apikey.Draft{Label: fmt.Sprint(i)})
			results <- err
		}()
	}
	minted := 0
	for range 10 {
		switch err := <-results; {
		case err == nil:
			minted++
		case !errors.Is(err, problem.PlanRequired.New("")):
			t.Error(err)
		}
	}
	if minted != 3 {
		t.Errorf("%d keys minted after the first, want 3", minted)
	}
}

// A revocation advances the epoch once and announces it; revoking again does neither.
func TestRevokeAnnouncesOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	o, key := f.create(t, nil)
	caller, _ := f.verify(t, key)
	other, plain, err := f.keys.Mint(t.Context(), caller, by, apikey.Draft{Label: "other"})
	must.OK(t, err)
	if _, code := f.verify(t, plain.Reveal()); code != "" {
		t.Fatal(code)
	}
	for range 2 {
		must.OK(t, f.keys.Revoke(t.Context(), caller, by, string(other.ID)))
	}
	if len(f.announcer.epochs) != 1 || f.announcer.epochs[0] != caller.Org.Epoch+1 {
		t.Errorf("announced %v", f.announcer.epochs)
	}
	f.keys.Heard(o.ID, caller.Org.Epoch+1)
	if _, code := f.verify(t, plain.Reveal()); code != "key-revoked" {
		t.Errorf("the revoked key: %q", code)
	}
}
