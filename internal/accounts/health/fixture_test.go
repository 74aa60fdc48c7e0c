package health_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/health"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testplatform"
)

// fixture is a Health on a real database and a sandbox platform.
type fixture struct {
	*accounttest.Fixture
	t        testing.TB
	platform *testplatform.Platform
	driver   driver.Driver
	health   *health.Health
	signIns  *signIns
	logins   atomic.Int64
}

// signIns replaces package connect: it acquires the reauth lease as connect does and records the attempts.
type signIns struct {
	mu    sync.Mutex
	fails error
	began []id.Attempt
}

var system = audit.By{Kind: audit.ActorSystem, ID: "test"}

func newFixture(t testing.TB, change ...func(*health.Deps)) *fixture {
	t.Helper()
	return newFixtureOf(t, account.Config{}, change...)
}

// newFixtureOf has accounts with the Listens of a configuration.
func newFixtureOf(t testing.TB, c account.Config, change ...func(*health.Deps)) *fixture {
	t.Helper()
	r := &fixture{t: t, signIns: &signIns{}}
	r.platform = testplatform.New(t, testplatform.Setup{})
	r.driver = r.platform.Driver
	platforms := func(string) (registry.Platform, bool) {
		return registry.Platform{Catalog: r.platform.Catalog, Driver: r.driver}, true
	}
	r.Fixture = accounttest.New(t, accounttest.Engines{}, func(d *account.Deps) {
		d.Platforms, d.Config.Listens = platforms, c.Listens
	})
	d := health.Deps{
		Config: health.Config{}, Accounts: r.Accounts, Orgs: r.Orgs, Limits: r.Limits, Platforms: platforms,
		Reauthenticate: r.reauthenticate, Ticker: nil, Log: slog.New(slog.DiscardHandler), Now: r.Clock.Now,
	}
	for _, one := range change {
		one(&d)
	}
	r.health = health.New(d)
	return r
}

func (r *fixture) reauthenticate(ctx context.Context, owner id.Org, at id.Account) error {
	r.signIns.mu.Lock()
	defer r.signIns.mu.Unlock()
	if r.signIns.fails != nil {
		return r.signIns.fails
	}
	attempt := id.New[id.Attempt]()
	var after account.AfterCommit
	err := r.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		after, err = r.Accounts.BeginReauth(ctx, tx, system, owner, at, attempt)
		return err
	})
	if err != nil {
		return err
	}
	after(ctx)
	r.signIns.began = append(r.signIns.began, attempt)
	return nil
}

// connect signs a new creator of a persona in on the platform and connects the account. It returns the login.
func (r *fixture) connect(persona string, remember bool) (account.Account, string) {
	r.t.Helper()
	login := fmt.Sprintf("%s+%d@sandbox.test", persona, r.logins.Add(1))
	session, who := r.platform.SignIn(r.t, login)
	c := r.Connected(r.Org(), who.ID)
	c.Identity, c.Session, c.SessionExpiresAt = who, session, session.ExpiresAt(r.Catalog)
	if remember {
		c.Remember, c.Credentials = true, &account.Credentials{Email: secret.New(login), Password: secret.New("good")}
	}
	a := r.Connect(c)
	r.clearRequests()
	return a, login
}

// connectActive connects an account and makes it active by its first probe.
func (r *fixture) connectActive(remember bool) (account.Account, string) {
	r.t.Helper()
	a, login := r.connect("ok", remember)
	r.runRound(1)
	if a = r.Get(a); a.State != account.Active {
		r.t.Fatal(a.State)
	}
	r.clearRequests()
	return a, login
}

// runRound runs the due probes and fails unless there were due of them.
func (r *fixture) runRound(due int) {
	r.t.Helper()
	if n := r.health.Round(r.t.Context()); n != due {
		r.t.Fatalf("%d probes were due, want %d", n, due)
	}
}

func (r *fixture) wantState(a account.Account, want account.State, reason string) account.Account {
	r.t.Helper()
	got := r.Get(a)
	if got.State != want || got.Reason != reason {
		r.t.Fatalf("state %s (%q), want %s (%q)", got.State, got.Reason, want, reason)
	}
	return got
}

// wantLastEvent fails unless the account's newest event has this kind, and returns its data.
func (r *fixture) wantLastEvent(a account.Account, kind string) map[string]any {
	r.t.Helper()
	events := r.Events(a)
	last := events[len(events)-1]
	if last.Kind != kind {
		r.t.Fatalf("the last event is %s, not %s", last.Kind, kind)
	}
	var data map[string]any
	must.OK(r.t, json.Unmarshal(last.Data, &data))
	return data
}

// control calls the sandbox's control API.
func (r *fixture) control(method, path string, body any) map[string]any {
	r.t.Helper()
	return r.platform.Control(r.t, method, path, body)
}

func (r *fixture) addFault(login, kind string, value, count int) {
	r.t.Helper()
	r.control(http.MethodPost, "faults", map[string]any{"scope": login, "kind": kind, "value": value, "count": count})
}

func (r *fixture) endSessions(login string) {
	r.t.Helper()
	r.control(http.MethodPost, "sessions/end", map[string]any{"login": login})
}

// clearRequests empties the platform's record of requests.
func (r *fixture) clearRequests() {
	r.t.Helper()
	r.control(http.MethodDelete, "requests", nil)
}

// requestCount returns how many requests the platform got from a login; an empty login counts all, because the platform
// cannot tell whose session it is that it refuses.
func (r *fixture) requestCount(login string) int {
	r.t.Helper()
	path := "requests"
	if login != "" {
		path += "?login=" + url.QueryEscape(login)
	}
	list, _ := r.control(http.MethodGet, path, nil)["requests"].([]any)
	return len(list)
}
