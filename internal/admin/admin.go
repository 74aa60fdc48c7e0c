// Package admin is the operators' face, on the internal listener only: orgs, their plans and limits, and the fleet.
//
// Its tokens carry admin:* and come from the server's settings; a customer's key is unknown here.
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/apikey"
	"github.com/stagedoor/stagedoor/internal/audit"
	"github.com/stagedoor/stagedoor/internal/fleet"
	"github.com/stagedoor/stagedoor/internal/org"
	"github.com/stagedoor/stagedoor/internal/postgres"
	"github.com/stagedoor/stagedoor/internal/problem"
	"github.com/stagedoor/stagedoor/internal/route"
	"github.com/stagedoor/stagedoor/internal/scope"
	"github.com/stagedoor/stagedoor/internal/secret"
)

// Config are the settings.
type Config struct {
	// Token is what operators authenticate with.
	Token secret.String
	// URL is where the internal listener is, PublicURL where the pages about problems are.
	URL, PublicURL string
}

// Deps is what the face needs.
type Deps struct {
	Config   Config
	DB       *postgres.DB
	Orgs     *org.Orgs
	Keys     *apikey.Keys
	Audit    *audit.Log
	Fleet    *fleet.Fleet
	Metrics  *route.Metrics
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
	table *route.Table
}

// New makes the face.
func New(d Deps) *Admin {
	a := &Admin{Deps: d}
	a.table = route.New(route.Deps{
		Config: route.Config{
			Title: "Stagedoor admin", Version: "1.0.0", Description: "For operators.",
			PublicURL: d.Config.URL, ProblemsURL: d.Config.PublicURL + "/problems",
		},
		Auth: operators{sha256.Sum256([]byte(d.Config.Token.Reveal()))}, Admit: nil, Count: nil, Journal: nil, Idempotency: nil, Draining: d.Draining,
		Source: d.Source, HashIP: d.HashIP, Metrics: d.Metrics, Tracer: d.Tracer, Log: d.Log, Now: d.Now,
	})
	a.orgRoutes()
	a.fleetRoutes()
	return a
}

// ServeHTTP serves the face.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.table.ServeHTTP(w, r) }

// Operations lists what the face serves.
func (a *Admin) Operations() []route.Operation { return a.table.Operations() }

// OpenAPI is the document of the face.
func (a *Admin) OpenAPI() ([]byte, error) { return a.table.OpenAPI() }

// operators authenticates internal tokens.
type operators struct{ hash [sha256.Size]byte }

func (o operators) Authenticate(_ context.Context, token string) (route.Identity, error) {
	given := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(given[:], o.hash[:]) != 1 {
		return route.Identity{}, problem.KeyInvalid.New("This is not an operator's token.")
	}
	return route.Identity{Scopes: scope.Internal(), Kind: audit.ActorOperator, ID: "admin", Label: "operator"}, nil
}

// Refresh has nothing to do: tokens change with a restart.
func (o operators) Refresh(_ context.Context, id route.Identity) (route.Identity, error) {
	return id, nil
}
