// Package health keeps the state of accounts current: it probes sessions, confirms that a session is dead before
// anything acts on it, starts the sign-in that replaces it, warns of sessions that end soon, and finishes disconnects
// that a crash interrupted. It does not own the states (package account) and does not sign in (package connect).
//
// Due probes are rows that any node claims with a lease (account.ClaimProbes), so other nodes take over from one that
// dies. Start with Run; probe.go probes one account, and outcome.go decides without I/O what a result means. Calls
// report what they observed through Learn and Confirm (learn.go). Profile is a live read of an account for an API
// caller.
package health

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/singleflight"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/cache"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Config holds the settings. Zero values mean the defaults.
type Config struct {
	// Concurrency is the maximum number of concurrent probes of a node. Default: 64.
	Concurrency int
	// ProbeTimeout bounds one request of a probe. Default: 15 s.
	ProbeTimeout time.Duration
	// Settle is how long to wait for a new cookie before a refused session is probed again: a call in progress elsewhere
	// may be about to store one. Default: 1.5 s.
	Settle time.Duration
}

// Deps holds the dependencies of Health.
type Deps struct {
	Config   Config
	Accounts *account.Accounts
	Orgs     *org.Orgs
	Limits   *admission.Limiter
	// Platforms returns a platform by its id.
	Platforms func(id string) (registry.Platform, bool)
	// Reauthenticate starts a sign-in with remembered credentials, as the system, and does not wait for its end.
	Reauthenticate func(ctx context.Context, org id.Org, account id.Account) error
	// Ticker returns a channel that ticks every d until stop is called.
	Ticker func(d time.Duration) (tick <-chan time.Time, stop func())
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Health probes accounts and records what probes and calls find. It is safe for concurrent use.
type Health struct {
	deps Deps
	// slots limits concurrent probes; a running probe holds one element.
	slots  chan struct{}
	orgs   cache.Cache[id.Org, org.Org]
	probes *prometheus.CounterVec
	// learned counts what Learn has recorded per account lately.
	learned cache.Cache[id.Account, tally]
	// confirms merges concurrent checks of the same account.
	confirms singleflight.Group
}

const (
	// roundEvery is how often a node looks for due probes, sweepEvery how often it sweeps.
	roundEvery = 500 * time.Millisecond
	sweepEvery = 30 * time.Second
	// lease is longer than a probe and its confirmation can take.
	lease = time.Minute
	// finishAfter is the age at which a disconnect counts as interrupted.
	finishAfter = time.Minute
	// sweepRows bounds the accounts per query of a sweep.
	sweepRows = 100
	// orgTTL is how long a node caches an org, and so how late it may notice a suspension.
	orgTTL  = 30 * time.Second
	maxOrgs = 10_000
)

// New returns a Health that does nothing until Run.
func New(d Deps) *Health {
	d.Config.Concurrency = cmp.Or(d.Config.Concurrency, 64)
	d.Config.ProbeTimeout = cmp.Or(d.Config.ProbeTimeout, 15*time.Second)
	d.Config.Settle = cmp.Or(d.Config.Settle, 1500*time.Millisecond)
	return &Health{
		deps: d, slots: make(chan struct{}, d.Config.Concurrency),
		orgs:    cache.NewFor[id.Org, org.Org](maxOrgs, orgTTL),
		learned: cache.New[id.Account, tally](100_000),
		probes: promauto.With(d.Registry).NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_account_probes_total", Help: "Probes of accounts, by what they found.",
		}, []string{"found"}),
	}
}

// Run probes and sweeps until ctx ends. Then it aborts running probes, makes them due again for other nodes, and
// returns nil when all have ended.
func (h *Health) Run(ctx context.Context) error {
	var wait sync.WaitGroup
	defer wait.Wait()
	rounds, stopRounds := h.deps.Ticker(roundEvery)
	defer stopRounds()
	sweeps, stopSweeps := h.deps.Ticker(sweepEvery)
	defer stopSweeps()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-rounds:
			h.startDueProbes(ctx, &wait)
		case <-sweeps:
			// A platform that is slow to sign out must not keep the probes waiting.
			wait.Go(func() { h.Sweep(ctx) })
		}
	}
}

// Round claims and runs due probes, as many as this node has free slots, waits for them and returns their number.
func (h *Health) Round(ctx context.Context) int {
	var wait sync.WaitGroup
	defer wait.Wait()
	return h.startDueProbes(ctx, &wait)
}

// startDueProbes claims and starts due probes and returns their number. It visits shards in random order, so that nodes
// seldom compete for the same one.
func (h *Health) startDueProbes(ctx context.Context, wait *sync.WaitGroup) int {
	taken := 0
	shards, err := h.deps.Accounts.DueShards(ctx)
	rand.Shuffle(len(shards), func(i, j int) { shards[i], shards[j] = shards[j], shards[i] })
	for _, shard := range shards {
		free := cap(h.slots) - len(h.slots)
		if free == 0 {
			break
		}
		var list []account.Ref
		if list, err = h.deps.Accounts.ClaimProbes(ctx, shard, free, lease); err != nil {
			break
		}
		taken += len(list)
		for _, ref := range list {
			h.slots <- struct{}{} // does not block: only this goroutine acquires slots
			wait.Go(func() {
				defer func() { <-h.slots }()
				h.runProbe(ctx, ref)
			})
		}
	}
	if err != nil && ctx.Err() == nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot claim due probes", slog.Any(logkey.Error, err))
	}
	return taken
}

// Sweep warns of sessions that end soon and finishes interrupted disconnects.
func (h *Health) Sweep(ctx context.Context) {
	for {
		warned, err := h.deps.Accounts.WarnExpiring(ctx, sweepRows)
		if err != nil && ctx.Err() == nil {
			h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot warn of expiring sessions", slog.Any(logkey.Error, err))
		}
		if err != nil || warned < sweepRows {
			break
		}
	}
	done, err := h.deps.Accounts.FinishDisconnects(ctx, finishAfter, sweepRows)
	if err != nil && ctx.Err() == nil {
		h.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot finish disconnects", slog.Any(logkey.Error, err))
	}
	if done > 0 {
		h.deps.Log.LogAttrs(ctx, slog.LevelInfo, "disconnects finished", slog.Int(logkey.Accounts, done))
	}
}

// org returns an org, possibly as it was up to orgTTL ago.
func (h *Health) org(ctx context.Context, owner id.Org) (org.Org, error) {
	if o, ok := h.orgs.Get(owner); ok {
		return o, nil
	}
	o, err := h.deps.Orgs.Get(ctx, owner)
	if err == nil {
		h.orgs.Put(owner, o)
	}
	return o, err
}
