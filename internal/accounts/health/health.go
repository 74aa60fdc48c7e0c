// Package health keeps accounts as they are said to be: it probes sessions, confirms that one is dead before anybody acts on it, starts
// the sign-in that replaces it, warns of sessions that end soon, and finishes disconnects that a crash left behind.
//
// All of it is work in rows that any node takes (account.Due): a node that dies loses its part to the others when its lease ends. What a
// probe means is decided without I/O (judge.go). Profile is the same look at an account, for a caller who waits for it.
package health

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// limiter pauses an account that the platform wants left alone; *admission.Limiter does.
type limiter interface {
	Cool(ctx context.Context, org id.Org, account id.Account, pause time.Duration) error
}

// Config are the settings. Zero values are good ones.
type Config struct {
	// Concurrency is how many probes a node runs at once; 64.
	Concurrency int
	// ProbeTimeout is how long one may take; 15 s.
	ProbeTimeout time.Duration
	// Settle is how long a session that was refused may still turn out to have been replaced: a call under way elsewhere may be about to
	// store the cookie that it was given; 1.5 s.
	Settle time.Duration
}

// Deps is what the flow needs.
type Deps struct {
	Config   Config
	Accounts *account.Accounts
	Orgs     *org.Orgs
	Limits   limiter
	Catalogs map[org.Environment]*catalog.Catalog
	Drivers  func(org.Environment) (driver.Driver, bool)
	// Reauthenticate starts a sign-in with remembered credentials, as the system; it does not wait for its end.
	Reauthenticate func(ctx context.Context, org id.Org, account id.Account) error
	// Ticker is a clock's: it ticks every d until it is stopped.
	Ticker func(d time.Duration) (tick <-chan time.Time, stop func())
	Log    *slog.Logger
	Now    func() time.Time
}

// Health is the flow.
type Health struct {
	Deps
	slots  chan struct{}
	orgs   cache.Cache[id.Org, org.Org]
	probes *prometheus.CounterVec
	// told is how much was written down lately of what calls tell, looks are those under way.
	told  cache.Cache[id.Account, tally]
	looks singleflight.Group
}

const (
	// roundEvery is how often a node looks for due accounts, sweepEvery for what is rarer.
	roundEvery = 500 * time.Millisecond
	sweepEvery = 30 * time.Second
	// lease is longer than the longest probe with its confirmation.
	lease = time.Minute
	// leftBehind is when a disconnect is no longer being finished by who began it.
	leftBehind = time.Minute
	// sweepRows bounds one sweep.
	sweepRows = 100
	// orgFor is how long a node goes by what it has read of an org.
	orgFor  = 30 * time.Second
	orgsMax = 10_000
)

// New makes the flow.
func New(d Deps) *Health {
	if d.Config.Concurrency == 0 {
		d.Config.Concurrency = 64
	}
	if d.Config.ProbeTimeout == 0 {
		d.Config.ProbeTimeout = 15 * time.Second
	}
	if d.Config.Settle == 0 {
		d.Config.Settle = 1500 * time.Millisecond
	}
	return &Health{
		Deps: d, slots: make(chan struct{}, d.Config.Concurrency),
		orgs: cache.NewFor[id.Org, org.Org](orgsMax, orgFor),
		told: cache.New[id.Account, tally](100_000),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_account_probes_total", Help: "Probes of accounts, by what they found.",
		}, []string{"found"}),
	}
}

// Collectors are the flow's metrics.
func (h *Health) Collectors() []prometheus.Collector { return []prometheus.Collector{h.probes} }

// Run works until the context ends; probes under way are broken off and given back.
func (h *Health) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	rounds, stopRounds := h.Ticker(roundEvery)
	defer stopRounds()
	sweeps, stopSweeps := h.Ticker(sweepEvery)
	defer stopSweeps()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rounds:
			h.take(ctx, &wait)
		case <-sweeps:
			// A platform that is slow to sign out must not keep the probes waiting.
			wait.Go(func() { h.Sweep(ctx) })
		}
	}
}

// Round takes the accounts that are due, as many as this node has room for, waits until they are done, and says how many they were.
func (h *Health) Round(ctx context.Context) int {
	var wait sync.WaitGroup
	defer wait.Wait()
	return h.take(ctx, &wait)
}

// take starts the probes that are due. It takes the shards in any order, so that nodes seldom meet at one.
func (h *Health) take(ctx context.Context, wait *sync.WaitGroup) int {
	taken := 0
	shards, err := h.Accounts.DueShards(ctx)
	rand.Shuffle(len(shards), func(i, j int) { shards[i], shards[j] = shards[j], shards[i] })
	for _, shard := range shards {
		free := cap(h.slots) - len(h.slots)
		if free == 0 {
			break
		}
		var list []account.Ref
		if list, err = h.Accounts.Due(ctx, shard, free, lease); err != nil {
			break
		}
		taken += len(list)
		for _, ref := range list {
			h.slots <- struct{}{} // there is room: only this goroutine fills it
			wait.Go(func() {
				defer func() { <-h.slots }()
				h.work(ctx, ref)
			})
		}
	}
	if err != nil && ctx.Err() == nil {
		h.Log.LogAttrs(ctx, slog.LevelWarn, "due accounts not taken", slog.Any("error", err))
	}
	return taken
}

// Sweep does what is seldom due: warnings, and disconnects that were left behind.
func (h *Health) Sweep(ctx context.Context) {
	for {
		told, err := h.Accounts.Warn(ctx, sweepRows)
		if err != nil && ctx.Err() == nil {
			h.Log.LogAttrs(ctx, slog.LevelWarn, "orgs not warned of sessions that end", slog.Any("error", err))
		}
		if err != nil || told < sweepRows {
			break
		}
	}
	done, err := h.Accounts.FinishDisconnects(ctx, leftBehind, sweepRows)
	if err != nil && ctx.Err() == nil {
		h.Log.LogAttrs(ctx, slog.LevelWarn, "disconnects not finished", slog.Any("error", err))
	}
	if done > 0 {
		h.Log.LogAttrs(ctx, slog.LevelInfo, "disconnects finished", slog.Int("accounts", done))
	}
}

// org reads an org, which may be as old as orgFor.
func (h *Health) org(ctx context.Context, owner id.Org) (org.Org, error) {
	if o, ok := h.orgs.Get(owner); ok {
		return o, nil
	}
	o, err := h.Orgs.Get(ctx, owner)
	if err == nil {
		h.orgs.Put(owner, o)
	}
	return o, err
}
