package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/server/admin"
	"github.com/stagedoor/stagedoor/internal/server/api"
	eventsapi "github.com/stagedoor/stagedoor/internal/server/api/events"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
	"github.com/stagedoor/stagedoor/internal/server/dashboard"
	"github.com/stagedoor/stagedoor/internal/server/disclosure"
	"github.com/stagedoor/stagedoor/internal/server/docs"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/server/statuspage"
	"github.com/stagedoor/stagedoor/internal/server/unsubscribe"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/version"
	"github.com/stagedoor/stagedoor/web"
)

// servers are what the two listeners serve.
type servers struct {
	api   *api.API
	admin *admin.Admin
	// public serves the dashboard, the connect pages, the documentation and the API from one port. They share no path.
	public http.Handler
}

// client identifies the clients of requests.
type client struct {
	// source returns the network that a request comes from.
	source func(*http.Request) string
	// address returns the address that a request comes from.
	address func(*http.Request) netip.Addr
	// hashIP hides a source but keeps equal sources equal.
	hashIP func(string) string
}

func newServers(n *Node, p parts) (servers, error) {
	proxies, err := n.cfg.Proxies()
	if err != nil {
		return servers{}, err
	}
	from := client{endpoint.SourceOf(proxies), endpoint.AddressOf(proxies), hashWith(n.cfg.IPHashKey.Reveal())}
	pages, err := newConnectPages(n, p, from)
	if err != nil {
		return servers{}, err
	}
	board, err := newDashboard(n, p, from)
	if err != nil {
		return servers{}, err
	}
	public, reference, err := newAPI(n, p, from)
	if err != nil {
		return servers{}, err
	}
	status := statuspage.New(statuspage.Deps{
		Pulse: p.operators.pulse, Banner: p.operators.switches.Banner, Log: n.log, Now: n.clock.Now,
	})
	unsubscribing := unsubscribe.New(unsubscribe.Deps{Notices: p.delivery.notices, Source: from.source, Log: n.log, Now: n.clock.Now})
	console, err := newAdmin(n, p, from)
	if err != nil {
		return servers{}, err
	}
	return servers{
		api: public, admin: console,
		public: board.Before(pages.Before(reference.Before(status.Before(newDisclosure(n, p, from).Before(unsubscribing.Before(public)))))),
	}, nil
}

func newConnectPages(n *Node, p parts, from client) (*connectpages.Pages, error) {
	backend := connectpages.Backend{
		Connects: p.accounts.connects, Sessions: p.accounts.sessions, Orgs: p.tenants.orgs, Accounts: p.accounts.accounts,
	}
	return connectpages.New(connectpages.Deps{
		Config: connectpages.Config{URL: n.connectURL()}, Attempts: backend, Sessions: p.accounts.sessions, Orgs: backend,
		Connections: backend, Links: p.accounts.links, Platforms: p.platforms.registry,
		Draining: n.draining.Load, Source: from.source, HashIP: from.hashIP, Log: n.log, Now: n.clock.Now,
	})
}

func newDashboard(n *Node, p parts, from client) (*dashboard.Dashboard, error) {
	identity := egress.NewDirect(n.cfg.Dev)
	n.onClose(identity.CloseIdleConnections)
	control := p.operators.switches
	return dashboard.New(dashboard.Deps{
		Config: dashboard.Config{
			PublicURL: n.cfg.PublicURL, ConnectURL: n.connectURL(), Key: n.cfg.IPHashKey, Signup: n.cfg.Signup == "open",
			Dev: n.cfg.Dev,
			OIDC: dashboard.OIDC{
				Issuer: n.cfg.OIDCIssuer, ClientID: n.cfg.OIDCClientID, Secret: n.cfg.OIDCSecret, Name: n.cfg.OIDCName,
				RequireAuthTime: n.cfg.OIDCAuthTime == "required",
			},
		},
		Members: p.tenants.members, Orgs: p.tenants.orgs, Site: web.Dist(), Client: identity,
		Banner: func(context.Context) (*dashboard.Banner, error) {
			b := control.Banner()
			if b == nil {
				return nil, nil // there is no banner
			}
			return &dashboard.Banner{Level: b.Level, Text: b.Text, URL: b.URL}, nil
		},
		SignupsPaused: func(context.Context) bool { return control.Refuse(switches.Signups) != nil },
		Draining:      n.draining.Load, Source: from.source, HashIP: from.hashIP, Log: n.log, Now: n.clock.Now,
	})
}

func newDisclosure(n *Node, p parts, from client) *disclosure.Disclosure {
	github := egress.NewDirect(n.cfg.Dev)
	n.onClose(github.CloseIdleConnections)
	return disclosure.New(disclosure.Deps{
		Config: disclosure.Config{
			PublicURL: n.cfg.PublicURL, Contacts: n.cfg.SecurityContact, Policy: n.cfg.SecurityPolicy, ScannerKeys: n.cfg.ScannerKeys,
		},
		Keys: p.tenants.keys, Client: github, Source: from.source, Log: n.log, Now: n.clock.Now,
	})
}

// newAPI returns the public API and its documentation, which link to each other.
func newAPI(n *Node, p parts, from client) (*api.API, *docs.Docs, error) {
	t, a := p.tenants, p.accounts
	var reference *docs.Docs
	public, err := api.New(api.Deps{
		Config: api.Config{PublicURL: n.cfg.PublicURL, ConnectURL: n.connectURL(), Regions: p.platforms.regions, RegionsGrow: n.cfg.EgressFile != ""},
		Orgs:   t.orgs, Keys: t.keys, Members: t.members, Audit: t.audit, Limits: t.limits, Usage: t.usage,
		Journal: t.requestLog, Idempotency: t.idempotency,
		Accounts: a.accounts, Connects: a.connects, Sessions: a.sessions, Links: a.links, Health: a.health,
		ReceiptKeys: t.sealer.ReceiptKeys,
		Invoke:      p.calls.invoker, Transfers: p.calls.transfers, Platforms: p.platforms.registry, Sandbox: p.platforms.sandbox,
		Events: eventsapi.Deps{
			Streams: p.delivery.streams, Permit: t.suspensions.Permit, Store: p.events.store, Kinds: p.events.kinds,
			Accounts: a.accounts, Meter: t.usage, Tracer: p.engines.tracer(), Now: n.clock.Now,
			OpenAPI: nil, Documented: "", // package api sets them
		},
		Webhooks: p.delivery.webhooks, Notices: p.delivery.notices, Jobs: p.jobs, SDKJobs: p.sdkJobs,
		Egress: p.platforms.egress, Control: p.operators.switches,
		Pages:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reference.ServeHTTP(w, r) }),
		Metrics: endpoint.NewMetrics(n.registry, "public"), Tracer: p.engines.tracer(),
		Draining: n.draining.Load, Source: from.source, Address: from.address, HashIP: from.hashIP, Log: n.log, Now: n.clock.Now,
	})
	if err != nil {
		return nil, nil, err
	}
	n.load.Watch(public.Adapt)
	t.suspensions.Watch(func(suspended map[id.Org]struct{}) {
		for one := range suspended {
			public.Recheck(one) // Ends its streams.
		}
	})
	n.loop("epochs", func(ctx context.Context) error {
		return p.engines.bus.Subscribe(ctx, admission.EpochPattern, func(last string, payload []byte) {
			of, err := id.Parse[id.Org](last)
			if err != nil {
				return
			}
			epoch, err := strconv.ParseInt(string(payload), 10, 64)
			if err != nil {
				return
			}
			t.suspensions.Wake()
			t.keys.Heard(of, epoch)
			t.limits.Forget(of)
			public.Recheck(of)
		})
	})
	// The documentation describes the platform of the sandbox, which every reader can try.
	reference, err = docs.New(docs.Deps{
		PublicURL: n.cfg.PublicURL, OpenAPI: public.OpenAPI, Plans: t.plans, Log: n.log, Now: n.clock.Now,
	})
	return public, reference, err
}

func newAdmin(n *Node, p parts, from client) (*admin.Admin, error) {
	t := p.tenants
	identity := egress.NewDirect(n.cfg.Dev)
	n.onClose(identity.CloseIdleConnections)
	return admin.New(admin.Deps{
		Config: admin.Config{
			URL: n.cfg.ConsoleURL(), PublicURL: n.cfg.PublicURL, Node: n.cfg.Node, Version: version.String(), Key: n.cfg.IPHashKey,
			OIDC: admin.OIDC{
				Issuer: n.cfg.OperatorsIssuer, ClientID: n.cfg.OperatorsClientID, Secret: n.cfg.OperatorsSecret,
				Scopes: n.cfg.OperatorsScopes, GroupsClaim: n.cfg.OperatorsGroups,
			},
		},
		Operators: p.operators.people, Client: identity,
		DB: p.engines.db, Jobs: p.engines.jobs, Seal: t.sealer, Plans: t.plans, Orgs: t.orgs, Keys: t.keys, Members: t.members,
		Limits: t.limits, Usage: t.usage, Audit: t.audit, Accounts: p.accounts.accounts, Webhooks: p.delivery.webhooks,
		Events: p.events.store, Egress: p.platforms.egress, Control: p.operators.switches, Fleet: p.operators.fleet,
		Pulse: p.operators.pulse, Site: web.Dist(),
		Metrics: endpoint.NewMetrics(n.registry, "admin"), Tracer: p.engines.tracer(),
		Draining: n.draining.Load, Source: from.source, HashIP: from.hashIP, Log: n.log, Now: n.clock.Now,
	})
}

// hashWith returns a keyed hash of sources: equal sources stay equal, and the source cannot be read.
func hashWith(key string) func(string) string {
	return func(source string) string {
		h := hmac.New(sha256.New, []byte(key))
		h.Write([]byte(source))
		return hex.EncodeToString(h.Sum(nil)[:12])
	}
}
