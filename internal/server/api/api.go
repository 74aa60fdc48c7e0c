// Package api is the public API: the operations that customers call under /v1, and the pages that its problems link to.
//
// A handler reads a request, calls one method of the domain and writes the response; server/endpoint does everything
// around that. The operations of each tag of the OpenAPI document are a package below this one. Start reading at New,
// which adds all of them.
package api

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/accounts/health"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/calls/transfer"
	"github.com/stagedoor/stagedoor/internal/delivery/notice"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/jobs/sdkjob"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/platform/sandboxapi"
	"github.com/stagedoor/stagedoor/internal/server/api/accounts"
	"github.com/stagedoor/stagedoor/internal/server/api/audits"
	connectapi "github.com/stagedoor/stagedoor/internal/server/api/connect"
	"github.com/stagedoor/stagedoor/internal/server/api/documents"
	"github.com/stagedoor/stagedoor/internal/server/api/events"
	"github.com/stagedoor/stagedoor/internal/server/api/identity"
	"github.com/stagedoor/stagedoor/internal/server/api/jobs"
	"github.com/stagedoor/stagedoor/internal/server/api/keys"
	"github.com/stagedoor/stagedoor/internal/server/api/logs"
	"github.com/stagedoor/stagedoor/internal/server/api/media"
	"github.com/stagedoor/stagedoor/internal/server/api/notices"
	"github.com/stagedoor/stagedoor/internal/server/api/platforms"
	"github.com/stagedoor/stagedoor/internal/server/api/sandbox"
	"github.com/stagedoor/stagedoor/internal/server/api/sdk"
	"github.com/stagedoor/stagedoor/internal/server/api/status"
	"github.com/stagedoor/stagedoor/internal/server/api/team"
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
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Version is the version of the API, not of the build.
const Version = "1.0.0"

// Config holds the settings of the API.
type Config struct {
	// PublicURL is the address at which callers reach the service, without a trailing slash.
	PublicURL string
	// ConnectURL is the address at which creators reach their pages, without a trailing slash.
	ConnectURL string
	// Regions lists the regions that an account can have; the first is the default.
	Regions func() []string
	// RegionsGrow means that more regions can be added while the server runs.
	RegionsGrow bool
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
	// ReceiptKeys returns the keys that verify deletion receipts; *seal.Sealer implements it.
	ReceiptKeys func(context.Context) ([]seal.ReceiptKey, error)
	Invoke      *invoke.Invoker
	// Transfers moves files to and from platforms.
	Transfers *transfer.Transfers
	// Events are the dependencies of the event operations.
	Events   events.Deps
	Webhooks *webhook.Webhooks
	Notices  *notice.Notices
	Jobs     *job.Jobs
	SDKJobs  *sdkjob.Kinds
	Egress   *egress.Egress
	Control  *switches.Control
	// Sandbox controls the sandbox platform; nil if there is none.
	Sandbox *sandboxapi.Client
	// Idempotency makes requests with an Idempotency-Key run once.
	Idempotency *idempotency.Keys
	Platforms   registry.Registry
	// Pages serves the pages about problems to browsers. *docs.Docs implements it.
	Pages    http.Handler
	Metrics  *endpoint.Metrics
	Tracer   trace.Tracer
	Draining func() bool
	Source   func(*http.Request) string
	Address  func(*http.Request) netip.Addr
	HashIP   func(string) string
	Log      *slog.Logger
	Now      func() time.Time
}

// API serves the public API.
type API struct {
	table *endpoint.Table
	// document generates the OpenAPI document once, after all operations were added.
	document func() ([]byte, error)
}

// New builds the table of operations. It fails if a document that the API serves cannot be read.
func New(d Deps) (*API, error) {
	auth := customers{d.Keys, d.Members, d.HashIP}
	t := endpoint.New(endpoint.Deps{
		Config: endpoint.Config{
			Title: "Stagedoor", Version: Version, PublicURL: d.Config.PublicURL, ProblemsURL: d.Config.PublicURL + "/problems",
			Description: "Connect a creator's account once, act on it over HTTP, and receive its events.",
			Choices:     map[string][]string{"regions": d.Config.Regions()}, ChoicesGrow: d.Config.RegionsGrow,
		},
		Auth: auth, Browser: &endpoint.Browser{Cookie: member.Cookie, Identify: auth.identifyBrowser, RequireRecent: d.Members.RequireRecent},
		Admit: d.Limits, Count: d.Usage, Journal: d.Journal, Idempotency: d.Idempotency, Reconnect: d.reconnectURL, Draining: d.Draining,
		Source: d.Source, Address: d.Address, HashIP: d.HashIP, Metrics: d.Metrics, Tracer: d.Tracer, Log: d.Log, Now: d.Now, Local: nil,
	})
	a := &API{t, sync.OnceValues(t.OpenAPI)}
	t.Describe(func() (endpoint.Part, error) { return endpoint.Part{Tags: tags}, nil })
	identity.Routes(t, identity.Deps{
		Orgs: d.Orgs, Members: d.Members, Regions: d.Config.Regions, PublicURL: d.Config.PublicURL,
	})
	team.Routes(t, d.Members)
	notices.Routes(t, d.Notices)
	keys.Routes(t, d.Keys, d.Accounts, d.Platforms)
	usages.Routes(t, usages.Deps{
		Usage: d.Usage, Limits: d.Limits, Accounts: d.Accounts, Connects: d.Connects, Webhooks: d.Webhooks,
		Regions: d.Config.Regions, Now: d.Now,
	})
	logs.Routes(t, d.Journal, d.Now)
	audits.Routes(t, d.Audit, d.Accounts)
	sdk.Routes(t, sdk.Deps{Invoke: d.Invoke, Accounts: d.Accounts, PublicURL: d.Config.PublicURL, Platforms: d.Platforms})
	d.Events.OpenAPI, d.Events.Documented = a.document, d.Platforms.Documented().Catalog.ID
	events.Routes(t, d.Events)
	webhooks.Routes(t, d.Webhooks, d.Accounts, d.Now)
	accounts.Routes(t, accounts.Deps{
		Accounts: d.Accounts, Health: d.Health, Webhooks: d.Webhooks, Usage: d.Usage, ReceiptKeys: d.ReceiptKeys,
		OrgReceipt: d.Orgs.Receipt,
	})
	connectapi.Routes(t, connectapi.Deps{
		Connects: d.Connects, Sessions: d.Sessions, Accounts: d.Accounts, Limits: d.Limits, Permit: d.Events.Permit,
		ConnectURL: d.Config.ConnectURL, Regions: d.Config.Regions, Platforms: d.Platforms, Now: d.Now,
	})
	platforms.Routes(t, d.Platforms, d.Config.Regions)
	media.Routes(t, d.Transfers)
	jobs.Routes(t, jobs.Deps{Jobs: d.Jobs, SDK: d.SDKJobs, RequireRecent: d.Members.RequireRecent, Now: d.Now})
	sandbox.Routes(t, sandbox.Deps{
		Sandbox: d.Sandbox, Accounts: d.Accounts, Connects: d.Connects, Catalog: d.Platforms.Documented().Catalog,
		PublicURL: d.Config.PublicURL, Now: d.Now,
	})
	status.Routes(t, d.Egress, d.Control)
	recorded, err := readExamples()
	if err != nil {
		return nil, err
	}
	t.Show(recorded)
	t.Describe(describeSamples) // After the parts whose operations have samples.
	if err := documents.Routes(t, documents.Deps{PublicURL: d.Config.PublicURL, Pages: d.Pages, OpenAPI: a.document}); err != nil {
		return nil, err
	}
	return a, nil
}

// tags are the groups of operations, in reading order.
var tags = []endpoint.Tag{
	{Name: "Identity", Description: "The calling key and its organisation."},
	{Name: "Connect", Description: "Connect a creator's account: with email and password, on their phone, with cookies, or on our connect pages."},
	{Name: "Accounts", Description: "List, read, label, pause, reconnect and disconnect accounts."},
	{Name: "SDK", Description: "List the methods of the SDK, and call them on an account."},
	{Name: "Events", Description: "Read the events of accounts, as a stream or page by page."},
	{Name: "Jobs", Description: "Start work that is longer than a call, such as an export of everything, follow it, and download its result."},
	{Name: "Webhooks", Description: "Receive events at your own URL: set, test, pause and replay webhooks, and inspect deliveries."},
	{Name: "Media", Description: "Download and upload files of an account."},
	{Name: "Keys", Description: "Create, list and revoke the organisation's API keys."},
	{Name: "Usage", Description: "See what is left of every limit, and what was used."},
	{Name: "Logs", Description: "Read the request log, and errors by group."},
	{Name: "Audit", Description: "See who changed what in the organisation."},
	{Name: "Team", Description: "Manage members, invitations and browser sessions."},
	{Name: "Sandbox", Description: "Control the sandbox: act as fans, trigger events, inject faults."},
	{Name: "Status", Description: "See whether the service works."},
	{Name: "Documents", Description: "Read the problems and the OpenAPI document."},
}

// samples are the code samples of the operations. cmd/sdkgen writes them together with the client libraries.
//
//go:embed samples.json
var samples []byte

// examples are bodies that the service sent. scripts/record-examples records them.
//
//go:embed examples
var examples embed.FS

func readExamples() (endpoint.Examples, error) {
	e := endpoint.Examples{Responses: map[string]map[string]json.RawMessage{}, Events: map[string]json.RawMessage{}}
	err := fs.WalkDir(examples, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := examples.ReadFile(name)
		if err != nil {
			return err
		}
		switch key := strings.TrimSuffix(path.Base(name), ".json"); path.Base(path.Dir(name)) {
		case "operations":
			var byStatus map[string]json.RawMessage
			err = json.Unmarshal(text, &byStatus)
			e.Responses[key], e.Responses[key+".get"] = byStatus, byStatus // A method has the same result in both forms.
		case "events":
			e.Events[key] = text
		default:
			err = json.Unmarshal(text, &e.Problems)
		}
		return err
	})
	if err != nil {
		return e, fmt.Errorf("read the recorded examples: %w", err)
	}
	return e, nil
}

func describeSamples() (part endpoint.Part, err error) {
	err = json.Unmarshal(samples, &part.Samples)
	return part, err
}

// reconnectURL returns the page on which a person reconnects an account.
func (d *Deps) reconnectURL(ctx context.Context, org id.Org, account id.Account) (string, error) {
	token, err := d.Links.MakeReconnect(ctx, org, account, d.Now())
	return d.Config.ConnectURL + "/r/" + token.Reveal(), err
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.table.ServeHTTP(w, r) }

func (a *API) Operations() []endpoint.Operation { return a.table.Operations() }

// Recheck makes the streams of an org check immediately whether their keys are still valid.
func (a *API) Recheck(org id.Org) { a.table.Recheck(org) }

// Adapt changes how many requests the node works on concurrently, by how long it delayed its own work in the last
// load.Every.
func (a *API) Adapt(delay time.Duration) { a.table.Adapt(delay) }

// EndStreams ends the streams of a node that is about to stop, and waits until they have ended.
func (a *API) EndStreams(ctx context.Context) error { return a.table.EndStreams(ctx) }

func (a *API) OpenAPI() ([]byte, error) { return a.document() }
