// Package admin is the server for operators, on the internal listener only: the admin API with everything that
// operators see and decide, and the console, which is a web page on top of it (console.go).
//
// Its token comes from the settings and carries admin:*; customers' keys are unknown here. Operators see objects and
// their states but never their contents: no session, cookie, payload or secret. Changes to an org are recorded in the
// org's audit log, changes to the service in a separate log. Start reading at New.
package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Config holds the settings of the server.
type Config struct {
	// Token authenticates operators.
	Token secret.String
	// URL is the address of the internal listener, PublicURL that of the dashboard and of the pages about problems.
	URL, PublicURL string
	// Node is the name of this process, Version the version that it runs.
	Node, Version string
}

// Deps are the dependencies of the server.
type Deps struct {
	Config   Config
	DB       *postgres.DB
	Orgs     *org.Orgs
	Keys     *apikey.Keys
	Members  *member.Members
	Accounts *account.Accounts
	Webhooks *webhook.Webhooks
	Events   *event.Store
	Limits   *admission.Limiter
	Egress   *egress.Egress
	Seal     *seal.Sealer
	Control  *switches.Control
	Jobs     *Queue
	Audit    *audit.Log
	Fleet    *fleet.Fleet
	// Site has the built pages.
	Site     fs.FS
	Metrics  *endpoint.Metrics
	Tracer   trace.Tracer
	Draining func() bool
	Source   func(*http.Request) string
	HashIP   func(string) string
	Log      *slog.Logger
	Now      func() time.Time
}

// Admin serves the admin API and the console.
type Admin struct {
	deps    Deps
	table   *endpoint.Table
	console *console
}

// New builds the table of operations and the console.
func New(d Deps) *Admin {
	a := &Admin{deps: d}
	who := newOperators(d.Config.Token, d.Now)
	a.console = newConsole(a, who)
	a.table = endpoint.New(endpoint.Deps{
		Config: endpoint.Config{
			Title: "Stagedoor admin", Version: "1.0.0", Description: "For operators.",
			PublicURL: d.Config.URL, ProblemsURL: d.Config.PublicURL + "/problems",
		},
		Auth: who, Browser: &endpoint.Browser{Cookie: cookieName, Identify: who.identify}, Admit: nil, Count: nil, Journal: nil, Idempotency: nil, Reconnect: nil,
		Draining: d.Draining, Source: d.Source, HashIP: d.HashIP, Metrics: d.Metrics, Tracer: d.Tracer, Log: d.Log, Now: d.Now, Local: nil,
	})
	a.orgRoutes()
	a.accessRoutes()
	a.invitationRoutes()
	a.accountRoutes()
	a.fleetRoutes()
	a.leaseRoutes()
	a.egressRoutes()
	a.laneRoutes()
	a.jobRoutes()
	a.letterRoutes()
	a.keyringRoutes()
	a.controlRoutes()
	a.auditRoutes()
	return a
}

// ServeHTTP serves the console and the admin API.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.console.serves(r.URL.Path) {
		a.console.ServeHTTP(w, r)
		return
	}
	a.table.ServeHTTP(w, r)
}

func (a *Admin) Operations() []endpoint.Operation { return a.table.Operations() }

func (a *Admin) OpenAPI() ([]byte, error) { return a.table.OpenAPI() }

// operators authenticates the operator token, and browsers that have signed in with it.
type operators struct {
	hash [sha256.Size]byte
	pass passes
	// wrong limits the wrong tokens of each source, across those of all sources together.
	wrong, across ratelimit.Pace
}

// Limits on wrong tokens per minute: from one source, and from all sources together.
const (
	wrongPerMinute = 60
	wrongOfAll     = 300
)

func newOperators(token secret.String, now func() time.Time) *operators {
	return &operators{
		hash: sha256.Sum256([]byte(token.Reveal())), pass: newPasses(token, now),
		wrong: ratelimit.New(wrongPerMinute, time.Minute, now), across: ratelimit.New(wrongOfAll, time.Minute, now),
	}
}

func (o *operators) Authenticate(ctx context.Context, token string) (endpoint.Identity, error) {
	source := endpoint.From(ctx).Origin.Source
	if o.guessing(source) {
		return endpoint.Identity{}, problem.QuotaExceeded.New("Too many wrong tokens were sent from this network. Try again later.").
			After(retryGuess).With("reason", "auth_failures").With("limit", wrongPerMinute).With("current", wrongPerMinute)
	}
	if !o.isToken(token) {
		o.missed(source)
		return endpoint.Identity{}, problem.KeyInvalid.New("This is not the operator token.")
	}
	return operator(""), nil
}

// retryGuess is the number of seconds after which a source over its limit may try again.
const retryGuess = 2

// guessing reports whether a token from a source must be refused unread: the source has sent too many wrong tokens, or all
// sources together have and it sent some of them. A source that sent none is always served, so that others cannot lock an
// operator out.
func (o *operators) guessing(source string) bool {
	return o.wrong.Spent(source) || o.across.Spent("") && !o.wrong.Unused(source)
}

// missed records a wrong token from a source.
func (o *operators) missed(source string) {
	o.wrong.Take(source)
	o.across.Take("")
}

// isToken reports whether a token is the operator token, in constant time.
func (o *operators) isToken(token string) bool {
	given := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(given[:], o.hash[:]) == 1
}

// identify authenticates a browser by its cookie.
func (o *operators) identify(_ *http.Request, value string) (endpoint.Identity, error) {
	p, ok := o.pass.read(value)
	if !ok {
		return endpoint.Identity{}, problem.SignedOut.New("Sign in again at /ops/sign-in.")
	}
	return operator(p.Name), nil
}

func operator(name string) endpoint.Identity {
	name = cmp.Or(name, "operator")
	return endpoint.Identity{Scopes: scope.Internal(), Kind: audit.ActorOperator, ID: "admin", Label: name}
}

// Refresh returns the identity unchanged: the token changes only with a restart.
func (o *operators) Refresh(_ context.Context, id endpoint.Identity) (endpoint.Identity, error) {
	return id, nil
}
