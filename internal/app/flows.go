package app

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/accounts/health"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/calls/transfer"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/sandboxapi"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// flows are accounts and everything that is done with them.
type flows struct {
	catalogs        map[org.Environment]*catalog.Catalog
	drivers         func(org.Environment) (driver.Driver, bool)
	orgs            *org.Orgs
	outbox          *outbox.Outbox
	accounts        *account.Accounts
	sessions        *link.Sessions
	links           *link.Links
	connects        *connect.Connects
	health          *health.Health
	invoker         *invoke.Invoker
	transfers       *transfer.Transfers
	connectPages    *connectpages.Pages
	idempotencyKeys *idempotency.Keys
	sandbox         *sandboxapi.Client
}

// liveGuard limits password guessing on a live platform through this service. Sandbox logins are public, so it has
// none.
var liveGuard = map[org.Environment]connect.Guard{org.EnvLive: {PerLogin: 5, Refused: 20}}

// buildFlows builds what the domain consists of: platforms, accounts, attempts, health, calls, and the connect pages.
func (n *Node) buildFlows(process string, orgs *org.Orgs, auditLog *audit.Log, jobs *river.Client[pgx.Tx], source func(*http.Request) string, hashIP func(string) string) error {
	sandbox, err := catalog.Sandbox()
	if err != nil {
		return err
	}
	sandboxDriver, err := driver.New(driver.Deps{Catalog: sandbox, Egress: n.egress, Origin: n.cfg.SandboxURL, Patience: 0, Now: clock.Now})
	if err != nil {
		return fmt.Errorf("STAGEDOOR_SANDBOX_URL: %w", err)
	}
	platform := connect.Platform{Driver: sandboxDriver, Catalog: sandbox}
	if u, err := url.Parse(n.cfg.SandboxURL); err == nil {
		platform.Hosts = []string{u.Host}
	}
	drivers := func(env org.Environment) (driver.Driver, bool) { return sandboxDriver, env == org.EnvSandbox }
	n.drivers = drivers
	n.flows.catalogs = map[org.Environment]*catalog.Catalog{org.EnvSandbox: sandbox}
	n.orgs = orgs
	n.idempotencyKeys = idempotency.New(idempotency.Deps{DB: n.db, Seal: n.sealer})
	n.sandbox = sandboxapi.New(n.cfg.SandboxURL)
	n.accounts = account.New(account.Deps{
		Config: account.Config{Regions: connect.Regions, SignOutTimeout: 5 * time.Second, Listens: sandbox.Socket != nil}, DB: n.db, Orgs: orgs, Audit: auditLog, Outbox: n.outbox,
		Seal: n.sealer, Limits: n.limits, Bus: n.bus, Catalogs: n.flows.catalogs, Drivers: drivers,
		ReconnectURL: func(_ id.Org, at id.Account) string {
			return n.cfg.PublicURL + "/v1/accounts/" + string(at) + "/reconnect-link"
		}, Log: n.log, Now: clock.Now,
	})
	n.sessions = link.New(link.Deps{DB: n.db, Audit: auditLog, Outbox: n.outbox, Keys: n.sealer, Regions: connect.Regions, Now: clock.Now})
	n.links = link.NewLinks(n.sealer)
	n.events = event.New(event.Deps{DB: n.db, Log: n.log, Now: clock.Now})
	n.connects = connect.New(connect.Deps{
		Config: connect.Config{PublicURL: n.cfg.PublicURL, ConnectURL: n.connectURL(), Process: process, Guards: liveGuard},
		DB:     n.db, Orgs: orgs, Accounts: n.accounts, Seal: n.sealer, Limits: n.limits, Audit: auditLog, Outbox: n.outbox, Jobs: jobs, Bus: n.bus,
		Egress: n.egress, Hosted: n.sessions, Events: n.events, Switches: n.control, Platforms: map[org.Environment]connect.Platform{org.EnvSandbox: platform}, Log: n.log, Now: clock.Now,
	})
	n.health = health.New(health.Deps{
		Config: health.Config{}, Accounts: n.accounts, Orgs: orgs, Limits: n.limits, Catalogs: n.flows.catalogs, Drivers: drivers,
		Reauthenticate: n.connects.ReauthenticateAsSystem,
		Ticker:         clock.Ticker, Registry: n.registry, Log: n.log, Now: clock.Now,
	})
	n.invoker = invoke.New(invoke.Deps{
		Accounts: n.accounts, Health: n.health, Limits: n.limits, Meter: n.usage, Switches: n.control, Drivers: drivers, Registry: n.registry, Log: n.log, Now: clock.Now,
	})
	files, err := sandboxDriver.Files()
	if err != nil {
		return err
	}
	n.transfers = transfer.New(transfer.Deps{
		Config:    transfer.Config{},
		Platforms: map[org.Environment]transfer.Platform{org.EnvSandbox: {Catalog: sandbox, Files: files}}, Accounts: n.accounts,
		Call: func(ctx context.Context, of id.Org, at id.Account, d admission.Decision, m *catalog.Method, args catalog.Args) ([]byte, error) {
			a, err := n.invoker.Do(ctx, invoke.Call{Org: of, Account: at, Admission: d, Method: m, Args: args, Fresh: true})
			return a.Result, err
		},
		Meter: n.usage, Switches: n.control, Registry: n.registry, Now: clock.Now,
	})
	p := connectpages.Backend{Connects: n.connects, Sessions: n.sessions, Orgs: orgs, Accounts: n.accounts}
	n.connectPages, err = connectpages.New(connectpages.Deps{
		Config: connectpages.Config{URL: n.connectURL()}, Attempts: p, Sessions: n.sessions, Orgs: p, Connections: p, Links: n.links,
		Draining: n.draining.Load, Source: source, HashIP: hashIP, Log: n.log, Now: clock.Now,
	})
	return err
}

func (n *Node) connectURL() string {
	if n.cfg.ConnectURL == "" {
		return n.cfg.PublicURL
	}
	return n.cfg.ConnectURL
}

// public serves the dashboard, the connect pages, the documentation and the API from one port. They share no path.
func (n *Node) public() http.Handler {
	return n.dashboard.Before(n.connectPages.Before(n.docs.Before(n.api)))
}
