// Package connect connects accounts: it signs a creator in step by step, or verifies a session that was copied from a
// browser, and passes the result to package account. It does not keep accounts (package account) or links and pages for
// creators (package link).
//
// The row of an attempt is the only source of truth. Start writes the row and a job in one transaction (start.go). Each
// step is a job that any worker runs under a lease in the row (step.go). Callers and creators change the row with
// Submit and others (submit.go), and timers are its column wake_at (due.go). The rules are in package attempt, which
// is pure. A worker may die at any point: another worker repeats what it had not written, unless it must not be
// repeated.
//
// Secrets are sealed under a data key that belongs to the attempt and is destroyed when the attempt ends.
package connect

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Config holds the settings.
type Config struct {
	// PublicURL is the base URL of the API, ConnectURL that of the connect pages, both without a trailing slash.
	PublicURL, ConnectURL string
	// Process identifies this run of this node; it is the holder of leases.
	Process string
	// Regions lists the regions that an account can have; the first is the default.
	Regions func() []string
}

// Deps holds the dependencies of Connects.
type Deps struct {
	Config   Config
	DB       *postgres.DB
	Orgs     *org.Orgs
	Accounts *account.Accounts
	Seal     *seal.Sealer
	Limits   *admission.Limiter
	Audit    *audit.Log
	Outbox   *outbox.Outbox
	Jobs     enqueuer
	Bus      *pubsub.Bus
	Egress   *egress.Egress
	Hosted   *link.Sessions
	// Events stores the event after which an account's events are wanted.
	Events events
	// Switches can refuse new attempts; nil never does.
	Switches  *switches.Control
	Platforms registry.Registry
	Registry  prometheus.Registerer
	Log       *slog.Logger
	Now       func() time.Time
}

// events stores the platform's event after which an account's events are stored; implemented by *event.Store. An
// account that already has one keeps it.
type events interface {
	SetWatermarkIn(ctx context.Context, tx postgres.Tx, org id.Org, source, watermark string) error
}

// Connects runs connect attempts. It is safe for concurrent use.
type Connects struct {
	deps    Deps
	waiters waiters
	metrics metrics
}

// New returns a Connects. Run and the workers of Register do the work.
func New(d Deps) *Connects {
	return &Connects{deps: d, waiters: newWaiters(), metrics: newMetrics(d.Registry)}
}

// starter is who started an attempt. It is stored in the row, for the audit entry of the connected account.
type starter struct {
	Kind    audit.ActorKind `json:"kind"`
	ID      string          `json:"id"`
	Label   string          `json:"label"`
	Request id.Request      `json:"request"`
	IPHash  string          `json:"ipHash"`
}

func startedBy(by audit.By) starter {
	return starter{by.Kind, by.ID, by.Label, by.Request, by.IPHash}
}

func (s starter) by(action string) audit.By {
	return audit.By{Kind: s.Kind, ID: s.ID, Label: s.Label, Request: s.Request, IPHash: s.IPHash, Action: action}
}
