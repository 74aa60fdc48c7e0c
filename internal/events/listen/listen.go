// Package listen hears what happens to accounts: one socket for each, through its region, and every durable frame into the log.
//
// Accounts are spread over nodes by leases on their shards (slot.go). An account has a line (line.go) that opens its socket again and
// again, tells how it stands, and stops when the account does. While a socket lasts it is a session (session.go): the socket is opened
// first, then what was missed is fetched from behind the frame up to which the store has all (fill.go), then frames go on as they come.
// What can be decided without I/O is in flow.go and coalesce.go. A frame that was read and not stored is read again by whoever comes
// next; where the platform cannot be asked for it, an event says so.
package listen

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// health acts on what a socket tells of an account; *health.Health does.
type health interface {
	Learn(ctx context.Context, a account.Account, err error)
	Confirm(ctx context.Context, a account.Account) (alive bool, err error)
}

// store knows up to where frames are stored; *event.Store does.
type store interface {
	Head(ctx context.Context, org id.Org, source string) (event.Head, error)
	SetWatermark(ctx context.Context, org id.Org, source, watermark string) error
}

// log takes records, in order within a bucket; *eventlog.Batcher does.
type log interface {
	Add(ctx context.Context, bucket int, record []byte, done func(error)) error
}

// leases spread shards over nodes; *lease.Leases does.
type leases interface {
	Run(ctx context.Context, hold func(ctx context.Context, h lease.Held)) error
}

// bus carries pokes and ephemeral events; *pubsub.Bus does.
type bus interface {
	Poke(subject string, payload []byte) error
	Listen(ctx context.Context, pattern string, heard func(last string, payload []byte)) error
}

// orgs says which orgs are suspended; *org.Orgs does.
type orgs interface {
	Get(ctx context.Context, org id.Org) (org.Org, error)
}

// Config are the settings. Zero values are good ones.
type Config struct {
	// Dials is how many sockets are opened, with what they missed, at once for each region; 64.
	Dials int
	// DialTimeout is how long the platform may take for each request of it; 15 s.
	DialTimeout time.Duration
	// Sweep is how often accounts are looked for that no poke told of; 30 s.
	Sweep time.Duration
	// LogCheck is how often the log is asked whether it was lost; 3 s. Spread is over how long accounts then fetch what it may have lost.
	LogCheck, Spread time.Duration
	// FirstRetry and LastRetry bound how long a socket that was lost waits to be opened again; 1 s and 60 s. Steady is how long one must
	// have been up to start from the first again; 60 s.
	FirstRetry, LastRetry, Steady time.Duration
	// Drain is how long a line that stops waits for the log to confirm what it has read; 3 s.
	Drain time.Duration
	// Settle is how long a line that takes over waits for the store to have all that the log holds; 30 s.
	Settle time.Duration
}

func (c Config) filled() Config {
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
	if c.Dials == 0 {
		c.Dials = 64
	}
	return c
}

// Deps is what the flow needs.
type Deps struct {
	Config   Config
	Accounts *account.Accounts
	Health   health
	Orgs     orgs
	Store    store
	Events   log
	// LogEpoch says which log it is: it changes when the log was lost or made anew.
	LogEpoch func(ctx context.Context) (string, error)
	// Settled says whether the store has all that the log holds of a bucket; nil for a log that never holds much.
	Settled func(ctx context.Context, bucket int) (bool, error)
	// Leases are those of kind Kind, with as many slots as there are shards.
	Leases  leases
	Bus     bus
	Drivers func(org.Environment) (driver.Driver, bool)
	Log     *slog.Logger
	Now     func() time.Time
}

// Kind is the kind of the leases, Slots how many there are.
const (
	Kind  = "listen"
	Slots = account.Shards
)

// Listeners is the flow.
type Listeners struct {
	Deps
	metrics   metrics
	suspended cache.Cache[id.Org, bool]
	touches   touches

	mu    sync.Mutex
	slots map[int]*slot
	gates map[string]chan struct{}
	// epoch is the log's, empty for one that cannot be lost; known is closed when it was asked for.
	epoch string
	asked bool
	known chan struct{}
}

const (
	orgsMax = 10_000
	// orgFor is how long a node goes by what it has read of an org.
	orgFor = 30 * time.Second
)

// New makes the flow.
func New(d Deps) *Listeners {
	d.Config = d.Config.filled()
	return &Listeners{
		Deps: d, metrics: newMetrics(), slots: map[int]*slot{}, gates: map[string]chan struct{}{}, known: make(chan struct{}),
		suspended: cache.NewFor[id.Org, bool](orgsMax, orgFor),
	}
}

// Collectors are the flow's metrics.
func (l *Listeners) Collectors() []prometheus.Collector { return l.metrics.all() }

// Run listens until the context ends, and returns when everything that was read is confirmed or given up.
func (l *Listeners) Run(ctx context.Context) error {
	// What lines need to end well lasts until they have ended.
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var work errgroup.Group
	work.Go(func() error { return l.Bus.Listen(living, account.SessionPattern, l.heard) })
	work.Go(func() error { l.watchLog(living); return nil })
	work.Go(func() error { l.touches.run(living, l); return nil })
	work.Go(func() error {
		defer stop()
		return l.Leases.Run(ctx, l.hold)
	})
	return work.Wait()
}

// watchLog notices when the log was lost: what it held and the store has not taken is fetched again.
func (l *Listeners) watchLog(ctx context.Context) {
	tick := time.NewTicker(l.Config.LogCheck)
	defer tick.Stop()
	for {
		l.checkLog(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (l *Listeners) checkLog(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, l.Config.DialTimeout)
	defer cancel()
	epoch, err := l.LogEpoch(limited)
	if err != nil {
		if ctx.Err() == nil {
			l.Log.LogAttrs(ctx, slog.LevelWarn, "the log does not say which one it is", slog.Any("error", err))
		}
		return
	}
	l.mu.Lock()
	before, first := l.epoch, !l.asked
	l.epoch, l.asked = epoch, true
	if first {
		close(l.known)
	}
	slots := make([]*slot, 0, len(l.slots))
	for _, s := range l.slots {
		slots = append(slots, s)
	}
	l.mu.Unlock()
	if first || before == epoch {
		return
	}
	l.Log.LogAttrs(ctx, slog.LevelError, "the event log was lost; accounts are asked again for what the store does not have")
	for _, s := range slots {
		s.refill()
	}
}

// logEpoch waits until it is known which log there is.
func (l *Listeners) logEpoch(ctx context.Context) (string, error) {
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-l.known:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epoch, nil
}

// heard takes a poke: an account is new, or another than it was.
func (l *Listeners) heard(last string, payload []byte) {
	at := id.Account(last)
	l.mu.Lock()
	s := l.slots[account.ShardOf(at)]
	l.mu.Unlock()
	if s != nil {
		s.heard(at, payload)
	}
}

// gate bounds what is opened at once by a region, so that one whose proxies hang holds up nobody else.
func (l *Listeners) gate(region string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gates[region]
	if g == nil {
		g = make(chan struct{}, l.Config.Dials)
		l.gates[region] = g
	}
	return g
}

// isSuspended says whether an org's sessions must not be used. If it cannot be told, they are not.
func (l *Listeners) isSuspended(ctx context.Context, owner id.Org) bool {
	if is, known := l.suspended.Get(owner); known {
		return is
	}
	o, err := l.Orgs.Get(ctx, owner)
	if err != nil {
		return true
	}
	l.suspended.Put(owner, o.SuspendedAt != nil)
	return o.SuspendedAt != nil
}

// backoff is how long to wait before the n-th try, counted from 0: anything up to a bound that doubles.
func (c Config) backoff(n int) time.Duration {
	most := c.LastRetry
	if n < 16 {
		most = min(most, c.FirstRetry<<n)
	}
	return rand.N(most)
}
