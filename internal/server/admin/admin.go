// Package admin is the server for operators, on the internal listener only: the admin API with everything that
// operators see and decide, and the console, which is a web page on top of it (console.go).
//
// Operators are people who sign in to the console, and programs with a token (package operator); customers' keys are
// unknown here. Every operation declares the least role that it needs, as its scope. Operators see objects and their
// states but never their contents: no session, cookie, payload or secret, and names of accounts only with the consent of
// their org (access.go). Changes to an org are recorded in the org's audit log, changes to the service in a separate log.
// Start reading at New.
package admin

import (
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/operate/operator"
	"github.com/stagedoor/stagedoor/internal/operate/pulse"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Config holds the settings of the server.
type Config struct {
	// URL is the address at which operators reach the internal listener, PublicURL that of the dashboard and of the pages
	// about problems.
	URL, PublicURL string
	// OIDC is the identity provider of operators; there is none if the issuer is empty. Key encrypts the cookie of a
	// pending sign-in.
	OIDC OIDC
	Key  secret.String
	// Node is the name of this process, Version the version that it runs.
	Node, Version string
}

// Deps are the dependencies of the server.
type Deps struct {
	Config    Config
	DB        *postgres.DB
	Operators *operator.Operators
	// Client is used for requests to the identity provider.
	Client   *http.Client
	Plans    *org.Plans
	Orgs     *org.Orgs
	Keys     *apikey.Keys
	Members  *member.Members
	Accounts *account.Accounts
	Webhooks *webhook.Webhooks
	Events   *event.Store
	Limits   *admission.Limiter
	Usage    *usage.Usage
	Egress   *egress.Egress
	Seal     *seal.Sealer
	Control  *switches.Control
	Jobs     *Queue
	Audit    *audit.Log
	Fleet    *fleet.Fleet
	Pulse    *pulse.Pulse
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
func New(d Deps) (*Admin, error) {
	a := &Admin{deps: d}
	who := newAuthenticator(d.Operators, d.Now)
	var err error
	if a.console, err = newConsole(a, who); err != nil {
		return nil, err
	}
	a.table = endpoint.New(endpoint.Deps{
		Config: endpoint.Config{
			Title: "Stagedoor admin", Version: "1.0.0", Description: "For operators.",
			PublicURL: d.Config.URL, ProblemsURL: d.Config.PublicURL + "/problems",
		},
		Auth: who, Browser: &endpoint.Browser{Cookie: cookieName, Identify: who.identify}, Admit: nil, Count: nil, Journal: nil, Idempotency: nil, Reconnect: nil, Address: nil,
		Draining: d.Draining, Source: d.Source, HashIP: d.HashIP, Metrics: d.Metrics, Tracer: d.Tracer, Log: d.Log, Now: d.Now, Local: nil,
	})
	a.orgRoutes()
	a.usageRoutes()
	a.accessRoutes()
	a.operatorRoutes()
	a.invitationRoutes()
	a.accountRoutes()
	a.homeRoutes()
	a.fleetRoutes()
	a.leaseRoutes()
	a.egressRoutes()
	a.laneRoutes()
	a.jobRoutes()
	a.letterRoutes()
	a.keyringRoutes()
	a.controlRoutes()
	a.auditRoutes()
	return a, nil
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
