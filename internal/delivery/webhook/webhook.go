// Package webhook delivers the events of an account to the URL of its webhook: in order, at least once, and signed. A
// receiver that fails does not delay the others.
//
// The package owns the webhooks (hooks.go), the progress of their delivery, the side deliveries (side.go) and the log
// of deliveries (log.go). Package lane decides what to deliver and when; hold.go and deliver.go carry it out. The node
// that holds the lease of a bucket calls Hold for it, and Committed after each commit to the event store.
//
// A successful delivery costs no query and no row except its line in the log. A flush (flush.go) writes a checkpoint
// per bucket, up to which everything is delivered, and a row for each lane that is behind it. See docs/webhooks.md.
package webhook

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Config holds the intervals and limits of deliveries.
type Config struct {
	Lane lane.Config
	// FlushEvery is how often progress is written. After a crash, about as much is delivered twice.
	FlushEvery time.Duration
	// Margin is how far the clocks of two nodes may differ. After a crash, as much more is delivered twice.
	Margin time.Duration
	// Patience is how long a bucket that is given up waits for its deliveries in flight.
	Patience time.Duration
	// PollEvery is how often a node looks for changed webhooks and due side deliveries, in case it missed the message.
	PollEvery time.Duration
	// SideDeliveries limits how many of them a node runs concurrently.
	SideDeliveries int
}

// Defaults returns the configuration that nodes use.
func Defaults() Config {
	return Config{
		Lane: lane.Defaults(), FlushEvery: 250 * time.Millisecond, Margin: time.Second, Patience: 3 * time.Second,
		PollEvery: 5 * time.Second, SideDeliveries: 32,
	}
}

// accounts is implemented by *account.Accounts.
type accounts interface {
	Get(ctx context.Context, owner id.Org, account id.Account) (account.Account, error)
	Labels(ctx context.Context, owner id.Org, accounts []id.Account) (map[id.Account]string, error)
}

// sealer encrypts secrets. It is implemented by *seal.Sealer.
type sealer interface {
	Prepare(ctx context.Context, org id.Org, holder string) error
	Seal(ctx context.Context, at seal.Address, text secret.String) ([]byte, error)
	Open(ctx context.Context, at seal.Address, sealed []byte) (secret.String, error)
}

// publisher sends messages to other nodes, at most once. It is implemented by *pubsub.Bus.
type publisher interface {
	Publish(subject string, payload []byte) error
	Subscribe(ctx context.Context, pattern string, heard func(last string, payload []byte)) error
}

// usageCounter counts accepted and failed deliveries. It is implemented by *usage.Usage.
type usageCounter interface {
	Delivered(org id.Org, accepted, failed int64, slowest time.Duration)
}

// Deps are the dependencies of the service.
type Deps struct {
	Config Config
	DB     *postgres.DB
	Events *event.Store
	Kinds  *event.Kinds
	Orgs   *org.Orgs
	// Platforms returns the ids of the platforms of an environment, for the filters of endpoints.
	Platforms func(environment.Environment) []string
	Accounts  accounts
	Seal      sealer
	Audit     *audit.Log
	Outbox    *outbox.Outbox
	Public    *egress.Public
	Bus       publisher
	Usage     usageCounter
	// Switches reports whether operators have stopped deliveries; nil means never. The caller also calls Halt for it.
	Switches *switches.Control
	// Permits is consulted right before each delivery. The caller also calls Suspend with the same organisations.
	Permits *org.Suspensions
	// Tracer continues the traces of events in their deliveries; nil if nothing is traced.
	Tracer trace.Tracer
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Webhooks is the webhook service of a node. It is safe for concurrent use.
type Webhooks struct {
	deps    Deps
	days    *postgres.Days
	metrics metrics

	// mu guards machine, held with its feeds, and ended. It is never held during I/O.
	mu      sync.Mutex
	machine *lane.Machine
	held    map[int]*holding
	workers sync.WaitGroup

	// flushMu serialises flushes. copyBuffer is reused from one flush to the next.
	flushMu    sync.Mutex
	copyBuffer *postgres.Rows
	log        deliveryLog
	ephemeral  coalescer
	sideRuns   running

	// These wake loadLoop, timerLoop and sideLoop.
	loadWanted, timerSet, sideDue chan struct{}
	// ended means that Run is ending, so Halt no longer stops anything.
	ended bool
}

// New returns the service. Nothing happens before Run.
func New(d Deps) *Webhooks {
	w := &Webhooks{
		deps: d, days: postgres.NewDays(d.DB, "webhook_delivery", d.Log), metrics: newMetrics(d.Registry), held: map[int]*holding{},
		machine:    lane.New(d.Config.Lane, rand.Float64),
		loadWanted: make(chan struct{}, 1), timerSet: make(chan struct{}, 1), sideDue: make(chan struct{}, 1),
	}
	w.ephemeral.entries = map[ephemeralKey]*ephemeralEntry{}
	w.sideRuns.ids = map[string]bool{}
	w.sideRuns.startListing()
	return w
}

// signal wakes the reader of a channel with a buffer of one, without blocking.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run does the work that all buckets of a node share, until the context ends. It then waits for the deliveries in
// flight and writes their progress.
func (w *Webhooks) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, part := range []func(context.Context){
		w.loadLoop, w.timerLoop, w.flushLoop, w.pollLoop, w.pollEndpoints, w.sideLoop, w.upkeepLoop, w.listen,
	} {
		all.Go(func() { part(ctx) })
	}
	all.Wait()
	w.end()
	w.workers.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushAtMost)
	defer cancel()
	w.flushOrLog(last)
	return nil
}

// timerLoop runs the timers of the machine.
func (w *Webhooks) timerLoop(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.mu.Lock()
		now := w.deps.Now()
		w.machine.Tick(now)
		job := w.startWork(now)
		wait := time.Minute
		if at, ok := w.machine.NextDue(); ok {
			wait = min(max(at.Sub(now), time.Millisecond), wait)
		}
		w.mu.Unlock()
		w.spawn(job)
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.timerSet:
		}
	}
}

// every calls do at intervals, and immediately after a signal on soon.
func every(ctx context.Context, interval time.Duration, soon <-chan struct{}, do func(context.Context)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-soon:
		}
		do(ctx)
	}
}

const upkeepEvery = 10 * time.Minute

func (w *Webhooks) upkeepLoop(ctx context.Context) {
	w.upkeep(ctx)
	every(ctx, upkeepEvery, nil, w.upkeep)
}

// Trim deletes the deliveries of orgs that are older than keep days.
func (w *Webhooks) Trim(ctx context.Context, orgs []string, keep int) (int64, error) {
	return w.days.Trim(ctx, orgs, keep)
}

func (w *Webhooks) upkeep(ctx context.Context) {
	_, err := w.days.Upkeep(ctx, 1, 2, org.MaxRetentionDays+1)
	if err == nil {
		err = forgetDeleted(ctx, w.deps.DB, w.deps.Now().Add(-time.Hour))
	}
	if err != nil && ctx.Err() == nil {
		w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "webhook upkeep failed", slog.Any(logkey.Error, err))
	}
}

// subject is where a node publishes that the webhook of an account, or an endpoint, changed or has a new side delivery.
func subject(name string) string { return "ctl.webhook." + name }

// sideSuffix marks the message of an endpoint that has a new side delivery and is otherwise as before.
const sideSuffix = "_side"

const changePattern = "ctl.webhook.*"

// publishChange makes the node that holds the account's bucket read the webhook and its side deliveries again. It is
// an optimisation: pollLoop and sideLoop find the change anyway.
func (w *Webhooks) publishChange(ctx context.Context, org id.Org, account id.Account) {
	w.publish(ctx, string(account), org)
	w.reloadHook(org, string(account))
}

func (w *Webhooks) publish(ctx context.Context, name string, org id.Org) {
	if err := w.deps.Bus.Publish(subject(name), []byte(org)); err != nil {
		w.deps.Log.LogAttrs(ctx, slog.LevelDebug, "cannot publish webhook change", slog.Any(logkey.Error, err))
	}
}

func (w *Webhooks) listen(ctx context.Context) {
	err := w.deps.Bus.Subscribe(ctx, changePattern, func(name string, payload []byte) {
		switch org, err := id.Parse[id.Org](string(payload)); {
		case err != nil:
		case isEndpoint(name) && strings.HasSuffix(name, sideSuffix):
			signal(w.sideDue)
		case isEndpoint(name):
			w.reloadEndpoint(endpointRef{org, id.Endpoint(name)})
		default:
			w.reloadHook(org, name)
		}
	})
	if err != nil && ctx.Err() == nil {
		w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot subscribe to webhook changes", slog.Any(logkey.Error, err))
	}
	<-ctx.Done()
}

// reloadHook reads a webhook and its side deliveries again if this node holds its bucket.
func (w *Webhooks) reloadHook(org id.Org, account string) {
	w.mu.Lock()
	here := w.held[event.Bucket(account)] != nil
	if here {
		w.machine.Invalidate(org, account)
	}
	job := w.startWork(w.deps.Now())
	w.mu.Unlock()
	w.spawn(job)
	if here {
		signal(w.sideDue)
	}
}

// pollLoop finds changes whose message was lost.
func (w *Webhooks) pollLoop(ctx context.Context) {
	since, seen := w.deps.Now().Add(-overlap), map[ref]time.Time{}
	every(ctx, w.deps.Config.PollEvery, nil, func(ctx context.Context) {
		list, newest, err := changedSince(ctx, w.deps.DB, since)
		if err != nil {
			if ctx.Err() == nil {
				w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read webhook changes", slog.Any(logkey.Error, err))
			}
			return
		}
		now := map[ref]time.Time{}
		for _, one := range list {
			if now[one.ref] = one.at; !seen[one.ref].Equal(one.at) {
				w.reloadHook(one.Org, string(one.Account))
			}
		}
		seen = now
		if from := newest.Add(-overlap); from.After(since) {
			since = from
		}
	})
}

// overlap is how far back each poll looks again. It is longer than a transaction takes: a change becomes visible when
// its transaction commits, which may be after the poll that should have seen it.
const overlap = 15 * time.Second
