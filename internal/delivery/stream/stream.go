// Package stream lets callers read events: as they come, or page by page.
//
// Every reader is a cursor over the event store (reader.go). So that a thousand readers of one account do not each ask the store, a node
// has one feed per watched account and one per watched org (feed.go), which hears of new events by live messages, holds the last few,
// and asks the store itself where a message was missed. A reader that is behind its feed reads the store at its own pace: being slow
// costs nobody else anything, and no memory. How many streams a key may have is counted over all nodes (places.go); browsers open
// streams with tokens (token.go).
//
// Start reading at Account and Org.
package stream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

// store has the events; *event.Store has it.
type store interface {
	After(ctx context.Context, org id.Org, source string, seq int64, since time.Time, limit int) ([]event.Stored, error)
	OrgAfter(ctx context.Context, org id.Org, p event.Position, since time.Time, limit int) ([]event.Stored, event.Position, error)
	OrgHead(ctx context.Context, org id.Org) (event.Position, error)
	Head(ctx context.Context, org id.Org, source string) (event.Head, error)
	Oldest(ctx context.Context, org id.Org, source string, since time.Time) (int64, error)
}

// wire carries live messages; *pubsub.Bus has it.
type wire interface {
	Listen(ctx context.Context, pattern string, heard func(last string, payload []byte)) error
	Ping(ctx context.Context) error
}

// scripts counts streams over all nodes; *redis.Client has it.
type scripts interface {
	Run(ctx context.Context, s *redis.Script, keys, args []string) (string, error)
}

// keys finds who made a token; *apikey.Keys has it.
type keys interface {
	Holder(ctx context.Context, org id.Org, key id.Key) (*apikey.Principal, error)
	Guess(source string) error
	Missed(source string)
}

// Config are the settings. Zero values are replaced by what is right in production.
type Config struct {
	// Backstop is how often a feed looks whether it missed something; AwayEvery how often while live messages do not come.
	Backstop, AwayEvery time.Duration
	// Linger is how long a feed stays that nobody watches: whoever polls comes back.
	Linger time.Duration
}

func (c Config) complete() Config {
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

// Deps is what the service needs.
type Deps struct {
	Config Config
	Store  store
	Wire   wire
	Redis  scripts
	// DB has the tokens, Keys who made them. Without a database there are none.
	DB   *postgres.DB
	Keys keys
	Log  *slog.Logger
	Now  func() time.Time
}

// Streams is the service.
type Streams struct {
	Deps
	places  places
	metrics metrics

	mu    sync.Mutex
	feeds map[topic]*feed
	// away means that live messages do not come.
	away bool
	// checkAll makes every feed look at once.
	checkAll bool
	wake     chan struct{}
	// forgotten is when tokens were last tidied up.
	forgotten time.Time
	// starts are feeds to be opened.
	starts chan *feed
}

// New makes the service.
func New(d Deps) *Streams {
	d.Config = d.Config.complete()
	return &Streams{Deps: d, places: newPlaces(d), metrics: newMetrics(), feeds: map[topic]*feed{}, wake: make(chan struct{}, 1), starts: make(chan *feed)}
}

const (
	// lookEvery is how often the feeds are looked after.
	lookEvery = time.Second
	// checksAtOnce bounds how much of the database the checks take.
	checksAtOnce = 8
	// readAtMost bounds one read of the store, pingAtMost a question to the bus.
	readAtMost = 5 * time.Second
	pingAtMost = time.Second
)

// Run opens feeds and looks after them until the context ends. Nothing can be watched without it.
func (h *Streams) Run(ctx context.Context) error {
	go h.start(ctx)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		case <-h.wake:
		}
		h.listening(ctx)
		h.lookAfter(ctx)
		h.places.renew(ctx)
		h.forgetTokens(ctx)
	}
}

// start opens feeds as they are asked for.
func (h *Streams) start(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-h.starts:
			own, stop := context.WithCancel(ctx)
			f.stop = stop
			go f.open(own)
		}
	}
}

// Missed makes every feed ask the store now, because live messages may have been lost. It returns at once.
func (h *Streams) Missed() {
	h.mu.Lock()
	h.checkAll = true
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// listening finds out whether live messages can come.
func (h *Streams) listening(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, pingAtMost)
	defer cancel()
	away := h.Wire.Ping(ctx) != nil
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.away && !away {
		h.checkAll = true
	}
	if h.away != away {
		h.Log.InfoContext(ctx, "streams hear of events", slog.Bool("live", !away))
	}
	h.away = away
}

// lookAfter trims feeds, closes those that nobody watches, and checks those that are due.
func (h *Streams) lookAfter(ctx context.Context) {
	now := h.Now()
	h.mu.Lock()
	all, every := h.checkAll, h.Config.Backstop
	if h.checkAll = false; h.away {
		every = h.Config.AwayEvery
	}
	var due []*feed
	for at, f := range h.feeds {
		switch f.look(now, every, h.Config.Linger, all) {
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
	checks.SetLimit(checksAtOnce)
	for _, f := range due {
		checks.Go(func() error { f.check(ctx); return nil })
	}
	_ = checks.Wait() // checks tell of their own failures
}

// topic is what a feed is about: a source, or all of an org if that is empty.
type topic struct {
	org    id.Org
	source string
}

// watch finds or makes the feed of a topic, and waits until it hears. The caller must leave it.
func (h *Streams) watch(ctx context.Context, at topic) (*feed, error) {
	f, made := h.find(at)
	if made {
		select {
		case h.starts <- f:
		case <-ctx.Done():
			f.fault = ctx.Err()
			h.drop(f)
			close(f.opened)
		}
	}
	select {
	case <-f.opened:
	case <-ctx.Done():
		h.leave(f)
		return nil, ctx.Err()
	}
	if f.fault != nil {
		h.leave(f)
		return nil, f.fault
	}
	return f, nil
}

func (h *Streams) find(at topic) (f *feed, made bool) {
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
	f.leftAt = h.Now()
}

// drop forgets a feed that could not be opened; the next one to ask tries again.
func (h *Streams) drop(f *feed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feeds[f.at] == f {
		delete(h.feeds, f.at)
	}
}
