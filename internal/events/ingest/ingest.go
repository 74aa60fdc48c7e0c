// Package ingest moves records from the event log into the store: it gives each its sequence number and its final
// bytes, and publishes the events after the commit. It does not talk to platforms (package listen) and does not
// deliver events (group delivery).
//
// A bucket has one writer at a time, by lease: Hold starts with a claim in the store that fences off older leases. One
// loop (Run) serves all buckets of a node, because one transaction for many costs as much as one for a few. The events
// and the position in the log are committed in one transaction, so an event is stored exactly once however often it is
// read. Repeats by the platform or by listeners are recognised by their dedup keys, as far back as events are kept
// (head.go). Events of the service itself come from the outbox, and the same transaction removes them there. Start with
// Run; read.go reads the log, batch.go builds a transaction.
package ingest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// store holds the events; implemented by *event.Store.
type store interface {
	storeReader
	Claim(ctx context.Context, bucket int, epoch int64) (event.Progress, error)
	Commit(ctx context.Context, b *event.Batch) (stored int64, err error)
	Upkeep(ctx context.Context) error
	recordSealer
}

// recordSealer seals and opens the content of records.
type recordSealer interface {
	SealRecord(ctx context.Context, to []byte, r *event.Record) ([]byte, error)
	OpenRecords(ctx context.Context, records []*event.Record) (failed []error, err error)
}

type storeReader interface {
	Time(ctx context.Context) (time.Time, error)
	AllProgress(ctx context.Context) ([]event.Progress, error)
	Load(ctx context.Context, sources []string) ([]event.Recent, error)
	StoredKeys(ctx context.Context, keys []event.FrameKey, at []time.Time) (map[event.FrameKey]bool, error)
	After(ctx context.Context, org id.Org, source string, seq int64, since time.Time, limit int) ([]event.Stored, error)
	Requeued(ctx context.Context, buckets []int16, limit int) ([]event.Letter, error)
}

// ownEvents holds the events of the service until they are stored; implemented by *outbox.Outbox.
type ownEvents interface {
	Waiting(ctx context.Context, buckets []int16, limit int) ([]outbox.Stored, error)
	Take(ctx context.Context, tx postgres.Tx, seqs []int64) error
	Settle(ctx context.Context) error
}

// publisher publishes live messages; implemented by *pubsub.Bus.
type publisher interface {
	PublishTraced(subject string, payload []byte, parents []string) error
}

// meter counts events for usage; implemented by *usage.Usage.
type meter interface {
	Received(org id.Org, events int64)
}

// orgs reads orgs; implemented by *org.Orgs.
type orgs interface {
	Get(ctx context.Context, org id.Org) (org.Org, error)
}

// Deps holds the dependencies of Ingest.
type Deps struct {
	Store  store
	Events eventlog.Log
	Outbox ownEvents
	Bus    publisher
	Meter  meter
	Orgs   orgs
	// Committed receives all events that this node has stored, in order per source. It must not block.
	Committed func(list []event.Stored)
	// Tracer continues the traces of events; nil if nothing is traced.
	Tracer trace.Tracer
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Ingest writes the buckets that this node holds.
type Ingest struct {
	deps Deps
	// changes carries acquired and released buckets from Hold to the loop.
	changes chan bucketChange
	metrics metrics
	// trims is true while this node holds trimmingBucket.
	trims atomic.Bool

	// Only the loop uses the fields below.

	owned map[int]*bucket
	heads map[string]*head
	// ringSize is how many dedup keys a head remembers.
	ringSize int
	owners   map[id.Org]owner
	// reader reads the log; nil if no bucket is held or the log is unavailable.
	reader *logReader
	// dirty means that the set of buckets has changed, so the reader must be opened again.
	dirty bool
	// mustResync means that a batch failed, and the state of the store is unknown until all buckets have been claimed
	// again. uncertain is a failed batch that may have been committed.
	mustResync bool
	uncertain  *event.Batch
	// openAfter is the earliest time of the next try to open the reader.
	openAfter   time.Time
	openBackoff backoff
}

// bucket is a bucket that this node holds. Progress is how far it has been read and processed.
type bucket struct {
	event.Progress
	// written is the position that is in the store.
	written uint64
}

// bucketChange adds the bucket take, or, if that is nil, removes the bucket drop. The loop closes done when it is
// applied.
type bucketChange struct {
	take *event.Progress
	drop int
	done chan struct{}
}

// New returns an Ingest that holds no buckets.
func New(d Deps) *Ingest {
	return &Ingest{
		deps: d, changes: make(chan bucketChange), metrics: newMetrics(d.Registry),
		owned: map[int]*bucket{}, heads: map[string]*head{}, ringSize: event.MaxDedupKeys, owners: map[id.Org]owner{},
	}
}

// claimRetry is the time between two tries to claim a bucket.
const claimRetry = 200 * time.Millisecond

// Hold writes a bucket until ctx ends, and returns when its last batch is done. It returns early if a newer lease has
// claimed the bucket. It calls claimed when it has claimed the bucket itself, before it writes anything. Run must be
// running.
func (g *Ingest) Hold(ctx context.Context, slot int, epoch int64, claimed func()) {
	p, ok := g.claim(ctx, slot, epoch)
	if !ok {
		return
	}
	claimed()
	take := bucketChange{take: &p, done: make(chan struct{})}
	select {
	case g.changes <- take:
		<-take.done
	case <-ctx.Done():
		return
	}
	<-ctx.Done()
	drop := bucketChange{drop: slot, done: make(chan struct{})}
	g.changes <- drop // does not block forever: Run outlives every Hold
	<-drop.done
}

func (g *Ingest) claim(ctx context.Context, slot int, epoch int64) (event.Progress, bool) {
	for {
		p, err := g.deps.Store.Claim(ctx, slot, epoch)
		switch {
		case err == nil:
			return p, true
		case errors.Is(err, event.ErrFenced), ctx.Err() != nil:
			return p, false
		}
		g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot claim bucket", slog.Int(logkey.Bucket, slot), slog.Any(logkey.Error, err))
		if !clock.Pause(ctx, claimRetry) {
			return p, false
		}
	}
}

// Intervals of the loop.
const (
	// outboxEvery is how often the outbox is read, and so the longest time that an event of the service waits.
	outboxEvery = 100 * time.Millisecond
	// quietEvery is how often the position of buckets without events is written, so that the next holder does not have
	// to read old entries of other buckets. Requeued dead letters are stored at the same time.
	quietEvery = time.Second
	// upkeepEvery is how often the outbox and the partitions of the store are maintained.
	upkeepEvery = 30 * time.Second
	// retryFirst and retryMax bound the wait after a failure.
	retryFirst = 50 * time.Millisecond
	retryMax   = 2 * time.Second
)

// Run is the loop that writes all buckets. It returns nil when ctx ends. End ctx only after all calls of Hold have
// returned.
func (g *Ingest) Run(ctx context.Context) error {
	poll, quiet, settle := time.NewTicker(outboxEvery), time.NewTicker(quietEvery), time.NewTicker(upkeepEvery)
	defer poll.Stop()
	defer quiet.Stop()
	defer settle.Stop()
	defer g.closeReader()
	var trimming sync.WaitGroup
	defer trimming.Wait()
	trimming.Go(func() { g.trimLoop(ctx) })
	var trouble backoff
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case o := <-g.changes:
			g.apply(o)
			continue
		case got := <-g.chunks():
			err = g.storeChunks(ctx, got)
		case <-poll.C:
			err = g.pollOnce(ctx)
		case <-quiet.C:
			if err = g.advanceQuiet(ctx); err == nil {
				err = g.storeRequeued(ctx)
			}
		case <-settle.C:
			err = g.upkeep(ctx)
		}
		if err == nil {
			trouble = backoff{}
			continue
		}
		g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot store events", slog.Any(logkey.Error, err))
		g.metrics.failures.Inc()
		for g.mustResync = true; g.mustResync && ctx.Err() == nil; {
			g.wait(ctx, trouble.next())
			g.resync(ctx)
		}
	}
}

// pollOnce opens the reader if necessary and stores the events that wait in the outbox.
func (g *Ingest) pollOnce(ctx context.Context) error {
	g.reopen(ctx)
	return g.storeOutbox(ctx, g.slots())
}

// apply adds or removes a bucket. It runs between batches, so a removed bucket has no batch in progress.
func (g *Ingest) apply(o bucketChange) {
	defer close(o.done)
	g.dirty = true
	if o.take != nil {
		// If the node had this bucket before, the reader has passed entries that it dropped in the meantime.
		g.closeReader()
		g.owned[o.take.Bucket] = &bucket{*o.take, o.take.Committed}
		g.trims.Store(g.owned[trimmingBucket] != nil)
		return
	}
	g.dropBucket(o.drop)
}

func (g *Ingest) dropBucket(slot int) {
	delete(g.owned, slot)
	g.trims.Store(g.owned[trimmingBucket] != nil)
	for source, h := range g.heads {
		if h.bucket == slot {
			delete(g.heads, source)
		}
	}
}

// wait pauses for d, but still applies changes, because a bucket must be given up immediately.
func (g *Ingest) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case o := <-g.changes:
			g.apply(o)
		}
	}
}

// resync reads the state of the store after a failure: the batch may have been committed, or another node may have
// claimed a bucket. It leaves mustResync set if the store cannot be read.
func (g *Ingest) resync(ctx context.Context) {
	g.closeReader()
	clear(g.heads)
	g.dirty = true
	for _, slot := range slices.Sorted(maps.Keys(g.owned)) { // in a fixed order, so that tests can be repeated
		b := g.owned[slot]
		p, err := g.deps.Store.Claim(ctx, slot, b.Epoch)
		switch {
		case errors.Is(err, event.ErrFenced):
			g.metrics.fenced.Inc()
			g.dropBucket(slot)
		case err == nil:
			b.Progress, b.written = p, p.Committed
		default:
			return
		}
	}
	if g.uncertain != nil {
		committed, err := g.wasCommitted(ctx, g.uncertain)
		if err != nil {
			return
		}
		if committed {
			g.publishBatch(ctx, g.uncertain)
		}
		g.uncertain = nil
	}
	g.mustResync = false
}

// wasCommitted reports whether a batch is in the store, by looking for its first event, and sets Tx of its events.
func (g *Ingest) wasCommitted(ctx context.Context, b *event.Batch) (bool, error) {
	if len(b.Events) == 0 {
		return false, nil
	}
	e := &b.Events[0]
	found, err := g.deps.Store.After(ctx, e.Org, e.Source, e.Seq-1, e.At.Add(-time.Second), 1)
	if err != nil || len(found) == 0 || found[0].ID != e.ID {
		return false, err
	}
	for i := range b.Events {
		b.Events[i].Tx = found[0].Tx
	}
	return true, nil
}

// advanceQuiet writes the position of buckets that have been read further without new events.
func (g *Ingest) advanceQuiet(ctx context.Context) error {
	var batch event.Batch
	for _, b := range g.owned {
		if b.LogEpoch != "" && b.Committed != b.written {
			batch.Buckets = append(batch.Buckets, b.Progress)
		}
	}
	if len(batch.Buckets) == 0 {
		return nil
	}
	if _, err := g.deps.Store.Commit(ctx, &batch); err != nil {
		return err
	}
	g.markWritten(&batch)
	return nil
}

func (g *Ingest) markWritten(b *event.Batch) {
	for _, p := range b.Buckets {
		g.owned[p.Bucket].written = p.Committed
	}
}

func (g *Ingest) upkeep(ctx context.Context) error {
	now := g.deps.Now()
	maps.DeleteFunc(g.owners, func(_ id.Org, of owner) bool { return now.Sub(of.readAt) >= ownersFor })
	return errors.Join(g.deps.Outbox.Settle(ctx), g.deps.Store.Upkeep(ctx))
}

// maxRequeued bounds the dead letters in one batch.
const maxRequeued = 100

// storeRequeued stores dead letters that an operator has requeued. Their frames are old, so they do not move watermarks.
func (g *Ingest) storeRequeued(ctx context.Context) error {
	if len(g.owned) == 0 {
		return nil
	}
	letters, err := g.deps.Store.Requeued(ctx, g.slots(), maxRequeued)
	if err != nil || len(letters) == 0 {
		return err
	}
	w := g.newBatch()
	for _, l := range letters {
		r, err := event.ReadRecord(l.Record)
		if err != nil {
			w.bury = append(w.bury, event.Letter{ID: l.ID, Reason: err.Error()})
			continue
		}
		r.Watermark, r.LogEpoch = "", ""
		w.records = append(w.records, pendingRecord{Record: r, letter: l.ID})
	}
	if err := w.open(ctx); err != nil {
		return err
	}
	return w.store(ctx)
}

// positions returns the progress of the buckets that this node holds, as it is in memory.
func (g *Ingest) positions() []event.Progress {
	list := make([]event.Progress, 0, len(g.owned))
	for _, b := range g.owned {
		list = append(list, b.Progress)
	}
	return list
}

// slots returns the buckets that this node holds.
func (g *Ingest) slots() []int16 {
	slots := make([]int16, 0, len(g.owned))
	for slot := range g.owned {
		slots = append(slots, int16(slot))
	}
	return slots
}

// backoff doubles the wait with every call of next.
type backoff struct{ last time.Duration }

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, retryFirst), retryMax)
	return b.last
}

type metrics struct {
	stored, repeated, failures, fenced, lost, buried prometheus.Counter
	batch, delay                                     prometheus.Histogram
	commit, lag, used                                prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) metrics {
	register := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts{Name: "stagedoor_ingest_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return register.NewGauge(prometheus.GaugeOpts{Name: "stagedoor_" + name, Help: help})
	}
	return metrics{
		stored:   counter("stored_total", "Events stored."),
		repeated: counter("repeated_total", "Records that were already stored, came from an old lease, or whose organisation no longer exists."),
		failures: counter("failures_total", "Batches that could not be stored and are retried."),
		fenced:   counter("fenced_total", "Buckets that another node had claimed."),
		lost:     counter("log_lost_total", "Times that the log was found to have been replaced."),
		buried:   counter("dead_letters_total", "Records that could not be stored and became dead letters."),
		batch: register.NewHistogram(prometheus.HistogramOpts{
			Name: "stagedoor_ingest_batch_events", Help: "Events per transaction.", Buckets: prometheus.ExponentialBuckets(1, 4, 7),
		}),
		delay: register.NewHistogram(prometheus.HistogramOpts{
			Name:    "stagedoor_event_store_seconds",
			Help:    "Time from an event at the platform, by the platform's clock, until it was stored. Events without a time are not counted.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 1800},
		}),
		commit: gauge("ingest_commit_seconds", "How long the last transaction took."),
		lag:    gauge("ingest_lag_seconds", "How far the store lags behind the event log, measured by one of the nodes; 0 on the others."),
		used:   gauge("eventlog_used_ratio", "Share of the event log's maximum size that is used, measured by the same node."),
	}
}
