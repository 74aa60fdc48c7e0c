// Package api is the public API: the operations that customers call under /v1, and the pages that its problems link to.
//
// A handler reads a request, calls one method of the domain and writes the response; server/endpoint does everything
// around that. Larger groups of operations are packages of their own below this one. Start reading at New, which adds
// all of them.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/accounts/health"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/calls/transfer"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/sandboxapi"
	"github.com/stagedoor/stagedoor/internal/server/api/accounts"
	"github.com/stagedoor/stagedoor/internal/server/api/audits"
	"github.com/stagedoor/stagedoor/internal/server/api/events"
	"github.com/stagedoor/stagedoor/internal/server/api/links"
	"github.com/stagedoor/stagedoor/internal/server/api/logs"
	"github.com/stagedoor/stagedoor/internal/server/api/sandboxes"
	"github.com/stagedoor/stagedoor/internal/server/api/sdk"
	"github.com/stagedoor/stagedoor/internal/server/api/status"
	"github.com/stagedoor/stagedoor/internal/server/api/usages"
	"github.com/stagedoor/stagedoor/internal/server/api/webhooks"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// Version is the version of the API, not of the build.
const Version = "1.0.0"

// Config holds the settings of the API.
type Config struct {
	// PublicURL is the address at which callers reach the service, without a trailing slash.
	PublicURL string
	// ConnectURL is the address at which creators reach their pages, without a trailing slash.
	ConnectURL string
}

// Deps are the dependencies of the API.
type Deps struct {
	Config Config
	Orgs   *org.Orgs
	Keys   *apikey.Keys
	// Members are the users of the dashboard.
	Members *member.Members
	Audit   *audit.Log
	Limits  *admission.Limiter
	Usage   *usage.Usage
	// Journal is the request log.
	Journal *requestlog.Journal

	Accounts *account.Accounts
	Connects *connect.Connects
	Sessions *link.Sessions
	// Links makes the addresses at which creators reconnect accounts.
	Links  *link.Links
	Health *health.Health
	Invoke *invoke.Invoker
	// Transfers moves files to and from platforms.
	Transfers *transfer.Transfers
	// Events are the dependencies of the event operations.
	Events   events.Deps
	Webhooks *webhook.Webhooks
	// Status are the dependencies of the status operation.
	Status status.Deps
	// Sandbox controls the sandbox platform; nil if there is none.
	Sandbox *sandboxapi.Client
	// Idempotency makes requests with an Idempotency-Key run once.
	Idempotency *idempotency.Keys
	// Catalogs are the callable methods by the org's environment. An environment without one has no platform.
	Catalogs map[org.Environment]*catalog.Catalog
	// Pages serves the pages about problems to browsers. *docs.Docs implements it.
	Pages    http.Handler
	Metrics  *endpoint.Metrics
	Tracer   trace.Tracer
	Draining func() bool
	Source   func(*http.Request) string
	HashIP   func(string) string
	Log      *slog.Logger
	Now      func() time.Time
}

// API serves the public API.
type API struct {
	Deps
	table *endpoint.Table
	pages pages
	// polls are the free polls of each attempt.
	polls ratelimit.Pace
	// document generates the OpenAPI document once, after all operations were added.
	document func() ([]byte, error)
	// served is the same document with its ETag and its compressed form.
	served func() (endpoint.Document, error)
}

// New builds the table of operations. It fails if a document that the API serves cannot be read.
func New(d Deps) (*API, error) {
	a := &API{Deps: d, polls: ratelimit.New(freePolls, freePollsWithin, d.Now)}
	a.table = endpoint.New(endpoint.Deps{
		Config: endpoint.Config{
			Title: "Stagedoor", Version: Version, PublicURL: d.Config.PublicURL, ProblemsURL: d.Config.PublicURL + "/problems",
			Description: "Connect a creator's account once, act on it over HTTP, and receive its events.",
		},
		Auth: customers{d.Keys, d.Members}, Browser: &endpoint.Browser{Cookie: member.Cookie, Identify: a.identifyBrowser}, Admit: d.Limits, Count: d.Usage, Journal: d.Journal, Idempotency: d.Idempotency, Reconnect: a.reconnectURL, Draining: d.Draining,
		Source: d.Source, HashIP: d.HashIP, Metrics: d.Metrics, Tracer: d.Tracer, Log: d.Log, Now: d.Now,
	})
	var err error
	if a.pages, err = encodePages(); err != nil {
		return nil, err
	}
	a.meRoutes()
	a.teamRoutes()
	a.browserRoutes()
	a.keyRoutes()
	usages.Routes(a.table, usages.Deps{Usage: d.Usage, Limits: d.Limits, Accounts: d.Accounts, Connects: d.Connects, Webhooks: d.Webhooks, Now: d.Now})
	logs.Routes(a.table, d.Journal, d.Now)
	audits.Routes(a.table, audits.Deps{Log: d.Audit, Accounts: d.Accounts})
	sdk.Routes(a.table, sdk.Deps{Invoke: d.Invoke, Accounts: d.Accounts, PublicURL: d.Config.PublicURL, Catalogs: d.Catalogs})
	events.Routes(a.table, d.Events)
	webhooks.Routes(a.table, webhooks.Deps{Webhooks: d.Webhooks, Accounts: d.Accounts})
	accounts.Routes(a.table, accounts.Deps{Accounts: d.Accounts, Webhooks: d.Webhooks, Usage: d.Usage})
	a.accountRoutes()
	a.connectRoutes()
	a.fileRoutes()
	sandboxes.Routes(a.table, sandboxes.Deps{
		Sandbox: d.Sandbox, Accounts: d.Accounts, Connects: d.Connects, Catalog: d.Catalogs[org.EnvSandbox], Attempt: a.findAttempt, PublicURL: d.Config.PublicURL,
		Now: d.Now,
	})
	links.Routes(a.table, links.Deps{
		Sessions: d.Sessions, Connects: d.Connects, Accounts: d.Accounts, MayConnect: mayConnect, ConnectURL: d.Config.ConnectURL, Now: d.Now,
	})
	status.Routes(a.table, d.Status)
	a.documentRoutes()
	a.document = sync.OnceValues(a.table.OpenAPI)
	a.served = sync.OnceValues(func() (endpoint.Document, error) {
		doc, err := a.document()
		if err != nil {
			return endpoint.Document{}, err
		}
		return endpoint.NewDocument(doc)
	})
	return a, nil
}

// reconnectURL returns the page on which a person reconnects an account.
func (a *API) reconnectURL(ctx context.Context, org id.Org, account id.Account) (string, error) {
	token, err := a.Links.MakeReconnect(ctx, org, account, a.Now())
	return a.Config.ConnectURL + "/r/" + token.Reveal(), err
}

// ServeHTTP serves the API.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.table.ServeHTTP(w, r) }

// Operations returns all operations.
func (a *API) Operations() []endpoint.Operation { return a.table.Operations() }

// Recheck makes the streams of an org check immediately whether their keys are still valid.
func (a *API) Recheck(org id.Org) { a.table.Recheck(org) }

// EndStreams ends the streams of a node that is about to stop, and waits until they have ended.
func (a *API) EndStreams(ctx context.Context) error { return a.table.EndStreams(ctx) }

// OpenAPI returns the OpenAPI document.
func (a *API) OpenAPI() ([]byte, error) { return a.document() }

// customers authenticates API keys. It implements endpoint.Authenticator.
type customers struct {
	keys    *apikey.Keys
	members *member.Members
}

func (c customers) Authenticate(ctx context.Context, token string) (endpoint.Identity, error) {
	p, err := c.keys.Verify(ctx, token, endpoint.Source(ctx))
	if err != nil {
		return endpoint.Identity{}, err
	}
	return identity(p), nil
}

func (c customers) Refresh(ctx context.Context, id endpoint.Identity) (endpoint.Identity, error) {
	p, err := c.keys.Refresh(ctx, id.Principal, endpoint.From(ctx).Started())
	if key := id.Principal.Key; err != nil && key.Kind == apikey.KindSession && errors.Is(err, problem.SignedOut.New("")) {
		err = c.members.Ended(ctx, key.Session)
	}
	if err != nil {
		return endpoint.Identity{}, err
	}
	return identity(p), nil
}

// identity returns the actor behind a key. A browser's session acts as its member, or as an operator if it has no
// person.
func identity(p *apikey.Principal) endpoint.Identity {
	who := endpoint.Identity{Principal: p, Scopes: p.Scopes, Kind: audit.ActorKey, ID: string(p.Key.ID), Label: p.Key.Label}
	switch {
	case p.Key.Kind != apikey.KindSession:
	case p.Key.Person != "":
		who.Kind, who.ID = audit.ActorMember, string(p.Key.Person)
	default:
		who.Kind, who.ID = audit.ActorOperator, "admin"
	}
	return who
}

// identifyBrowser authenticates browsers that are signed in to the dashboard.
func (a *API) identifyBrowser(r *http.Request, cookie string) (endpoint.Identity, error) {
	ctx := r.Context()
	source := endpoint.Source(ctx)
	p, err := a.Members.Identify(ctx, secret.New(cookie), r.Header.Get(member.OrgHeader), member.From{
		Source: source, Request: endpoint.From(ctx).Request, IPHash: a.HashIP(source),
	})
	if err != nil {
		return endpoint.Identity{}, err
	}
	return identity(p), nil
}
