package listen_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/health"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/ingest"
	"github.com/stagedoor/stagedoor/internal/events/listen"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testplatform"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
	"github.com/stagedoor/stagedoor/sandbox"
)

// fixture has a sandbox platform behind proxies, and a real event log and store, for nodes that listen.
type fixture struct {
	*accounttest.Fixture
	t         testing.TB
	platform  *testplatform.Platform
	nats      *testenv.Store
	events    *eventlog.JetStream
	store     *event.Store
	health    *health.Health
	platforms func(id string) (registry.Platform, bool)
	driver    driver.Driver
	logins    atomic.Int64
	// ahead is how far the clocks of listeners are ahead.
	ahead atomic.Int64
}

// options change a fixture. noSince makes a platform that cannot list missed frames.
type options struct {
	noSince bool
}

func newFixture(t testing.TB, o options) *fixture {
	t.Helper()
	r := &fixture{t: t}
	r.platform = testplatform.New(t, testplatform.Setup{Sandbox: func(cfg *sandbox.Config) { cfg.NoSince = o.noSince }})
	r.driver = r.platform.Driver
	r.platforms = func(string) (registry.Platform, bool) {
		return registry.Platform{Catalog: r.platform.Catalog, Driver: r.driver}, true
	}
	r.nats = testenv.PrivateJetStream(t)
	r.Fixture = accounttest.New(t, accounttest.Engines{NATS: r.nats.URL}, func(d *account.Deps) {
		d.Platforms, d.Config.Listens = r.platforms, true
	})
	r.health = health.New(health.Deps{
		Config: health.Config{Settle: time.Millisecond}, Accounts: r.Accounts, Orgs: r.Orgs, Limits: r.Limits, Platforms: r.platforms,
		Reauthenticate: func(context.Context, id.Org, id.Account) error {
			return errors.New("sign-ins are not supported in this test")
		},
		Log: slog.New(slog.DiscardHandler), Now: r.Clock.Now,
	})
	var err error
	r.events, err = eventlog.Open(eventlog.Config{URL: r.nats.URL, Name: "test", Patience: 5 * time.Second})
	must.OK(t, err)
	t.Cleanup(r.events.Close)
	r.ingest()
	return r
}

type unmetered struct{}

func (unmetered) Received(id.Org, int64) {}

// ingest stores records of the log until the test ends.
func (r *fixture) ingest() {
	r.t.Helper()
	r.store = event.New(event.Deps{DB: r.DB, Sealer: r.Seal, Seals: sealtest.Always, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	must.OK(r.t, r.store.Upkeep(r.t.Context()))
	g := ingest.New(ingest.Deps{
		Store: r.store, Events: r.events, Outbox: r.Outbox, Bus: r.Bus, Meter: unmetered{},
		Orgs:      r.Orgs,
		Committed: func([]event.Stored) {},
		Log:       slog.New(slog.DiscardHandler), Now: time.Now,
	})
	ctx, stop := context.WithCancel(context.Background())
	holding, drop := context.WithCancel(ctx)
	var loop, holds sync.WaitGroup
	loop.Go(func() {
		if err := g.Run(ctx); err != nil {
			r.t.Error(err)
		}
	})
	for bucket := range event.Buckets {
		holds.Go(func() { g.Hold(holding, bucket, 1, func() {}) })
	}
	r.t.Cleanup(func() {
		drop()
		holds.Wait()
		stop()
		loop.Wait()
	})
}

// waitFor waits until is returns true. It checks rarely, because many conditions read the whole log of an account.
func (r *fixture) waitFor(what string, is func() bool) {
	r.t.Helper()
	over := time.After(3 * time.Minute)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-over:
			r.t.Fatalf("timeout while waiting for: %s", what)
		}
	}
}

// node is one process that listens.
type node struct {
	*listen.Listeners
	registry *prometheus.Registry
	stop     func()
	log      *failingLog
}

// failingLog is a log that can be made to fail.
type failingLog struct {
	*eventlog.Batcher
	// fails makes the log report that it refused records, although it has them.
	fails atomic.Bool
	// positions counts records that have a watermark of their own.
	positions atomic.Int64

	// mu guards refuse and held, which are for refuseAfter.
	mu     sync.Mutex
	refuse int
	held   []func(error)
}

var errRefused = errors.New("refused by the log")

// refuseAfter makes the log take n records without an answer, and then refuse them and all that follow, as a Batcher does
// for a while. None of them is in the log. 0 makes it accept records again.
func (l *failingLog) refuseAfter(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse, l.held = n, nil
}

// hold takes or refuses a record after refuseAfter; false means that the record must be added to the log.
func (l *failingLog) hold(done func(error)) (held bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.refuse == 0:
		return false, nil
	case len(l.held) == l.refuse:
		return true, errRefused
	}
	if l.held = append(l.held, done); len(l.held) == l.refuse {
		// The session waits for the caller before it ends, so it ends after the last refusal and not after the first.
		for _, each := range l.held {
			each(errRefused)
		}
	}
	return true, nil
}

func (l *failingLog) Add(ctx context.Context, bucket int, record []byte, done func(error)) error {
	if r, err := event.ReadRecord(record); err == nil && r.Watermark != "" && r.Watermark != event.SameWatermark {
		l.positions.Add(1)
	}
	if held, err := l.hold(done); held {
		return err
	}
	return l.Batcher.Add(ctx, bucket, record, func(err error) {
		if err == nil && l.fails.Load() {
			err = errRefused
		}
		done(err)
	})
}

func (r *fixture) node(name string, change ...func(*listen.Deps)) *node {
	r.t.Helper()
	batcher := &failingLog{Batcher: eventlog.NewBatcher(r.events)}
	registry := prometheus.NewPedanticRegistry()
	d := listen.Deps{
		Registry: registry,
		Config:   listen.Config{FirstRetry: 20 * time.Millisecond, LastRetry: 200 * time.Millisecond, LogCheck: 100 * time.Millisecond, Spread: 50 * time.Millisecond, Sweep: time.Second, Drain: time.Second},
		Accounts: r.Accounts, Health: r.health, Orgs: r.Orgs, Store: r.store, Events: batcher, LogEpoch: r.epoch,
		Settled: r.isSettled,
		Leases: lease.New(lease.Deps{
			DB: r.DB, Kind: listen.Kind, Slots: listen.Slots, Node: name, Config: lease.Config{TTL: 3 * time.Second, Beat: 300 * time.Millisecond},
			Bus: r.Bus, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		}),
		Bus: r.Bus, Platforms: r.platforms, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) },
	}
	for _, c := range change {
		c(&d)
	}
	n := &node{Listeners: listen.New(d), registry: registry, log: batcher}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := n.Run(ctx); err != nil {
			r.t.Error(err)
		}
	}()
	n.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		if err := batcher.Close(context.Background()); err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(n.stop)
	return n
}

func (r *fixture) epoch(ctx context.Context) (string, error) {
	state, err := r.events.State(ctx, 0)
	return state.Epoch, err
}

func (r *fixture) isSettled(ctx context.Context, bucket int) (bool, error) {
	state, err := r.events.State(ctx, bucket)
	if err != nil {
		return false, err
	}
	var committed uint64
	err = r.DB.Pool().QueryRow(ctx, `SELECT committed FROM event_bucket WHERE bucket = $1 AND log_epoch = $2`, bucket, state.Epoch).Scan(&committed)
	return err == nil && committed >= state.Last || state.Last == 0, nil
}

// connect signs a new creator in on the platform and connects an active account. It returns the login.
func (r *fixture) connect(change ...func(*account.Connected)) (account.Account, string) {
	r.t.Helper()
	login := fmt.Sprintf("ok+%d@sandbox.test", r.logins.Add(1))
	return r.connectAs(login, change...), login
}

func (r *fixture) connectAs(login string, change ...func(*account.Connected)) account.Account {
	r.t.Helper()
	session, who := r.platform.SignIn(r.t, login)
	c := r.Connected(r.Org(), who.ID)
	c.Identity, c.Session, c.SessionExpiresAt = who, session, session.ExpiresAt(r.Catalog)
	for _, each := range change {
		each(&c)
	}
	a := r.Connect(c)
	r.health.Round(r.t.Context())
	return a
}

// startListening returns a fixture with a node and an account whose listener is up, and the account's login.
func startListening(t testing.TB) (*fixture, *node, account.Account, string) {
	t.Helper()
	r := newFixture(t, options{})
	n := r.node("a")
	a, login := r.connect()
	return r, n, r.waitUp(a), login
}

// waitUp waits until an account's listener is up.
func (r *fixture) waitUp(a account.Account) account.Account {
	r.t.Helper()
	r.waitFor("the listener is up", func() bool { return r.Get(a).Listener.State == account.ListenerUp })
	return r.Get(a)
}

// control calls the sandbox's control API.
func (r *fixture) control(method, path string, body any) map[string]any {
	r.t.Helper()
	return r.platform.Control(r.t, method, path, body)
}

func (r *fixture) addFault(login, kind string, count int) {
	r.t.Helper()
	r.control(http.MethodPost, "faults", map[string]any{"scope": login, "kind": kind, "count": count})
}

// sendMessages makes fans write to a creator.
func (r *fixture) sendMessages(login string, times int) {
	r.t.Helper()
	for range times {
		r.control(http.MethodPost, "happen", map[string]any{"login": login, "what": "chat.message"})
	}
}

// generate makes the platform send frames until waitForFrames ends it, so that a slow machine never runs out of frames.
func (r *fixture) generate(perSecond float64, logins ...string) {
	r.t.Helper()
	r.control(http.MethodPost, "generate", map[string]any{"logins": logins, "events_per_sec": perSecond, "for_sec": time.Hour.Seconds()})
}

// waitForFrames waits until each creator has at least that many frames, then ends generate.
func (r *fixture) waitForFrames(frames int, logins ...string) {
	r.t.Helper()
	r.waitFor("enough has happened", func() bool {
		return !slices.ContainsFunc(logins, func(login string) bool { return len(r.sentFrames(login)) < frames })
	})
	r.control(http.MethodDelete, "generate", nil)
}

// sockets returns the number of a creator's open sockets.
func (r *fixture) sockets(login string) int {
	r.t.Helper()
	list, _ := r.control(http.MethodGet, "creators?login="+url.QueryEscape(login), nil)["creators"].([]any)
	one, _ := list[0].(map[string]any)
	n, err := strconv.Atoi(fmt.Sprint(one["sockets"]))
	must.OK(r.t, err)
	return n
}

// dialRegions returns the regions that a creator's sockets were opened from, in order.
func (r *fixture) dialRegions(login string) (regions []string) {
	r.t.Helper()
	list, _ := r.control(http.MethodGet, "requests?login="+url.QueryEscape(login), nil)["requests"].([]any)
	for _, one := range list {
		request, _ := one.(map[string]any)
		if path, _ := request["path"].(string); strings.HasSuffix(path, "/live") {
			regions = append(regions, fmt.Sprint(request["egress"]))
		}
	}
	return regions
}

// sentFrames returns the ids of the frames that the platform has sent to a creator and still lists.
func (r *fixture) sentFrames(login string) []string {
	r.t.Helper()
	list, _ := r.control(http.MethodGet, "frames?login="+url.QueryEscape(login), nil)["frames"].([]any)
	ids := make([]string, len(list))
	for i, one := range list {
		frame, _ := one.(map[string]any)
		ids[i] = fmt.Sprint(frame["id"])
	}
	return ids
}

// stored returns the kinds of an account's events, and the ids of those that are frames of the platform.
func (r *fixture) stored(a account.Account) (kinds, ids []string) {
	r.t.Helper()
	rows, err := r.DB.Pool().Query(r.t.Context(), `SELECT kind, upstream_id FROM event WHERE source = $1 ORDER BY seq`, a.ID)
	must.OK(r.t, err)
	defer rows.Close()
	for rows.Next() {
		var kind, upstream string
		must.OK(r.t, rows.Scan(&kind, &upstream))
		kinds = append(kinds, kind)
		if upstream != "" && !strings.HasPrefix(upstream, "#") {
			ids = append(ids, upstream)
		}
	}
	return kinds, ids
}

// wantAllStored waits until everything that the platform has sent is stored, and fails unless it is stored once and, if
// ordered, in order. In order, the newest frame is stored last.
func (r *fixture) wantAllStored(a account.Account, login string, ordered bool) {
	r.t.Helper()
	var want, got []string
	r.waitFor(login+": everything is stored", func() bool {
		want = r.sentFrames(login)
		_, got = r.stored(a)
		return (ordered || len(got) >= len(want)) && len(want) > 0 && slices.Contains(got, want[len(want)-1])
	})
	if !ordered {
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("%s: %d frames were sent and %d stored; %s", login, len(want), len(got), difference(want, got))
	}
}

// difference describes the first difference of two lists.
func difference(want, got []string) string {
	for i := range min(len(want), len(got)) {
		if want[i] != got[i] {
			return fmt.Sprintf("the first difference is at %d: %v, want %v", i, got[max(i-2, 0):min(i+5, len(got))], want[max(i-2, 0):min(i+5, len(want))])
		}
	}
	return "one is longer"
}

// socketCount returns how many listeners of a node are in a state.
func socketCount(t testing.TB, n *node, state string) float64 {
	t.Helper()
	return metric.Value(t, n.registry, "stagedoor_listener_sockets", "state", state)
}

// slowSweep effectively disables sweeps, so that only messages trigger changes.
func slowSweep(d *listen.Deps) { d.Config.Sweep = time.Hour }
