// Package ingest takes events from the log into the store: it gives each its place in its source's sequence and its final form, and
// tells the rest of the house once it is committed.
//
// A bucket has one writer at a time, by lease: Hold begins with a claim in the store that fences older leases off. One loop (Run) serves
// all buckets of a node, because one transaction for many costs as much as one for a few. What is read of the log and what is committed
// of it move together in one transaction, so an event is stored once however often it is read; repeats by the platform or by listeners
// are told by their upstream ids (head.go). Events of our own come from the outbox, out of which the same transaction takes them.
package ingest

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// publisher tells other nodes; *pubsub.Bus does.
type publisher interface {
	Poke(subject string, payload []byte) error
}

// meter counts events; *usage.Usage does.
type meter interface {
	Received(org id.Org, events int64)
}

// Deps is what the flow needs.
type Deps struct {
	Store  *event.Store
	Events eventlog.Log
	Outbox *outbox.Outbox
	Bus    publisher
	Meter  meter
	// Sandbox says whether an org lives on the sandbox. It is asked once for each.
	Sandbox func(ctx context.Context, org id.Org) (bool, error)
	// Committed is given all that was stored of the buckets that this node holds, in order. It must not block.
	Committed func(list []event.Stored)
	Log       *slog.Logger
	Now       func() time.Time
}

// Ingest is the service.
type Ingest struct {
	Deps
	orders  chan order
	metrics metrics

	// Only the loop uses what follows.
	owned   map[int]*bucket
	heads   map[string]*head
	sandbox map[id.Org]bool
	reading *reading
	// dirty means that other buckets are to be read than those that are.
	dirty bool
	// unsure means that a batch failed, and what the store has is not known until all buckets were claimed again. doubt is one that may
	// have been committed all the same.
	unsure      bool
	doubt       *event.Batch
	openAfter   time.Time
	openTrouble backoff
}

// bucket is one that this node writes.
type bucket struct {
	event.Progress
	// written is the position that the store has.
	written uint64
}

// order is a change of what the node holds.
type order struct {
	take *event.Progress
	drop int
	done chan struct{}
}

// New makes the service.
func New(d Deps) *Ingest {
	return &Ingest{
		Deps: d, orders: make(chan order), metrics: newMetrics(),
		owned: map[int]*bucket{}, heads: map[string]*head{}, sandbox: map[id.Org]bool{},
	}
}

// Collectors are to be registered.
func (g *Ingest) Collectors() []prometheus.Collector { return g.metrics.all() }

// claimRetry is how long a claim that could not be made waits.
const claimRetry = 200 * time.Millisecond

// Hold writes a bucket until the context ends: it is over when the last batch is.
func (g *Ingest) Hold(ctx context.Context, slot int, epoch int64) {
	p, ok := g.claim(ctx, slot, epoch)
	if !ok {
		return
	}
	take := order{take: &p, done: make(chan struct{})}
	select {
	case g.orders <- take:
		<-take.done
	case <-ctx.Done():
		return
	}
	<-ctx.Done()
	drop := order{drop: slot, done: make(chan struct{})}
	g.orders <- drop // the loop outlives every hold
	<-drop.done
}

func (g *Ingest) claim(ctx context.Context, slot int, epoch int64) (event.Progress, bool) {
	for {
		p, err := g.Store.Claim(ctx, slot, epoch)
		switch {
		case err == nil:
			return p, true
		case errors.Is(err, event.ErrFenced), ctx.Err() != nil:
			return p, false
		}
		g.Log.LogAttrs(ctx, slog.LevelWarn, "bucket not claimed", slog.Int("bucket", slot), slog.Any("error", err))
		if !clock.Pause(ctx, claimRetry) {
			return p, false
		}
	}
}

// Times of the loop.
const (
	// outboxEvery is how long an event of our own waits at most to be noticed.
	outboxEvery = 100 * time.Millisecond
	// quietEvery is how often buckets without events are moved on, so that whoever takes over need not read old entries of others.
	quietEvery = time.Second
	// settleEvery is how often old rows of the outbox are looked for.
	settleEvery = 30 * time.Second
	// retryFirst and retryMost are what is waited after a failure.
	retryFirst = 50 * time.Millisecond
	retryMost  = 2 * time.Second
)

// Run writes until the context ends. It must be ended after all holds.
func (g *Ingest) Run(ctx context.Context) error {
	poll, quiet, settle := time.NewTicker(outboxEvery), time.NewTicker(quietEvery), time.NewTicker(settleEvery)
	defer poll.Stop()
	defer quiet.Stop()
	defer settle.Stop()
	defer g.close()
	var trouble backoff
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case o := <-g.orders:
			g.obey(o)
			continue
		case got := <-g.chunks():
			err = g.take(ctx, got)
		case <-poll.C:
			err = g.round(ctx)
		case <-quiet.C:
			err = g.moveOn(ctx)
		case <-settle.C:
			err = g.upkeep(ctx)
		}
		if err == nil {
			trouble = backoff{}
			continue
		}
		g.Log.LogAttrs(ctx, slog.LevelWarn, "events not stored", slog.Any("error", err))
		g.metrics.failures.Inc()
		for g.unsure = true; g.unsure && ctx.Err() == nil; {
			g.wait(ctx, trouble.next())
			g.recover(ctx)
		}
	}
}

// round opens what is to be read, and takes what waits in the outbox.
func (g *Ingest) round(ctx context.Context) error {
	g.reopen(ctx)
	slots := make([]int16, 0, len(g.owned))
	for slot := range g.owned {
		slots = append(slots, int16(slot))
	}
	return g.takeOwn(ctx, slots)
}

// obey takes or drops a bucket. It is called between batches, so a bucket that is dropped has nothing under way.
func (g *Ingest) obey(o order) {
	defer close(o.done)
	g.dirty = true
	if o.take != nil {
		g.owned[o.take.Bucket] = &bucket{*o.take, o.take.Committed}
		return
	}
	g.forget(o.drop)
}

func (g *Ingest) forget(slot int) {
	delete(g.owned, slot)
	for source, h := range g.heads {
		if h.bucket == slot {
			delete(g.heads, source)
		}
	}
}

// wait pauses, but for orders: a bucket must be given up at once.
func (g *Ingest) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case o := <-g.orders:
			g.obey(o)
		}
	}
}

// recover finds out what holds after a failure: the batch may have been committed, or another node may have a bucket.
func (g *Ingest) recover(ctx context.Context) {
	g.close()
	clear(g.heads)
	g.dirty = true
	for slot, b := range g.owned {
		p, err := g.Store.Claim(ctx, slot, b.Epoch)
		switch {
		case errors.Is(err, event.ErrFenced):
			g.metrics.fenced.Inc()
			g.forget(slot)
		case err == nil:
			b.Progress, b.written = p, p.Committed
		default:
			return
		}
	}
	if g.doubt != nil {
		committed, err := g.wasCommitted(ctx, g.doubt)
		if err != nil {
			return
		}
		if committed {
			g.tell(g.doubt)
		}
		g.doubt = nil
	}
	g.unsure = false
}

// wasCommitted says whether a batch is in the store, by one of its events.
func (g *Ingest) wasCommitted(ctx context.Context, b *event.Batch) (bool, error) {
	if len(b.Events) == 0 {
		return false, nil
	}
	e := &b.Events[0]
	found, err := g.Store.After(ctx, e.Org, e.Source, e.Seq-1, e.At.Add(-time.Second), 1)
	if err != nil || len(found) == 0 || found[0].ID != e.ID {
		return false, err
	}
	for i := range b.Events {
		b.Events[i].Tx = found[0].Tx
	}
	return true, nil
}

// moveOn writes down how far quiet buckets have been read.
func (g *Ingest) moveOn(ctx context.Context) error {
	var batch event.Batch
	for _, b := range g.owned {
		if b.LogEpoch != "" && b.Committed != b.written {
			batch.Buckets = append(batch.Buckets, b.Progress)
		}
	}
	if len(batch.Buckets) == 0 {
		return nil
	}
	if _, err := g.Store.Commit(ctx, &batch); err != nil {
		return err
	}
	g.wrote(&batch)
	return nil
}

func (g *Ingest) wrote(b *event.Batch) {
	for _, p := range b.Buckets {
		g.owned[p.Bucket].written = p.Committed
	}
}

func (g *Ingest) upkeep(ctx context.Context) error {
	return errors.Join(g.Outbox.Settle(ctx), g.Store.Upkeep(ctx))
}

// backoff doubles what is waited.
type backoff struct{ last time.Duration }

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, retryFirst), retryMost)
	return b.last
}

// metrics are what operators watch.
type metrics struct {
	stored, repeated, failures, fenced, lost, unreadable prometheus.Counter
	batch                                                prometheus.Histogram
	lag                                                  prometheus.Gauge
}

func newMetrics() metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "stagedoor_ingest_" + name, Help: help})
	}
	return metrics{
		stored:     counter("stored_total", "Events stored."),
		repeated:   counter("repeated_total", "Records that were stored before, or came too late."),
		failures:   counter("failures_total", "Batches that were not stored and are tried again."),
		fenced:     counter("fenced_total", "Buckets that another node had taken over."),
		lost:       counter("log_lost_total", "Times that the log was found to be another than before."),
		unreadable: counter("unreadable_total", "Records that could not be read."),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stagedoor_ingest_batch_events", Help: "Events per transaction.", Buckets: prometheus.ExponentialBuckets(1, 4, 7),
		}),
		lag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_ingest_commit_seconds", Help: "How long the last transaction took.",
		}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.stored, m.repeated, m.failures, m.fenced, m.lost, m.unreadable, m.batch, m.lag}
}
