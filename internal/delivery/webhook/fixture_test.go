package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// fixture holds accounts, an event store, and nodes that deliver.
type fixture struct {
	*accounttest.Fixture
	t      testing.TB
	events *event.Store
	public *egress.Public
	// exhausted is how many connections fail for lack of file descriptors.
	exhausted atomic.Int32
	config    webhook.Config
	org       id.Org
	next      atomic.Int64
	// suspendable nodes know which organisations are suspended. For other nodes none is.
	suspendable bool
	// ago is the age of new events, in nanoseconds.
	ago atomic.Int64

	mu     sync.Mutex
	heads  map[string]event.HeadRow
	epochs map[int]int64
}

// quickConfig returns a configuration with short delays.
func quickConfig() webhook.Config {
	c := webhook.Defaults()
	c.FlushEvery, c.PollEvery = 20*time.Millisecond, 50*time.Millisecond
	c.Lane.Delays = []time.Duration{20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond, 100 * time.Millisecond}
	c.Lane.EventDelays = []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}
	c.Lane.LagAfter = 100 * time.Millisecond
	return c
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	db := testenv.Postgres(t)
	r := &fixture{
		Fixture: accounttest.New(t, accounttest.Engines{DB: db}, nil), t: t, config: quickConfig(),
		events: event.New(event.Deps{DB: db, Sealer: sealtest.NewMemory(), Seals: sealtest.Always, Log: slog.New(slog.DiscardHandler), Now: clock.Now}),
		heads:  map[string]event.HeadRow{}, epochs: map[int]int64{},
	}
	must.OK(t, r.events.Upkeep(t.Context()))
	r.public = egress.NewPublic(egress.PublicConfig{Loopback: true, Now: clock.Now, BeforeConnect: func() error {
		if r.exhausted.Add(-1) >= 0 {
			return syscall.EMFILE
		}
		return nil
	}})
	t.Cleanup(r.public.Close)
	r.org = r.Org()
	return r
}

// counts stands for the usage service.
type counts struct{ good, bad atomic.Int64 }

func (c *counts) Delivered(_ id.Org, accepted, failed int64, _ time.Duration) {
	c.good.Add(accepted)
	c.bad.Add(failed)
}

type node struct {
	*webhook.Webhooks
	r           *fixture
	count       *counts
	metrics     *prometheus.Registry
	suspensions *org.Suspensions
	// shutdown stops the node in good order.
	shutdown func()
}

func (r *fixture) node(buckets ...int) *node {
	r.t.Helper()
	n := &node{r: r, count: &counts{}, metrics: prometheus.NewRegistry()}
	if r.suspendable {
		n.suspensions = org.NewSuspensions(org.SuspensionDeps{DB: r.DB, Process: fmt.Sprint("node ", r.next.Add(1)), Log: slog.New(slog.DiscardHandler), Now: clock.Now})
	}
	n.Webhooks = webhook.New(webhook.Deps{
		Config: r.config, DB: r.DB, Events: r.events, Kinds: event.NewKinds(r.Catalog),
		Orgs: r.Orgs, Accounts: r.Accounts, Platforms: func(environment.Environment) []string { return []string{"sandbox", "ghost"} }, Seal: r.Seal, Audit: audit.New(r.DB, r.Seal, clock.Now), Outbox: outbox.New(r.DB, clock.Now), Public: r.public,
		Bus: r.Bus, Usage: n.count, Permits: n.suspensions, Registry: n.metrics, Log: slog.New(slog.NewTextHandler(r.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), Now: clock.Now,
	})
	running, stop := context.WithCancel(context.Background())
	holding, release := context.WithCancel(context.Background())
	var runs, holds sync.WaitGroup
	if r.suspendable {
		n.suspensions.Watch(n.Suspend)
		runs.Go(func() { _ = n.suspensions.Run(running) })
	}
	runs.Go(func() { _ = n.Run(running) })
	r.mu.Lock()
	for _, b := range buckets {
		r.epochs[b]++
		epoch := r.epochs[b]
		holds.Go(func() { n.Hold(holding, b, epoch) })
	}
	r.mu.Unlock()
	n.shutdown = sync.OnceFunc(func() {
		release()
		holds.Wait()
		stop()
		runs.Wait()
	})
	r.t.Cleanup(n.shutdown)
	return n
}

func bucketsOf(list ...account.Account) []int {
	var buckets []int
	for _, a := range list {
		buckets = append(buckets, event.Bucket(string(a.ID)))
	}
	slices.Sort(buckets)
	return slices.Compact(buckets)
}

func (r *fixture) account() account.Account {
	r.t.Helper()
	return r.Connect(r.Connected(r.org, fmt.Sprint(1000+r.next.Add(1))))
}

// fire stores events of an account and reports them to a node, unless that is nil.
func (r *fixture) fire(n *node, a account.Account, kind string, count int) []event.Stored {
	r.t.Helper()
	list := r.store(a, kind, count)
	if n != nil {
		n.Committed(list)
	}
	return list
}

func (r *fixture) store(a account.Account, kind string, count int) []event.Stored {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	source := string(a.ID)
	bucket := event.Bucket(source)
	progress, err := r.events.Claim(r.t.Context(), bucket, 1)
	must.OK(r.t, err)
	head, ok := r.heads[source]
	if !ok {
		head = event.HeadRow{Org: a.Org, Source: source}
	}
	b := event.Batch{Buckets: []event.Progress{progress}}
	for range count {
		head.LastSeq++
		at := clock.Now().Add(-time.Duration(r.ago.Load())).Truncate(time.Microsecond)
		if !at.After(head.LastAt) {
			at = head.LastAt.Add(time.Microsecond)
		}
		head.LastAt = at
		s := event.Stored{Org: a.Org, Source: source, Seq: head.LastSeq, At: at, ID: id.New[id.Event](), Kind: kind}
		s.Body = event.AppendEnvelope(nil, &event.Envelope{ID: s.ID, Kind: kind, Account: source, At: at, Seq: s.Seq, Data: json.RawMessage(`{"text":"hi"}`)})
		b.Events = append(b.Events, event.NewEvent{Stored: s})
	}
	r.heads[source] = head
	b.Heads = []event.HeadRow{head}
	_, err = r.events.Commit(r.t.Context(), &b)
	must.OK(r.t, err)
	list := make([]event.Stored, len(b.Events))
	for i := range b.Events {
		list[i] = b.Events[i].Stored
	}
	return list
}

// got is a request to a receiver.
type got struct {
	header http.Header
	body   []byte
	seq    int64
	kind   string
	id     string
}

// isSigned reports whether the client library accepts both signatures of a delivery.
func (g got) isSigned(key secret.String) bool {
	v := stagedoor.Verifier{Secrets: []string{key.Reveal()}, AllowUntimed: true}
	untimed := http.Header{"X-Webhook-Signature": g.header["X-Webhook-Signature"]}
	return v.Check(g.header, g.body) == nil && v.Check(untimed, g.body) == nil
}

// receiver is the server of a customer.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    map[string][]got
	signal chan struct{}
	// forgets means that requests are not kept, for tests with very many. Set it before the first request.
	forgets bool
	// answer writes the response; nil responds with 200.
	answer func(w http.ResponseWriter, path string, n int, g got)
}

func newReceiver(t testing.TB, answer func(w http.ResponseWriter, path string, n int, g got)) *receiver {
	t.Helper()
	rec := &receiver{got: map[string][]got{}, signal: make(chan struct{}, 1), answer: answer}
	rec.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		var e struct {
			ID, Event string
			Meta      struct{ Seq int64 }
		}
		_ = json.Unmarshal(body, &e)
		g := got{header: req.Header, body: body, seq: e.Meta.Seq, kind: e.Event, id: e.ID}
		rec.mu.Lock()
		n := len(rec.got[req.URL.Path])
		if !rec.forgets {
			rec.got[req.URL.Path] = append(rec.got[req.URL.Path], g)
		}
		rec.mu.Unlock()
		select {
		case rec.signal <- struct{}{}:
		default:
		}
		if rec.answer != nil {
			rec.answer(w, req.URL.Path, n, g)
		}
	}))
	t.Cleanup(rec.Close)
	return rec
}

func (rec *receiver) requests(path string) []got {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return slices.Clone(rec.got[path])
}

// wait waits until a path got n requests, and returns them.
func (rec *receiver) wait(t testing.TB, path string, n int) []got {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		if list := rec.requests(path); len(list) >= n {
			return list
		}
		select {
		case <-rec.signal:
		case <-time.After(50 * time.Millisecond): // another goroutine may have received the signal
		case <-deadline:
			t.Fatalf("%s got %d requests, want %d", path, len(rec.requests(path)), n)
		}
	}
}

var until = testenv.Await

func seqs(list []got) []int64 {
	var all []int64
	for _, g := range list {
		all = append(all, g.seq)
	}
	return all
}

func seqsUpTo(n int64) []int64 {
	var all []int64
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

func (r *fixture) put(n *node, a account.Account, c webhook.Change) webhook.Webhook {
	r.t.Helper()
	hook, err := n.Put(r.t.Context(), accounttest.By("webhook.put"), a.Org, a.ID, c)
	must.OK(r.t, err)
	return hook
}

func (r *fixture) rows(query string, args ...any) (n int) {
	r.t.Helper()
	must.OK(r.t, r.DB.Pool().QueryRow(r.t.Context(), query, args...).Scan(&n))
	return n
}

func by(action string) audit.By { return accounttest.By(action) }
