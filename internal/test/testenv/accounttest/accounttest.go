// Package accounttest provides tests with an account service on real engines, and with connected accounts. Start with
// New, then Org, Connected and Connect. Time stands still until a test advances Clock.
package accounttest

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/base/stamp/stamptest"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// Engines holds the database and the addresses of the other engines. Those that are missing are the ones of testenv.
type Engines struct {
	DB          *postgres.DB
	Redis, NATS secret.String
}

// Fixture is an account service with its dependencies.
type Fixture struct {
	t testing.TB
	Engines
	Clock    *testenv.Clock
	Orgs     *org.Orgs
	Audit    *audit.Log
	Outbox   *outbox.Outbox
	Seal     *seal.Sealer
	Limits   *admission.Limiter
	Bus      *pubsub.Bus
	Catalog  *catalog.Catalog
	Accounts *account.Accounts
}

// alone is a fleet of one node.
type alone struct{}

func (alone) LiveAPI() int         { return 1 }
func (alone) LastDeath() time.Time { return time.Time{} }

type silent struct{}

func (silent) Announce(context.Context, id.Org, int64) error { return nil }

// offline is a driver without a platform.
type offline struct{ driver.Driver }

func (offline) SignOut(context.Context, driver.Via, driver.Session) error { return nil }

// Platforms returns the sandbox with a driver, as the only platform.
func (r *Fixture) Platforms(d driver.Driver) func(id string) (registry.Platform, bool) {
	return registry.Of(registry.Platform{Catalog: r.Catalog, Driver: d, IsSandbox: true}).Get
}

// New returns a fixture. Its driver only signs out unless change sets another one.
func New(t testing.TB, e Engines, change func(*account.Deps)) *Fixture {
	t.Helper()
	if e.DB == nil {
		e.DB = testenv.Postgres(t)
	}
	if e.Redis.Empty() {
		e.Redis = testenv.Redis(t)
	}
	if e.NATS.Empty() {
		e.NATS = testenv.NATS(t)
	}
	moved := testenv.NewClock(clock.Now().Truncate(time.Microsecond))
	e.DB = e.DB.WithClock(moved.Now) // stands in for the database's clock, which all nodes use
	r := &Fixture{t: t, Engines: e, Clock: moved}
	var err error
	r.Catalog, err = catalog.Sandbox()
	must.OK(t, err)
	r.Bus, err = pubsub.Open(pubsub.Config{URL: e.NATS, Name: "test"})
	must.OK(t, err)
	t.Cleanup(r.Bus.Close)
	client, err := redis.Open(redis.Config{URL: e.Redis, Name: "test"})
	must.OK(t, err)
	t.Cleanup(client.Close)
	log := slog.New(slog.DiscardHandler)
	r.Seal = sealtest.New(t, e.DB, r.Bus)
	r.Audit, r.Outbox = audit.New(e.DB, r.Seal, r.Clock.Now), outbox.New(e.DB, r.Clock.Now)
	r.Orgs = org.New(org.Deps{DB: e.DB, Audit: r.Audit, Jobs: nil, Announce: silent{}, Suspensions: nil, Plans: nil, Refuse: nil, Now: r.Clock.Now})
	r.Limits = admission.New(admission.Deps{
		Config: admission.Config{Timeout: 5 * time.Second, Process: "test"}, Redis: client, DB: e.DB, Bus: r.Bus, Fleet: alone{}, Registry: nil, Log: log, Now: r.Clock.Now,
	})
	r.Limits.SetEpochs(r.Orgs)
	r.Accounts = r.Node(change)
	return r
}

// Node returns the service of another node on the same engines; change may be nil.
func (r *Fixture) Node(change func(*account.Deps)) *account.Accounts {
	d := account.Deps{
		Config: account.Config{Regions: func() []string { return []string{"us", "uk"} }, SignOutTimeout: 5 * time.Second},
		DB:     r.DB, Orgs: r.Orgs, Audit: r.Audit, Outbox: r.Outbox, Seal: r.Seal, Limits: r.Limits, Bus: r.Bus,
		Platforms:    r.Platforms(offline{}),
		ReconnectURL: func(_ id.Org, a id.Account) string { return "https://connect.test/reconnect/" + string(a) },
		Log:          slog.New(slog.DiscardHandler), Now: r.Clock.Now,
	}
	if change != nil {
		change(&d)
	}
	return account.New(d)
}

// By returns an API key as the actor of an action.
func By(action string) audit.By {
	return audit.By{Kind: audit.ActorKey, ID: "key_1", Label: "ci", Action: action, Request: "req_1", IPHash: "ab"}
}

// Org creates an org in the sandbox environment.
func (r *Fixture) Org() id.Org {
	r.t.Helper()
	var made org.Org
	err := r.DB.Tx(r.t.Context(), func(tx postgres.Tx) (err error) {
		made, err = r.Orgs.Create(r.t.Context(), tx, By("org.create"), org.Draft{
			Name: "Test", Plan: "scale", Environment: environment.Sandbox, ContactEmail: "ops@example.com",
		})
		return err
	})
	must.OK(r.t, err)
	return made.ID
}

// Session returns a session with these cookies, for example "auth_id=1; sess=2".
func (r *Fixture) Session(cookies string) driver.Session {
	r.t.Helper()
	jar := map[string]secret.String{}
	for pair := range strings.SplitSeq(cookies, "; ") {
		name, value, _ := strings.Cut(pair, "=")
		jar[name] = secret.New(value)
	}
	s, missing := driver.NewSession(r.Catalog, jar, map[string]secret.String{"x-device": secret.New("test")}, "test")
	if len(missing) > 0 {
		r.t.Fatalf("the session lacks %v", missing)
	}
	return s
}

// Connected returns a finished sign-in of a creator.
func (r *Fixture) Connected(owner id.Org, creator string) account.Connected {
	return account.Connected{
		Org: owner, Attempt: id.New[id.Attempt](), Kind: "credentials", Region: "us", Label: "Luna", MaxAccounts: -1,
		Place:    driver.Place{Platform: r.Catalog.ID},
		Identity: driver.Identity{ID: creator, Username: "luna", Name: "Luna Vale", IsCreator: true},
		Session:  r.Session("auth_id=" + creator + "; sess=first"), SessionExpiresAt: r.Clock.Now().Add(30 * 24 * time.Hour),
		Consent: account.Consent{Kind: "credentials", Who: "caller", TextHash: "abc", TextVersion: "1", At: r.Clock.Now()},
	}
}

// Connect writes a finished sign-in and retries after account.ErrRaced.
func (r *Fixture) Connect(c account.Connected) account.Account {
	r.t.Helper()
	a, err := r.TryConnect(r.Accounts, c)
	must.OK(r.t, err)
	return a
}

// TryConnect is Connect on a given node; it returns the error.
func (r *Fixture) TryConnect(on *account.Accounts, c account.Connected) (account.Account, error) {
	r.t.Helper()
	for {
		p, err := on.Prepare(r.t.Context(), c)
		if err != nil {
			return account.Account{}, err
		}
		var (
			a     account.Account
			after account.AfterCommit
		)
		err = r.DB.Tx(r.t.Context(), func(tx postgres.Tx) error {
			a, after, err = on.Connect(r.t.Context(), tx, By("account.connect"), p)
			return err
		})
		if errors.Is(err, account.ErrRaced) {
			continue
		}
		if err == nil {
			after(r.t.Context())
		}
		return a, err
	}
}

func (r *Fixture) Get(a account.Account) account.Account {
	r.t.Helper()
	got, err := r.Accounts.Get(r.t.Context(), a.Org, a.ID)
	must.OK(r.t, err)
	return got
}

// Kinds lists the kinds of an account's events, oldest first.
func (r *Fixture) Kinds(a account.Account) []string {
	r.t.Helper()
	kinds := []string{}
	for _, e := range r.Events(a) {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// Events lists the events of an account, oldest first.
func (r *Fixture) Events(a account.Account) []outbox.Stored {
	r.t.Helper()
	all, err := r.Outbox.After(r.t.Context(), a.Org, 0, 1000)
	must.OK(r.t, err)
	var list []outbox.Stored
	for _, e := range all {
		if faults := stamptest.Loose(e.Data); len(faults) > 0 {
			r.t.Errorf("%s: %s", e.Kind, faults)
		}
		if e.Account == a.ID {
			list = append(list, e)
		}
	}
	return list
}
