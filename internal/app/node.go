// Package app builds and runs a node: its object graph (node.go, then one file per group), its start and stop (run.go),
// and the commands of stagedoord (command.go). It is the only package that reads the environment. Start reading at
// Node.build and Node.Run.
package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/load"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/configfile"
	"github.com/stagedoor/stagedoor/internal/engine/telemetry"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/jobs/sdkjob"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/server/admin"
	"github.com/stagedoor/stagedoor/internal/server/api"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Node is one process with its roles.
type Node struct {
	cfg      config.Config
	log      *slog.Logger
	registry *prometheus.Registry
	// process is unique to this start of the node.
	process string
	closers []func()
	// clock follows the database's. Everything that decides about data gets its time from it.
	clock clock.Shared
	// load measures the node's own delay.
	load  *load.Meter
	loops []func(context.Context) error
	// files are the settings that take effect when their file changes.
	files *configfile.Files

	// The parts that Run and the internal listener use. build sets them last.
	engines   engines
	sealer    *seal.Sealer
	operators operators
	// logWrites is whether the event log accepts writes of this node.
	logWrites writable
	egress    *egress.Egress
	servers   servers

	draining atomic.Bool
	// schemaSeen means that the schema was found to be current once.
	schemaSeen atomic.Bool
}

// NewNode builds a node. It only opens connections to the engines and waits for none of them.
func NewNode(ctx context.Context, cfg config.Config, log *slog.Logger) (*Node, error) {
	shares, err := telemetry.ParseShares(cfg.LogSample)
	if err != nil {
		return nil, fmt.Errorf("STAGEDOOR_LOG_SAMPLE: %w", err)
	}
	registry := telemetry.Registry()
	n := &Node{
		cfg: cfg, log: telemetry.Sample(log, shares, registry).With(slog.String(logkey.Node, cfg.Node)), registry: registry,
		process: string(id.New[id.Request]())[len("req_"):], load: load.New(load.Waits, clock.Now),
	}
	promauto.With(n.registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stagedoor_scheduling_delay_seconds",
		Help: "How long nine of ten pieces of work waited for a processor at most, in the last tenth of a second.",
	}, func() float64 { return n.load.Delay().Seconds() })
	n.loop("load", n.load.Run)
	n.files = configfile.New(configfile.Deps{Registry: n.registry, Log: n.log})
	n.loop("settings files", n.files.Run)
	if err := n.build(ctx); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// build makes the object graph, from the lowest group to the highest. What it opens is closed by Close, and the
// background tasks that it adds are started by Run.
func (n *Node) build(ctx context.Context) error {
	eng, err := openEngines(ctx, n)
	if err != nil {
		return err
	}
	sealer, err := newVault(ctx, n, eng)
	if err != nil {
		return err
	}
	auditLog := audit.New(eng.db, sealer, n.clock.Now)
	n.loop("audit key", func(ctx context.Context) error { return auditLog.LoadKey(ctx, n.log) })
	operators := newOperators(n, eng, auditLog)
	tenants, err := newTenants(ctx, n, eng, sealer, auditLog, operators)
	if err != nil {
		return err
	}
	addKeyringCheck(n, eng, tenants)
	addRoleCheck(n, eng)
	platforms, err := newPlatforms(ctx, n, operators)
	if err != nil {
		return err
	}
	events, err := newEvents(n, eng, operators, tenants, platforms)
	if err != nil {
		return err
	}
	accounts := newAccounts(n, eng, operators, tenants, platforms, events)
	calls := newCalls(n, operators, tenants, platforms, accounts)
	delivery, err := newDelivery(n, eng, operators, tenants, accounts, events)
	if err != nil {
		return err
	}
	sdkJobs := newSDKJobs(n, tenants, platforms, accounts, calls)
	jobs := newJobs(n, eng, tenants, events, delivery, sdkJobs)
	all := parts{eng, operators, tenants, platforms, accounts, calls, events, delivery, jobs, sdkJobs}
	if n.hasRole("worker") {
		addIngest(n, eng, tenants, events, delivery)
		addRetention(n, tenants, events, delivery)
		if err := addWorkers(n, all); err != nil {
			return err
		}
	}
	if n.hasRole("listener") {
		addListeners(n, eng, tenants, platforms, accounts, events)
	}
	servers, err := newServers(n, all)
	if err != nil {
		return err
	}
	n.engines, n.sealer, n.operators, n.egress, n.servers = eng, sealer, operators, platforms.egress, servers
	return nil
}

// parts are all groups below the servers and the workers.
type parts struct {
	engines   engines
	operators operators
	tenants   tenants
	platforms platforms
	accounts  accounts
	calls     calls
	events    events
	delivery  delivery
	jobs      *job.Jobs
	sdkJobs   *sdkjob.Kinds
}

// onClose adds a function that Close calls. Call it right after something was opened.
func (n *Node) onClose(do func()) { n.closers = append(n.closers, do) }

// loop adds a background task that Run starts. A task that returns an error stops the node.
func (n *Node) loop(name string, run func(context.Context) error) {
	n.loops = append(n.loops, func(ctx context.Context) error {
		if err := run(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
}

// Close closes what was opened, in reverse order.
func (n *Node) Close() {
	for _, do := range slices.Backward(n.closers) {
		do()
	}
	n.closers = nil
}

func (n *Node) hasRole(role string) bool { return slices.Contains(n.cfg.Roles, role) }

// API returns the public API, for documents and tests.
func (n *Node) API() *api.API { return n.servers.api }

// Admin returns the admin API, for documents and tests.
func (n *Node) Admin() *admin.Admin { return n.servers.admin }
