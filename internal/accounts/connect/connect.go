// Package connect brings an account to the service: it signs a creator in step by step, or proves a session that was copied, and hands
// what comes of it to package account, sealed.
//
// An attempt is a row, and the row is the only truth. Starting one writes the row and a job in one transaction (start.go); each step is
// a job that any worker takes, under a lease in the row (step.go); what people do changes the row (submit.go); what time does is found
// by its wake_at (due.go). The rules are in package attempt, which is pure. A worker may vanish at any point: what it had not written is
// taken again by another one, unless it must not be repeated.
//
// Secrets are sealed under a data key of the attempt's own, which is destroyed when the attempt ends.
package connect

import (
	"context"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Config are the settings.
type Config struct {
	// PublicURL is where callers reach the API, ConnectURL where creators reach the pages; without a slash at the end.
	PublicURL, ConnectURL string
	// Process is unique to this start of this node.
	Process string
	// Guards keep people from trying passwords through us, by the platform's environment. One that is missing guards nothing.
	Guards map[org.Environment]Guard
}

// Guard bounds sign-ins with a password.
type Guard struct {
	// PerLogin is how many sign-ins one login may have in an hour, from all orgs together; 0 for any number.
	PerLogin int
	// Refused is how many sign-ins of an org may be refused for a wrong password within an hour, when they are half of all or more.
	Refused int
}

// Platform is what accounts of an environment live on.
type Platform struct {
	Driver  driver.Driver
	Catalog *catalog.Catalog
	// Hosts are the platform's, as name or name:port, for what is copied from a browser.
	Hosts []string
}

// Deps is what the flow needs.
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
	// Events remembers from where on an account's events are wanted.
	Events events
	// Switches say whether new attempts are taken; nil for always.
	Switches *switches.Control
	// Platforms are by environment; one that is missing has none.
	Platforms map[org.Environment]Platform
	Log       *slog.Logger
	Now       func() time.Time
}

// events remembers the platform's event after which an account's events are stored; *event.Store does. An account that has one keeps it.
type events interface {
	SetWatermarkIn(ctx context.Context, tx postgres.Tx, org id.Org, source, watermark string) error
}

// Connects is the flow.
type Connects struct {
	Deps
	waiting waiting
}

// New makes the flow.
func New(d Deps) *Connects { return &Connects{Deps: d, waiting: newWaiting()} }

// starter is who started an attempt, for the audit entry of what comes of it.
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
