package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/accounts/health"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/calls/transfer"
	"github.com/stagedoor/stagedoor/internal/engine/configfile"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/platform/sandboxapi"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// platforms are the creator platforms and the connections to them.
type platforms struct {
	egress *egress.Egress
	// regions returns the regions that an account can have; the first is the default.
	regions  func() []string
	sandbox  *sandboxapi.Client
	registry registry.Registry
}

// names returns the ids of the platforms of an environment.
func (p platforms) names(env environment.Environment) []string {
	var list []string
	for _, one := range p.registry.In(env) {
		list = append(list, one.ID)
	}
	return list
}

func newPlatforms(ctx context.Context, n *Node, op operators) (platforms, error) {
	control := sandboxapi.New(n.cfg.SandboxURL)
	n.onClose(control.Close)
	leaving, err := n.cfg.EgressConfig()
	if err != nil {
		return platforms{}, err
	}
	out := egress.New(egress.Deps{Config: leaving, Registry: n.registry, Starved: n.load.Starved, Log: n.log, Now: clock.Now})
	n.onClose(out.Close)
	if n.cfg.EgressFile != "" {
		if err := n.files.Add(ctx, configfile.File{Setting: "STAGEDOOR_EGRESS_FILE", Path: n.cfg.EgressFile, Apply: func(_ context.Context, content []byte) error {
			list, err := egress.ParseRegions(secret.New(string(content)))
			if err == nil {
				out.Reload(list)
			}
			return err
		}}); err != nil {
			return platforms{}, err
		}
	}
	n.loop("egress", out.Run)
	op.switches.Watch(func(s switches.State) {
		drained, off := map[string]bool{}, map[string]bool{}
		for proxy := range s.Drained {
			drained[proxy] = true
		}
		for one := range s.Off {
			if region := one.Region(); region != "" {
				off[region] = true
			}
		}
		out.Steer(drained, off)
	})
	sources, err := n.cfg.PlatformSources()
	if err != nil {
		return platforms{}, err
	}
	clients, err := n.cfg.PlatformClients()
	if err != nil {
		return platforms{}, err
	}
	all, err := registry.New(registry.Deps{Sources: sources, OAuth: clients, Egress: out, Now: n.clock.Now})
	if err != nil {
		return platforms{}, fmt.Errorf("STAGEDOOR_PLATFORMS: %w", err)
	}
	return platforms{egress: out, regions: n.regionsWith(out), sandbox: control, registry: all}, nil
}

// regionsWith returns the regions that an account can have: those of the settings, and those that the file of proxies has
// in addition.
func (n *Node) regionsWith(out *egress.Egress) func() []string {
	return func() []string {
		list := slices.Clone(n.cfg.Regions)
		if n.cfg.EgressFile == "" {
			return list
		}
		for _, name := range out.Regions() {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
		return list
	}
}

// accounts are the services for connected accounts: sign-in, state, probes.
type accounts struct {
	platforms platforms
	accounts  *account.Accounts
	sessions  *link.Sessions
	links     *link.Links
	connects  *connect.Connects
	health    *health.Health
}

func newAccounts(n *Node, eng engines, op operators, t tenants, p platforms, ev events) accounts {
	list := account.New(account.Deps{
		Config: account.Config{
			Regions: p.regions, SignOutTimeout: 5 * time.Second, Listens: true,
		},
		DB: eng.db, Orgs: t.orgs, Audit: t.audit, Outbox: t.outbox, Seal: t.sealer, Limits: t.limits, Bus: eng.bus,
		Platforms: p.registry.Get,
		ReconnectURL: func(_ id.Org, at id.Account) string {
			return n.cfg.PublicURL + "/v1/accounts/" + string(at) + "/reconnect-link"
		},
		Log: n.log, Now: n.clock.Now,
	})
	n.loop("successes of accounts", func(ctx context.Context) error {
		<-ctx.Done()
		list.FlushSeen(context.WithoutCancel(ctx))
		return nil
	})
	n.loop("versions of accounts", list.WatchVersions)
	n.loop("sessions of accounts", func(ctx context.Context) error {
		return eng.bus.Subscribe(ctx, account.SessionPattern, list.Heard)
	})
	sessions := link.New(link.Deps{
		DB: eng.db, Audit: t.audit, Outbox: t.outbox, Keys: t.sealer, Seal: t.sealer, Mail: t.mails, ConnectURL: n.connectURL(),
		Regions: p.regions, Now: n.clock.Now,
	})
	connects := connect.New(connect.Deps{
		Config: connect.Config{
			PublicURL: n.cfg.PublicURL, ConnectURL: n.connectURL(), Process: n.process,
			Regions: p.regions,
		},
		DB: eng.db, Orgs: t.orgs, Accounts: list, Seal: t.sealer, Limits: t.limits, Audit: t.audit, Outbox: t.outbox,
		Jobs: eng.jobs, Bus: eng.bus, Egress: p.egress, Hosted: sessions, Events: ev.store, Switches: op.switches,
		Platforms: p.registry, Registry: n.registry, Log: n.log, Now: n.clock.Now,
	})
	n.loop("attempts", func(ctx context.Context) error {
		return eng.bus.Subscribe(ctx, connect.Pattern, connects.Heard)
	})
	probes := health.New(health.Deps{
		Config: health.Config{}, Accounts: list, Orgs: t.orgs, Limits: t.limits, Platforms: p.registry.Get,
		Reauthenticate: connects.ReauthenticateAsSystem, Ticker: clock.Ticker,
		Registry: n.registry, Log: n.log, Now: n.clock.Now,
	})
	if n.hasRole("worker") {
		n.loop("connect", connects.Run)
		n.loop("health", probes.Run)
	}
	return accounts{
		platforms: p, accounts: list, sessions: sessions, links: link.NewLinks(t.sealer), connects: connects, health: probes,
	}
}

func (n *Node) connectURL() string {
	return cmp.Or(n.cfg.ConnectURL, n.cfg.PublicURL)
}

// calls are the services for calls and file transfers.
type calls struct {
	invoker   *invoke.Invoker
	transfers *transfer.Transfers
}

func newCalls(n *Node, op operators, t tenants, p platforms, a accounts) calls {
	invoker := invoke.New(invoke.Deps{
		Accounts: a.accounts, Health: a.health, Limits: t.limits, Meter: t.usage, Switches: op.switches, Platforms: p.registry.Get,
		Starved: n.load.Starved, Registry: n.registry, Log: n.log, Now: n.clock.Now,
	})
	call := func(
		ctx context.Context, of id.Org, at id.Account, d admission.Decision, m *catalog.Method, args catalog.Args,
	) ([]byte, error) {
		r, err := invoker.Do(ctx, invoke.Call{Org: of, Account: at, Admission: d, Method: m, Args: args, Fresh: true})
		return r.Result, err
	}
	return calls{invoker, transfer.New(transfer.Deps{
		Config: transfer.Config{}, Platforms: p.registry.Get, Accounts: a.accounts, Call: call, Meter: t.usage,
		Switches: op.switches, Registry: n.registry,
	})}
}
