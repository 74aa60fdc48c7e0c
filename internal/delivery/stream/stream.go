// Package stream lets callers read events, as they arrive (Watch) or page by page (Pull). It does not speak HTTP (group
// server).
//
// Every reader is a cursor over the event store (reader.go). So that a thousand readers of one account do not each
// query the store, a node has one feed per watched account and per watched org (feed.go). A feed receives new events
// by live messages, keeps the last few in a ring, and reads the store after a missed message. A reader that falls
// behind its feed reads the store at its own pace, so a slow reader costs other readers nothing and uses no memory.
// The number of streams per key is limited over all nodes (slots.go). Browsers open streams with tokens (token.go).
package stream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

// store reads events; implemented by *event.Store.
type store interface {
	OrgAfter(ctx context.Context, org id.Org, p event.Position, since time.Time, limit int) ([]event.Stored, event.Position, error)
	OrgHead(ctx context.Context, org id.Org) (event.Position, error)
	SourceAfter(ctx context.Context, org id.Org, source string, p event.SourcePage) ([]event.Stored, error)
	SourceHead(ctx context.Context, org id.Org, source string) (event.Position, error)
	cursors
	Oldest(ctx context.Context, org id.Org, source string, since time.Time) (int64, error)
}

// cursors converts between positions and cursors; implemented by *event.Store.
type cursors interface {
	Cursor(p event.Position, ofOrg bool) string
	Position(ctx context.Context, cursor string, ofOrg bool) (p event.Position, known bool, err error)
}

// wire delivers live messages; implemented by *pubsub.Bus.
type wire interface {
	SubscribeTraced(ctx context.Context, pattern string, heard func(payload []byte, parents []string)) error
	Ping(ctx context.Context) error
}

// scripts runs Redis scripts; implemented by *redis.Client.
type scripts interface {
	Run(ctx context.Context, s *redis.Script, keys, args []string) (string, error)
}

// keys returns the holder of a key and limits guesses of tokens; implemented by *apikey.Keys.
type keys interface {
	Holder(ctx context.Context, org id.Org, key id.Key) (*apikey.Principal, error)
	Guess(source string) error
	Missed(source string)
}

// Config holds the settings. Zero values mean the defaults.
type Config struct {
	// Backstop is how often a feed checks whether it missed something. Default: 30 s. AwayEvery is how often it does so
	// while NATS is unavailable. Default: 2 s.
	Backstop, AwayEvery time.Duration
	// Linger is how long a feed is kept after its last reader left, for clients that poll. Default: 10 s.
	Linger time.Duration
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		value  *time.Duration
		unless time.Duration
	}{{&c.Backstop, 30 * time.Second}, {&c.AwayEvery, 2 * time.Second}, {&c.Linger, 10 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.unless
		}
	}
	return c
}

// Deps holds the dependencies of Streams.
type Deps struct {
	Config Config
	Store  store
	Wire   wire
	Redis  scripts
	// DB stores tokens, and Keys finds the keys that made them. Without a database there are no tokens.
	DB   *postgres.DB
	Keys keys
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Streams gives readers access to events. It is safe for concurrent use. Run must be running.
type Streams struct {
	deps    Deps
	slots   streamSlots
	metrics metrics

	mu    sync.Mutex
	feeds map[topic]*feed
	// disconnected means that live messages do not arrive.
	disconnected bool
	// checkAll makes every feed check the store in the next round.
	checkAll bool
	wake     chan struct{}
	// tokensDeletedAt is when expired tokens were last deleted; only Run uses it.
	tokensDeletedAt time.Time
	// toOpen carries new feeds to Run, so that they live as long as Run and not only as long as their first reader.
	toOpen chan *feed
}

// New returns a Streams.
func New(d Deps) *Streams {
	d.Config = d.Config.withDefaults()
	return &Streams{
		deps: d, slots: newStreamSlots(d), metrics: newMetrics(d.Registry), feeds: map[topic]*feed{}, wake: make(chan struct{}, 1),
		toOpen: make(chan *feed),
	}
}

const (
	// maintainEvery is how often feeds are maintained.
	maintainEvery = time.Second
	// maxChecks bounds the concurrent checks of the store.
	maxChecks = 8
	// readTimeout bounds a read of the store, pingTimeout a ping of NATS.
	readTimeout = 5 * time.Second
	pingTimeout = time.Second
)

// Run opens and maintains feeds until ctx ends. Watch blocks without it.
func (h *Streams) Run(ctx context.Context) error {
	go h.openFeeds(ctx)
	look := time.NewTicker(maintainEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		case <-h.wake:
		}
		h.checkConnection(ctx)
		h.maintainFeeds(ctx)
		h.slots.renew(ctx)
		h.deleteExpiredTokens(ctx)
	}
}

// openFeeds opens feeds as they are requested.
func (h *Streams) openFeeds(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-h.toOpen:
			own, stop := context.WithCancel(ctx)
			f.stop = stop
			go f.open(own)
		}
	}
}

// Missed makes every feed read the store now, because live messages may have been lost. It returns immediately.
func (h *Streams) Missed() {
	h.mu.Lock()
	h.checkAll = true
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// checkConnection finds out whether live messages can arrive. When they can again, every feed checks the store.
func (h *Streams) checkConnection(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	down := h.deps.Wire.Ping(ctx) != nil
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.disconnected && !down {
		h.checkAll = true
	}
	if h.disconnected != down {
		h.deps.Log.InfoContext(ctx, "live messages for streams", slog.Bool(logkey.Live, !down))
	}
	h.disconnected = down
}

// maintainFeeds trims feeds, closes those without readers, and checks those that are due.
func (h *Streams) maintainFeeds(ctx context.Context) {
	now := h.deps.Now()
	h.mu.Lock()
	all, every := h.checkAll, h.deps.Config.Backstop
	if h.checkAll = false; h.disconnected {
		every = h.deps.Config.AwayEvery
	}
	var due []*feed
	for at, f := range h.feeds {
		switch f.maintain(now, every, h.deps.Config.Linger, all) {
		case feedIdle:
			delete(h.feeds, at)
			f.stop()
		case feedDue:
			due = append(due, f)
		case feedFine:
		}
	}
	h.metrics.feeds.Set(float64(len(h.feeds)))
	h.mu.Unlock()
	var checks errgroup.Group
	checks.SetLimit(maxChecks)
	for _, f := range due {
		checks.Go(func() error { f.check(ctx); return nil })
	}
	_ = checks.Wait() // checks count their failures themselves
}

// topic is what a feed is about: one source, or everything of an org if source is empty.
type topic struct {
	org    id.Org
	source string
}

// watch returns the feed of a topic and waits until it is open. The caller must call leave.
func (h *Streams) watch(ctx context.Context, at topic) (*feed, error) {
	f, made := h.findOrCreate(at)
	if made {
		select {
		case h.toOpen <- f:
		case <-ctx.Done():
			f.err = ctx.Err()
			h.removeFeed(f)
			close(f.opened)
		}
	}
	select {
	case <-f.opened:
	case <-ctx.Done():
		h.leave(f)
		return nil, ctx.Err()
	}
	if f.err != nil {
		h.leave(f)
		return nil, f.err
	}
	return f, nil
}

func (h *Streams) findOrCreate(at topic) (f *feed, made bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f = h.feeds[at]; f == nil {
		f, made = newFeed(h, at), true
		h.feeds[at] = f
	}
	f.users++
	return f, made
}

func (h *Streams) leave(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.users--
	f.leftAt = h.deps.Now()
}

// removeFeed removes a feed that could not be opened, so that the next reader tries again.
func (h *Streams) removeFeed(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feeds[f.at] == f {
		delete(h.feeds, f.at)
	}
}
