// Package listen keeps one WebSocket per account open to the account's platform, through the account's region, and
// writes every durable frame to the event log. It does not store events (package ingest).
//
// Leases on shards distribute accounts over nodes (shard.go). Each account has a listener (listener.go) that reopens
// its socket, writes its state to the account, and stops when the account stops. A session (session.go) is one
// socket: it opens the socket first, then fetches the frames that were missed since the watermark (fill.go), then
// passes frames on as they arrive. Package flow and coalesce.go decide without I/O. A frame that was read but not
// confirmed by the log is fetched again; if the platform cannot list it, the event listener.gap says so. Start with
// Run.
package listen

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// health acts on what a socket reveals about an account; implemented by *health.Health.
type health interface {
	Learn(ctx context.Context, a account.Account, err error)
	Confirm(ctx context.Context, a account.Account) (alive bool, err error)
}

// log appends records, in order within a bucket. done is called when the log has confirmed or refused the record.
// Implemented by *eventlog.Batcher.
type log interface {
	Add(ctx context.Context, bucket int, record []byte, done func(error)) error
}

// leases assigns shards to nodes; implemented by *lease.Leases.
type leases interface {
	Run(ctx context.Context, hold func(ctx context.Context, h lease.Held)) error
}

// bus carries wake-up messages and ephemeral events; implemented by *pubsub.Bus.
type bus interface {
	Publish(subject string, payload []byte) error
	Subscribe(ctx context.Context, pattern string, heard func(last string, payload []byte)) error
}

// Config holds the settings. Zero values mean the defaults.
type Config struct {
	// Dials bounds the sockets per region that are being opened concurrently, including the fetch of missed frames.
	// Default: 64.
	Dials int
	// DialTimeout bounds each request to the platform. Default: 15 s.
	DialTimeout time.Duration
	// Sweep is how often a shard's accounts are listed, in case a message was lost. Default: 30 s.
	Sweep time.Duration
	// LogCheck is how often the log is checked for being lost. Default: 3 s. After a loss, accounts fetch their frames
	// again within Spread. Default: 5 s.
	LogCheck, Spread time.Duration
	// FirstRetry and LastRetry bound the wait before a lost socket is reopened. Defaults: 1 s and 60 s. A socket that was
	// up for Steady resets the wait. Default: 60 s.
	FirstRetry, LastRetry, Steady time.Duration
	// Drain bounds how long a session that ends waits for the log to confirm what it has read. Default: 3 s.
	Drain time.Duration
	// Settle bounds how long a listener that takes over waits for the store to catch up with the log. Default: 30 s.
	Settle time.Duration
}

func (c Config) withDefaults() Config {
	for _, one := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.DialTimeout, 15 * time.Second}, {&c.Sweep, 30 * time.Second}, {&c.LogCheck, 3 * time.Second}, {&c.Spread, 5 * time.Second},
		{&c.FirstRetry, time.Second}, {&c.LastRetry, time.Minute}, {&c.Steady, time.Minute}, {&c.Drain, 3 * time.Second},
		{&c.Settle, 30 * time.Second},
	} {
		if *one.field == 0 {
			*one.field = one.value
		}
	}
	c.Dials = cmp.Or(c.Dials, 64)
	return c
}

// Deps holds the dependencies of Listeners.
type Deps struct {
	Config   Config
	Accounts *account.Accounts
	Health   health
	Orgs     *org.Orgs
	Store    *event.Store
	Events   log
	// LogEpoch identifies the log: it changes when the log was lost or recreated.
	LogEpoch func(ctx context.Context) (string, error)
	// Settled reports whether the store has everything that the log contains of a bucket; nil if there is no need to
	// wait.
	Settled func(ctx context.Context, bucket int) (bool, error)
	// Leases are the leases of kind Kind, with one slot per shard.
	Leases    leases
	Bus       bus
	Platforms func(id string) (registry.Platform, bool)
	// Tracer starts a trace for every frame; nil if nothing is traced.
	Tracer trace.Tracer
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Kind is the kind of the leases and Slots their number.
const (
	Kind  = "listen"
	Slots = account.Shards
	// Grace is the grace of the leases: an outage of the database does not close sockets. Ingest drops the records of a
	// listener that another has replaced. It is bounded because an account may be disconnected in the meantime.
	Grace = 2 * time.Minute
)

// Listeners runs the listeners of this node.
type Listeners struct {
	deps       Deps
	metrics    metrics
	suspended  cache.Cache[id.Org, bool]
	eventTimes eventTimes

	mu     sync.Mutex
	shards map[int]*shardListener
	gates  map[string]chan struct{}
	// epoch is the epoch of the log; empty for a log that cannot be lost. epochReady is closed when epoch is known.
	epoch      string
	epochKnown bool
	epochReady chan struct{}
}

const (
	maxOrgs = 10_000
	// orgTTL is how long a node caches whether an org is suspended.
	orgTTL = 30 * time.Second
)

// New returns a Listeners that does nothing until Run.
func New(d Deps) *Listeners {
	d.Config = d.Config.withDefaults()
	return &Listeners{
		deps: d, metrics: newMetrics(d.Registry), shards: map[int]*shardListener{}, gates: map[string]chan struct{}{},
		epochReady: make(chan struct{}),
		suspended:  cache.NewFor[id.Org, bool](maxOrgs, orgTTL),
	}
}

// Run listens until ctx ends. It returns when everything that was read is confirmed or given up.
func (l *Listeners) Run(ctx context.Context) error {
	// Listeners need these until they have ended, so they run longer than ctx.
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var work errgroup.Group
	work.Go(func() error { return l.deps.Bus.Subscribe(living, account.SessionPattern, l.onSessionChange) })
	work.Go(func() error { l.watchLog(living); return nil })
	work.Go(func() error { l.eventTimes.run(living, l); return nil })
	work.Go(func() error {
		defer stop()
		return l.deps.Leases.Run(ctx, l.holdShard)
	})
	return work.Wait()
}

// watchLog checks regularly whether the log was lost.
func (l *Listeners) watchLog(ctx context.Context) {
	for range clock.Every(ctx, l.deps.Config.LogCheck) {
		l.checkLog(ctx)
	}
}

// checkLog reads the epoch of the log. If it has changed, the log was lost, and all listeners fetch again what the
// store does not have.
func (l *Listeners) checkLog(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, l.deps.Config.DialTimeout)
	defer cancel()
	epoch, err := l.deps.LogEpoch(limited)
	if err != nil {
		if ctx.Err() == nil {
			l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read the epoch of the event log", slog.Any(logkey.Error, err))
		}
		return
	}
	l.mu.Lock()
	before, first := l.epoch, !l.epochKnown
	l.epoch, l.epochKnown = epoch, true
	if first {
		close(l.epochReady)
	}
	slots := make([]*shardListener, 0, len(l.shards))
	for _, s := range l.shards {
		slots = append(slots, s)
	}
	l.mu.Unlock()
	if first || before == epoch {
		return
	}
	l.deps.Log.LogAttrs(ctx, slog.LevelError, "event log was lost, fetching frames again")
	for _, s := range slots {
		s.requestRefill()
	}
}

// logEpoch returns the epoch of the log and waits until it is known.
func (l *Listeners) logEpoch(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-l.epochReady:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch, nil
}

// onSessionChange handles a message of account.SessionPattern: an account is new or has changed.
func (l *Listeners) onSessionChange(last string, payload []byte) {
	at := id.Account(last)
	l.mu.Lock()
	s := l.shards[account.ShardOf(at)]
	l.mu.Unlock()
	if s != nil {
		s.onSessionChange(at, payload)
	}
}

// gate returns the semaphore for opening sockets of a region. Each region has its own, so that hanging proxies of one
// region do not hold up others.
func (l *Listeners) gate(region string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gates[region]
	if g == nil {
		g = make(chan struct{}, l.deps.Config.Dials)
		l.gates[region] = g
	}
	return g
}

// isSuspended reports whether an org's sessions must not be used. If the org cannot be read, it reports true.
func (l *Listeners) isSuspended(ctx context.Context, owner id.Org) bool {
	if is, known := l.suspended.Get(owner); known {
		return is
	}
	o, err := l.deps.Orgs.Get(ctx, owner)
	if err != nil {
		return true
	}
	l.suspended.Put(owner, o.SuspendedAt != nil)
	return o.SuspendedAt != nil
}

// backoff returns the wait before the n-th try, counted from 0: a random time up to a limit that doubles.
func (c Config) backoff(n int) time.Duration {
	most := c.LastRetry
	if n < 16 {
		most = min(most, c.FirstRetry<<n)
	}
	return rand.N(most)
}
