// Package app builds and runs a node: its object graph (node.go), its start and stop (run.go), and the commands of
// stagedoord (command.go). It is the only package that reads the environment. Start reading at NewNode and Node.Run.
package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/engine/telemetry"
	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/server/admin"
	"github.com/stagedoor/stagedoor/internal/server/api"
	"github.com/stagedoor/stagedoor/internal/server/docs"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/version"
	"github.com/stagedoor/stagedoor/web"
)

// Node is one process with its roles.
type Node struct {
	cfg      config.Config
	log      *slog.Logger
	registry *prometheus.Registry
	tracing  *sdktrace.TracerProvider

	db      *postgres.DB
	keyring *postgres.DB // The same as db unless STAGEDOOR_KEYRING_URL is set.
	sealer  *seal.Sealer
	redis   *redis.Client
	bus     *pubsub.Bus
	// egress connects to platforms.
	egress *egress.Egress
	// control holds the operators' decisions for all nodes.
	control *switches.Control
	// suspensions are the orgs for which nothing may be sent.
	suspensions *org.Suspensions

	fleet  *fleet.Fleet
	limits *admission.Limiter
	keys   *apikey.Keys
	usage  *usage.Usage
	// journal is the request log.
	journal *requestlog.Journal
	jobs    *river.Client[pgx.Tx] // Nil unless this node is a worker.
	api     *api.API
	docs    *docs.Docs
	admin   *admin.Admin
	people
	flows
	eventing

	draining atomic.Bool
	// schemaSeen means that the schema was found to be current once.
	schemaSeen atomic.Bool
}

var errSchema = errors.New("the schema is outdated")

// NewNode builds a node. It only opens connections to the engines and waits for none of them.
func NewNode(ctx context.Context, cfg config.Config, log *slog.Logger) (*Node, error) {
	n, err := build(ctx, cfg, log)
	if err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// build makes the object graph. It returns the node even if it fails, so that the caller can close what was opened.
func build(ctx context.Context, cfg config.Config, log *slog.Logger) (*Node, error) {
	n := &Node{cfg: cfg, log: log.With(slog.String("node", cfg.Node)), registry: telemetry.Registry()}
	process := string(id.New[id.Request]())[len("req_"):] // Unique to this start.
	if err := n.openEngines(ctx); err != nil {
		return n, err
	}
	proxies, err := cfg.Proxies()
	if err != nil {
		return n, err
	}

	leaving, err := cfg.EgressConfig()
	if err != nil {
		return n, err
	}
	n.egress = egress.New(egress.Deps{Config: leaving, Registry: n.registry, Log: n.log, Now: clock.Now})

	auditLog := audit.New(n.db, clock.Now)
	n.control = switches.New(switches.Deps{DB: n.db, Audit: auditLog, Bus: n.bus, Log: n.log, Now: clock.Now})
	n.bus.OnConnect(n.control.Wake)
	n.fleet = fleet.New(fleet.Deps{DB: n.db, Log: n.log, Now: clock.Now, Self: fleet.Node{
		ID: process, Name: cfg.Node, Roles: cfg.Roles, Version: version.String(),
	}})
	n.limits = admission.New(admission.Deps{
		Config: admission.Config{Timeout: cfg.RedisTimeout, Patience: redisPatience * cfg.RedisTimeout, Process: process},
		Redis:  n.redis, DB: n.db, Bus: n.bus, Fleet: n.fleet, Registry: n.registry, Log: n.log, Now: clock.Now,
	})
	enqueue, err := river.NewClient(riverpgxv5.New(n.db.Pool()), &river.Config{Logger: quiet(n.log)})
	if err != nil {
		return n, fmt.Errorf("set up job queue: %w", err)
	}
	n.suspensions = org.NewSuspensions(org.SuspensionDeps{DB: n.db, Process: process, Log: n.log, Now: clock.Now})
	n.bus.OnConnect(n.suspensions.Wake)
	orgs := org.New(org.Deps{DB: n.db, Audit: auditLog, Jobs: enqueue, Announce: n.limits, Suspensions: n.suspensions, Now: clock.Now})
	n.limits.SetEpochs(orgs)
	n.flows.outbox = outbox.New(n.db, clock.Now)
	n.keys = apikey.New(apikey.Deps{DB: n.db, Orgs: orgs, Audit: auditLog, Outbox: n.outbox, Troubled: n.limits.Troubled, Now: clock.Now})
	n.members = member.New(member.Deps{DB: n.db, Orgs: orgs, Keys: n.keys, Audit: auditLog, Now: clock.Now})
	n.bus.OnConnect(func() { n.keys.Distrust(); n.sealer.Distrust() })
	n.usage = usage.New(usage.Deps{DB: n.db, Log: n.log, Now: clock.Now})
	n.journal = requestlog.New(requestlog.Deps{DB: n.db, Ticker: clock.Ticker, Registry: n.registry, Log: n.log, Now: clock.Now, SettleTimeout: logSettleTimeout})

	source, hashIP := endpoint.SourceOf(proxies), hashWith(cfg.IPHashKey.Reveal())
	if err := n.buildFlows(process, orgs, auditLog, enqueue, source, hashIP); err != nil {
		return n, err
	}
	if err := n.buildEvents(process, orgs, auditLog); err != nil {
		return n, err
	}
	if err := n.buildDashboard(orgs, source, hashIP); err != nil {
		return n, err
	}
	if err := n.buildServers(orgs, auditLog, enqueue, source, hashIP); err != nil {
		return n, err
	}
	n.watchDecisions()
	if n.hasRole("worker") {
		if err := n.buildWorkers(process); err != nil {
			return n, err
		}
	}
	n.registry.MustRegister(n.poolCollector())
	return n, nil
}

// buildServers builds the public API and the admin API.
func (n *Node) buildServers(
	orgs *org.Orgs, auditLog *audit.Log, enqueue *river.Client[pgx.Tx], source func(*http.Request) string, hashIP func(string) string,
) (err error) {
	cfg := n.cfg
	n.api, err = api.New(api.Deps{
		Config: api.Config{PublicURL: cfg.PublicURL, ConnectURL: n.connectURL()}, Orgs: orgs, Keys: n.keys, Members: n.members, Links: n.links, Audit: auditLog, Limits: n.limits, Usage: n.usage,
		Accounts: n.accounts, Connects: n.connects, Sessions: n.sessions, Health: n.health, Invoke: n.invoker, Transfers: n.transfers, Journal: n.journal, Catalogs: n.flows.catalogs,
		Sandbox: n.sandbox, Idempotency: n.idempotencyKeys, Events: n.eventDeps(), Webhooks: n.webhooks, Egress: n.egress, Control: n.control, Pages: http.HandlerFunc(n.showDocs),
		Metrics: endpoint.NewMetrics(n.registry, "public"), Tracer: n.tracer(), Draining: n.draining.Load, Source: source, HashIP: hashIP, Log: n.log, Now: clock.Now,
	})
	if err != nil {
		return err
	}
	if err := n.buildDocs(); err != nil {
		return err
	}
	n.admin = admin.New(admin.Deps{
		Config: admin.Config{Token: cfg.AdminToken, URL: "http://" + cfg.InternalListen, PublicURL: cfg.PublicURL, Node: cfg.Node, Version: version.String()},
		DB:     n.db, Orgs: orgs, Keys: n.keys, Members: n.members, Accounts: n.accounts, Limits: n.limits, Egress: n.egress,
		Webhooks: n.webhooks,
		Seal:     n.sealer, Control: n.control, Jobs: enqueue, Audit: auditLog, Fleet: n.fleet, Site: web.Dist(),
		Metrics: endpoint.NewMetrics(n.registry, "admin"), Tracer: n.tracer(), Draining: n.draining.Load, Source: source, HashIP: hashIP, Log: n.log, Now: clock.Now,
	})
	return nil
}

// buildWorkers builds the client that runs jobs.
func (n *Node) buildWorkers(process string) (err error) {
	workers := river.NewWorkers()
	org.Register(workers, n.limits)
	connect.Register(workers, n.connects)
	n.jobs, err = river.NewClient(riverpgxv5.New(n.db.Pool()), &river.Config{
		Workers: workers, Logger: quiet(n.log), ID: process,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}, connect.Queue: {MaxWorkers: connectWorkers}},
		// A step whose worker crashed is resumed from its row long before; this only cleans up the queue.
		RescueStuckJobsAfter: 5 * time.Minute,
	})
	if err != nil {
		return fmt.Errorf("set up workers: %w", err)
	}
	return nil
}

func (n *Node) openEngines(ctx context.Context) (err error) {
	var tracer pgx.QueryTracer
	if traces := n.cfg.TracesURL(); traces != "" {
		if n.tracing, err = telemetry.Tracer(ctx, traces, n.cfg.Node, version.String()); err != nil {
			return err
		}
		tracer = otelpgx.NewTracer(otelpgx.WithTracerProvider(n.tracing))
	}
	n.db, err = postgres.Open(ctx, postgres.Config{URL: n.cfg.Database, MaxConns: n.cfg.MaxConns, Name: "stagedoord " + n.cfg.Node, Tracer: tracer})
	if err != nil {
		return err
	}
	if n.redis, err = redis.Open(redis.Config{URL: n.cfg.Redis, Name: "stagedoord"}); err != nil {
		return err
	}
	if n.bus, err = pubsub.Open(pubsub.Config{URL: n.cfg.NATS, Name: "stagedoord " + n.cfg.Node}); err != nil {
		return err
	}
	return n.openSealer(ctx)
}

// redisPatience is the maximum wait for Redis, in multiples of its timeout. Admission without Redis is less exact and
// costs a database query, so it is for an outage and not for one slow response.
const redisPatience = 10

// logSettleTimeout bounds how long a reader of the request log waits for requests that this node has not written yet.
const logSettleTimeout = 500 * time.Millisecond

// connectWorkers bounds the concurrent sign-ins of a node. They wait for platforms most of the time.
const connectWorkers = 50

// tracer returns nil unless traces are exported.
func (n *Node) tracer() trace.Tracer {
	if n.tracing == nil {
		return nil
	}
	return n.tracing.Tracer("stagedoor")
}

// Close closes the connections to the engines.
func (n *Node) Close() {
	if n.closeLog != nil {
		n.closeLog()
	}
	if n.customers != nil {
		n.customers.Close()
	}
	if n.identity != nil {
		n.identity.CloseIdleConnections()
	}
	if n.egress != nil {
		n.egress.Close()
	}
	if n.sandbox != nil {
		n.sandbox.Close()
	}
	if n.bus != nil {
		n.bus.Close()
	}
	if n.redis != nil {
		n.redis.Close()
	}
	if n.keyring != nil && n.keyring != n.db {
		n.keyring.Close()
	}
	if n.db != nil {
		n.db.Close()
	}
}

func (n *Node) hasRole(role string) bool { return slices.Contains(n.cfg.Roles, role) }

// API returns the public API, for documents and tests.
func (n *Node) API() *api.API { return n.api }

// Admin returns the admin API, for documents and tests.
func (n *Node) Admin() *admin.Admin { return n.admin }

// hashWith returns a keyed hash of sources: equal sources stay equal, and the source cannot be read.
func hashWith(key string) func(string) string {
	return func(source string) string {
		h := hmac.New(sha256.New, []byte(key))
		h.Write([]byte(source))
		return hex.EncodeToString(h.Sum(nil)[:12])
	}
}

// quiet returns a logger that drops everything below warnings, for the verbose job queue.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(atLeast{log.Handler(), slog.LevelWarn}) }

type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h atLeast) WithAttrs(a []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(a), h.level}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}

// poolCollector measures the database connections in use.
func (n *Node) poolCollector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stagedoor_postgres_connections_in_use", Help: "PostgreSQL connections that are in use.",
	}, func() float64 { return float64(n.db.Pool().Stat().AcquiredConns()) })
}

// publicWriteTimeout bounds the time to produce and send a response, so that a caller that does not read cannot hold a
// connection forever. Streams and long operations set their own deadlines.
const publicWriteTimeout = 30 * time.Second

// server returns an HTTP server with the limits of both listeners. write is 0 for the internal one, where a profile
// takes as long as requested.
func server(h http.Handler, log *slog.Logger, write time.Duration) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute, WriteTimeout: write,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
