// Package admin is the operators' face, on the internal listener only: the admin API with everything that operators see and decide, and the
// console, which is a page on top of it (console.go).
//
// Its tokens carry admin:* and come from the server's settings; a customer's key is unknown here. Operators see what there is and how it
// fares, and never what is in it: no session, no cookie, no payload, no secret. What they change in an org is in that org's audit log, what
// they change in the service is in a log of their own.
package admin

import (
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
	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Config are the settings.
type Config struct {
	// Token is what operators authenticate with.
	Token secret.String
	// URL is where the internal listener is, PublicURL where customers' pages and those about problems are.
	URL, PublicURL string
	// Node is what this process is called, Version what it runs.
	Node, Version string
}

// Deps is what the face needs.
type Deps struct {
	Config   Config
	DB       *postgres.DB
	Orgs     *org.Orgs
	Keys     *apikey.Keys
	Members  *member.Members
	Accounts *account.Accounts
	Webhooks *webhook.Webhooks
	Limits   *admission.Limiter
	Egress   *egress.Egress
	Seal     sealer
	Control  *switches.Control
	Jobs     Queue
	Audit    *audit.Log
	Fleet    *fleet.Fleet
	// Site are the built pages.
	Site     fs.FS
	Metrics  *endpoint.Metrics
	Tracer   trace.Tracer
	Draining func() bool
	Source   func(*http.Request) string
	HashIP   func(string) string
	Log      *slog.Logger
	Now      func() time.Time
}

// Admin is the face.
type Admin struct {
	Deps
	table   *endpoint.Table
	console *console
}

// New makes the face.
func New(d Deps) *Admin {
	a := &Admin{Deps: d}
	who := newOperators(d.Config.Token, d.Now)
	a.console = newConsole(a, who)
	a.table = endpoint.New(endpoint.Deps{
		Config: endpoint.Config{
			Title: "Stagedoor admin", Version: "1.0.0", Description: "For operators.",
			PublicURL: d.Config.URL, ProblemsURL: d.Config.PublicURL + "/problems",
		},
		Auth: who, Browser: &endpoint.Browser{Cookie: cookieName, Identify: who.identify}, Admit: nil, Count: nil, Journal: nil, Idempotency: nil, Reconnect: nil,
		Draining: d.Draining, Source: d.Source, HashIP: d.HashIP, Metrics: d.Metrics, Tracer: d.Tracer, Log: d.Log, Now: d.Now,
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
	a.keyringRoutes()
	a.controlRoutes()
	a.auditRoutes()
	return a
}

// ServeHTTP serves the face.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.console.serves(r.URL.Path) {
		a.console.ServeHTTP(w, r)
		return
	}
	a.table.ServeHTTP(w, r)
}

// Operations lists what the face serves.
func (a *Admin) Operations() []endpoint.Operation { return a.table.Operations() }

// OpenAPI is the document of the face.
func (a *Admin) OpenAPI() ([]byte, error) { return a.table.OpenAPI() }

// operators authenticates internal tokens, and browsers that have shown one.
type operators struct {
	hash [sha256.Size]byte
	pass passes
	// wrong bounds wrong tokens of each source, across those of all sources together.
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
	source := endpoint.Source(ctx)
	if o.guessing(source) {
		return endpoint.Identity{}, problem.QuotaExceeded.New("Too many wrong tokens were sent. Tokens from this network are not looked at for a moment.").
			After(retryGuess).With("reason", "auth_failures").With("limit", wrongPerMinute).With("current", wrongPerMinute)
	}
	if !o.knows(token) {
		o.missed(source)
		return endpoint.Identity{}, problem.KeyInvalid.New("This is not an operator's token.")
	}
	return operator(""), nil
}

// retryGuess is after how many seconds a source that sent too many wrong tokens has another try.
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

// knows says whether a token is the operators'.
func (o *operators) knows(token string) bool {
	given := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(given[:], o.hash[:]) == 1
}

// identify judges a browser's cookie.
func (o *operators) identify(_ *http.Request, value string) (endpoint.Identity, error) {
	p, ok := o.pass.read(value)
	if !ok {
		return endpoint.Identity{}, problem.SignedOut.New("Sign in again at /ops/sign-in.")
	}
	return operator(p.Name), nil
}

func operator(name string) endpoint.Identity {
	if name == "" {
		name = "operator"
	}
	return endpoint.Identity{Scopes: scope.Internal(), Kind: audit.ActorOperator, ID: "admin", Label: name}
}

// Refresh has nothing to do: tokens change with a restart.
func (o *operators) Refresh(_ context.Context, id endpoint.Identity) (endpoint.Identity, error) {
	return id, nil
}
