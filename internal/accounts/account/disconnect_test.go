package account_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

func contains(text []byte, part string) bool { return bytes.Contains(text, []byte(part)) }

// platform is a driver that can only sign out.
type platform struct {
	driver.Driver
	signOut func(ctx context.Context, s driver.Session) error
}

func (p platform) SignOut(ctx context.Context, _ driver.Via, s driver.Session) error {
	return p.signOut(ctx, s)
}

func withPlatform(p platform) func(*account.Deps) {
	return func(d *account.Deps) {
		known := d.Platforms
		d.Platforms = func(id string) (registry.Platform, bool) {
			platform, ok := known(id)
			platform.Driver = p
			return platform, ok
		}
	}
}

func connectWithSecrets(t testing.TB, r *accounttest.Fixture, creator string) account.Account {
	t.Helper()
	c := r.Connected(r.Org(), creator)
	c.Label, c.ReferenceID = "planted-label", "planted-reference"
	c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New("e"), Password: secret.New("p")}
	return trigger(t, r, r.Connect(c), account.Cause{On: account.ProbePassed})
}

// checkTombstone fails unless all that is left of an account is its tombstone, a valid receipt, one audit entry and one
// event.
func checkTombstone(t testing.TB, r *accounttest.Fixture, a account.Account) {
	t.Helper()
	ctx := t.Context()
	_, err := r.Accounts.Get(ctx, a.Org, a.ID)
	wantProblem(t, err, problem.AccountNotFound)
	wantProblem(t, r.Accounts.Disconnect(ctx, accounttest.By("account.disconnect"), a.Org, a.ID), problem.AccountNotFound)
	var rows int
	var rest string
	err = r.DB.Pool().QueryRow(ctx, `SELECT (SELECT count(*) FROM account_secret WHERE account_id = $1) + (SELECT count(*) FROM account_health WHERE account_id = $1),
		(SELECT account::text FROM account WHERE id = $1)`, a.ID).Scan(&rows, &rest)
	if err != nil || rows != 0 || contains([]byte(rest), a.UpstreamID) || contains([]byte(rest), "planted") || !contains([]byte(rest), "disconnected") {
		t.Fatalf("%d rows, tombstone %s, %v", rows, rest, err)
	}
	text, err := r.Accounts.Receipt(ctx, a.Org, a.ID)
	must.OK(t, err)
	key, err := r.Seal.PublicKey(ctx)
	must.OK(t, err)
	receipt, err := seal.VerifyReceipt(text, key)
	if err != nil || receipt.Account != a.ID || receipt.Org != a.Org || receipt.DataKey == "" || receipt.Keyring != seal.KeyringShared {
		t.Fatalf("%+v, %v", receipt, err)
	}
	at := seal.Address{Org: a.Org, Holder: string(a.ID), Purpose: seal.PurposeSession, Version: 1}
	if _, err := r.Seal.Seal(ctx, at, secret.New("x")); !errors.Is(err, seal.ErrShredded) {
		t.Fatalf("the data key still exists: %v", err)
	}
	events, count := r.Events(a), 0
	for _, e := range events {
		if e.Kind == "account.disconnected" {
			count++
		}
	}
	last := events[len(events)-1]
	if count != 1 || last.Kind != "account.disconnected" || !contains(last.Data, a.UpstreamID) ||
		!contains(last.Data, `"purgedAt"`) || !contains(last.Data, `"id": "key_1"`) {
		t.Fatalf("%d events, the last %s %s", count, last.Kind, last.Data)
	}
	entries, err := r.Audit.Choose(ctx, a.Org, audit.Filter{Target: string(a.ID)}, 0, 10)
	if err != nil || entries[0].By.Action != "account.disconnect" || entries[0].By.ID != "key_1" || entries[1].By.Action == "account.disconnect" {
		t.Fatalf("%+v, %v", entries, err)
	}
}

func TestADisconnectedAccountLeavesNothingAndCannotBeUsed(t *testing.T) {
	t.Parallel()
	var out []string
	r := newFixture(t, withPlatform(platform{signOut: func(_ context.Context, s driver.Session) error {
		out = append(out, s.Cookie("sess").Reveal())
		return errors.New("the platform is unavailable")
	}}))
	a := connectWithSecrets(t, r, "9021099")
	elsewhere := r.Node(nil)
	if _, _, err := elsewhere.Session(t.Context(), a.Org, a.ID); err != nil {
		t.Fatal(err)
	}
	cancelled := id.Account("")
	r.Accounts.OnDisconnect(func(_ context.Context, _ postgres.Tx, _ id.Org, account id.Account) error {
		cancelled = account
		return nil
	})
	before := publishedVersion(t, r, a)
	must.OK(t, r.Accounts.Disconnect(t.Context(), accounttest.By("account.disconnect"), a.Org, a.ID))
	_, _, err := elsewhere.Session(t.Context(), a.Org, a.ID)
	wantProblem(t, err, problem.AccountNotFound)
	if now := publishedVersion(t, r, a); now <= before {
		t.Fatalf("nodes with a cached copy are not notified: version %d, then %d", before, now)
	}
	if len(out) != 1 || out[0] != "first" || cancelled != a.ID {
		t.Fatalf("signed out %v, attempts of %q cancelled", out, cancelled)
	}
	checkTombstone(t, r, a)
	// The same creator can connect again and gets a new account.
	if b := r.Connect(r.Connected(a.Org, "9021099")); b.ID == a.ID {
		t.Fatal("the same account came back")
	}
}

// An account with more rows than one call purges is out of use immediately. Its receipt and its last event are written
// when everything is purged, and the receipt lists what it covers.
func TestReceiptIsGivenWhenEverythingItCoversIsPurged(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := connectWithSecrets(t, r, "9021099")
	calls := 0
	r.Accounts.OnPurge(func(_ context.Context, leaving account.Account, most int) (bool, error) {
		if calls++; leaving.ID != a.ID || most <= 0 || leaving.Environment == "" {
			t.Errorf("%+v, %d", leaving, most)
		}
		return calls == 3, nil
	})
	must.OK(t, r.Accounts.Disconnect(t.Context(), accounttest.By("account.disconnect"), a.Org, a.ID))
	for range 2 {
		_, err := r.Accounts.Get(t.Context(), a.Org, a.ID)
		wantProblem(t, err, problem.AccountNotFound)
		_, err = r.Accounts.Receipt(t.Context(), a.Org, a.ID)
		wantProblem(t, err, problem.AccountNotFound)
		r.Clock.Advance(2 * time.Minute)
		if _, err := r.Accounts.FinishDisconnects(t.Context(), time.Minute, 10); err != nil {
			t.Fatal(err)
		}
	}
	checkTombstone(t, r, a)
	text, err := r.Accounts.Receipt(t.Context(), a.Org, a.ID)
	if err != nil || !contains(text, `"covers":["session","credentials","events","deliveries","jobResults"]`) {
		t.Fatalf("%s, %v", text, err)
	}
}

// failingSealer is a sealer that fails at one of its steps, as if the process had crashed.
type failingSealer struct {
	*seal.Sealer
	shred func(do func() (seal.Shredded, error)) (seal.Shredded, error)
	sign  func() error
}

func (b failingSealer) Shred(ctx context.Context, org id.Org, holder string) (seal.Shredded, error) {
	return b.shred(func() (seal.Shredded, error) { return b.Sealer.Shred(ctx, org, holder) })
}

func (b failingSealer) SignReceipt(ctx context.Context, r seal.Receipt) ([]byte, error) {
	if err := b.sign(); err != nil {
		return nil, err
	}
	return b.Sealer.SignReceipt(ctx, r)
}

var errCrash = errors.New("crashed here")

// Wherever a disconnect crashes, the account is out of use immediately and the sweeper of another node finishes it.
func TestADisconnectThatCrashesAtAnyStepIsFinishedByTheSweeper(t *testing.T) {
	t.Parallel()
	steps := map[string]func(r *accounttest.Fixture, d *account.Deps){
		"before the sign-out": func(_ *accounttest.Fixture, d *account.Deps) {
			d.Platforms = func(string) (registry.Platform, bool) { panic(errCrash) }
		},
		"before the shredding": func(r *accounttest.Fixture, d *account.Deps) {
			d.Seal = failingSealer{r.Seal, func(func() (seal.Shredded, error)) (seal.Shredded, error) {
				return seal.Shredded{},
					errCrash
			}, nil}
		},
		"after the shredding": func(r *accounttest.Fixture, d *account.Deps) {
			d.Seal = failingSealer{r.Seal, func(do func() (seal.Shredded, error)) (seal.Shredded, error) {
				if _, err := do(); err != nil {
					return seal.Shredded{}, err
				}
				return seal.Shredded{}, errCrash
			}, nil}
		},
		"before the receipt": func(r *accounttest.Fixture, d *account.Deps) {
			d.Seal = failingSealer{r.Seal, func(do func() (seal.Shredded, error)) (seal.Shredded, error) { return do() },
				func() error { return errCrash }}
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			a := connectWithSecrets(t, r, "9021099")
			node := r.Node(func(d *account.Deps) { step(r, d) })
			if err := crash(func() error {
				return node.Disconnect(t.Context(), accounttest.By("account.disconnect"), a.Org, a.ID)
			}); err == nil {
				t.Fatal("it did not crash")
			}
			_, _, err := r.Accounts.Session(t.Context(), a.Org, a.ID)
			wantProblem(t, err, problem.AccountNotFound)
			wantProblem(t, r.Accounts.Disconnect(t.Context(), accounttest.By("account.disconnect"), a.Org, a.ID),
				problem.AccountNotFound)
			if n, err := r.Accounts.FinishDisconnects(t.Context(), time.Minute, 10); n != 0 || err != nil {
				t.Fatalf("finished too early, its caller may still be working on it: %d, %v", n, err)
			}
			r.Clock.Advance(2 * time.Minute)
			if n, err := r.Accounts.FinishDisconnects(t.Context(), time.Minute, 10); n != 1 || err != nil {
				t.Fatalf("%d finished, %v", n, err)
			}
			checkTombstone(t, r, a)
			if n, err := r.Accounts.FinishDisconnects(t.Context(), time.Minute, 10); n != 0 || err != nil {
				t.Fatalf("finished again: %d, %v", n, err)
			}
		})
	}
}

// crash runs do and turns a panic into an error.
func crash(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errCrash
		}
	}()
	return do()
}

// If the key store is unavailable, the caller gets a 503 that says not to retry.
func TestDisconnectReportsAnUnavailableKeyStore(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := connectWithSecrets(t, r, "9021099")
	node := r.Node(func(d *account.Deps) {
		d.Seal = failingSealer{r.Seal, func(func() (seal.Shredded, error)) (seal.Shredded, error) {
			return seal.Shredded{}, seal.ErrUnavailable
		}, nil}
	})
	err := node.Disconnect(t.Context(), accounttest.By("account.disconnect"), a.Org, a.ID)
	wantProblem(t, err, problem.ServiceUnavailable)
	document, failed := problem.Of(err).Document(problem.Place{})
	if failed != nil || !contains(document, `"retryable":false`) {
		t.Fatalf("%s", document)
	}
}
