package ingest

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// pendingRecord is a record that will be stored.
type pendingRecord struct {
	event.Record
	// own is its number in the outbox; 0 for a record of the log.
	own int64
	// letter is the number of the dead letter that it was; 0 for all others.
	letter int64
	// key identifies the frame within its source; empty for a record of the outbox.
	key string
	// from is the context of the trace that the record was written in; nil if it is not traced. span is its storing.
	from *trace.SpanContext
	span trace.Span
}

// batch collects the records of one transaction.
type batch struct {
	g       *Ingest
	records []pendingRecord
	// reached is how far buckets were read whose entries are in this batch. quiet is how far buckets were read without
	// any entry of theirs.
	reached, quiet map[int]uint64
	// bury are records that cannot be stored, taken the numbers of those among them that were in the outbox.
	// gone are dead letters of accounts that were deleted.
	bury        []event.Letter
	taken, gone []int64
	// stored are frames of the batch that are in the store, added those that the batch adds.
	stored, added map[event.FrameKey]bool
}

func (g *Ingest) newBatch() *batch {
	return &batch{g: g, reached: map[int]uint64{}, quiet: map[int]uint64{}, added: map[event.FrameKey]bool{}}
}

// maxOutbox bounds the events of the outbox in one batch.
const maxOutbox = 500

// storeOutbox stores the events of some buckets that wait in the outbox.
func (g *Ingest) storeOutbox(ctx context.Context, slots []int16) error {
	if len(slots) == 0 {
		return nil
	}
	waiting, err := g.deps.Outbox.Waiting(ctx, slots, maxOutbox)
	if err != nil || len(waiting) == 0 {
		return err
	}
	w := g.newBatch()
	for i := range waiting {
		o := &waiting[i]
		w.records = append(w.records, pendingRecord{own: o.Seq, Record: event.Record{
			Org: o.Org, Source: o.Source(), Kind: o.Kind, OfUserID: o.OfUserID, ReferenceID: o.ReferenceID, Data: o.Data,
		}, from: tracing.Parse(ctx, o.Traceparent)})
	}
	return w.store(ctx)
}

// store commits the batch and publishes its events. If the database refuses the data of a record, it finds the record by
// storing the halves of the batch separately, and buries it.
func (w *batch) store(ctx context.Context) error {
	before := w.g.positions()
	err := w.storeWhole(ctx)
	if !postgres.RefusesData(err) {
		return err
	}
	// Nothing was committed. Undo what the batch has changed in memory.
	clear(w.g.heads)
	for _, p := range before {
		w.g.owned[p.Bucket].Progress = p
	}
	if len(w.records) <= 1 {
		for i := range w.records {
			if err := w.addLetter(ctx, &w.records[i], err); err != nil {
				return err
			}
		}
		w.records = nil
		return w.storeWhole(ctx)
	}
	// The positions are written with the second half. If that fails, the records of the first are read again and
	// recognised as repeats.
	middle := len(w.records) / 2
	first := w.g.newBatch()
	first.records = w.records[:middle]
	if err := first.store(ctx); err != nil {
		return err
	}
	w.records = w.records[middle:]
	clear(w.added)
	return w.store(ctx)
}

// addLetter makes the batch bury a record, sealed as it is in the log.
func (w *batch) addLetter(ctx context.Context, r *pendingRecord, why error) error {
	record, err := w.g.deps.Store.SealRecord(ctx, nil, &r.Record)
	if err != nil && !errors.Is(err, seal.ErrShredded) {
		return err
	}
	w.g.deps.Log.LogAttrs(ctx, slog.LevelError, "event cannot be stored, it becomes a dead letter",
		slog.String(logkey.Account, r.Source), slog.String(logkey.Kind, r.Kind), slog.Any(logkey.Error, why))
	w.bury = append(w.bury, event.Letter{
		ID: r.letter, Bucket: event.Bucket(r.Source), Org: r.Org, Source: r.Source, Kind: r.Kind, Reason: why.Error(), Record: record,
	})
	if r.own != 0 {
		w.taken = append(w.taken, r.own)
	}
	return nil
}

// storeWhole commits the batch in one transaction, in the traces of its records.
func (w *batch) storeWhole(ctx context.Context) error {
	ctx = w.startSpans(ctx)
	err := w.commit(ctx)
	w.endSpans(err)
	return err
}

func (w *batch) commit(ctx context.Context) error {
	fresh, err := w.g.load(ctx, w)
	if err == nil && len(fresh) > 0 {
		// The first event of an account must be account.connected, even if the platform sent frames before it was
		// stored. It is in the outbox, so store that first, and load the heads again.
		if err = w.g.storeOutbox(ctx, fresh); err == nil {
			_, err = w.g.load(ctx, w)
		}
	}
	if err == nil {
		err = w.g.findStored(ctx, w)
	}
	if err != nil {
		return err
	}
	began := w.g.deps.Now()
	now, err := w.g.deps.Store.Time(ctx)
	if err != nil {
		return err
	}
	b, err := w.build(ctx, w.eventTime(now))
	if err != nil {
		return err
	}
	if len(b.Buckets) > 0 || b.Also != nil || len(b.Events) > 0 || len(b.Bury) > 0 || len(b.Letters) > 0 {
		tx, err := w.g.deps.Store.Commit(ctx, b)
		if errors.Is(err, postgres.ErrOutcomeUnknown) {
			w.g.uncertain = b
		}
		if err != nil {
			return err
		}
		w.g.markWritten(b)
		w.g.metrics.buried.Add(float64(len(b.Bury)))
		for i := range b.Events {
			b.Events[i].Tx = tx
		}
	}
	for slot, seq := range w.quiet {
		w.g.owned[slot].Committed = seq // written with the bucket's next batch or by advanceQuiet
	}
	w.g.metrics.commit.Set(w.g.deps.Now().Sub(began).Seconds())
	w.g.publishBatch(ctx, b)
	return nil
}

// eventTime returns the time of the batch's events: now, but later than every event in their buckets.
func (w *batch) eventTime(now time.Time) time.Time {
	at := now.UTC().Truncate(time.Microsecond)
	for i := range w.records {
		if b := w.g.owned[event.Bucket(w.records[i].Source)]; b != nil && !at.After(b.LastAt) {
			at = b.LastAt.Add(time.Microsecond)
		}
	}
	return at
}

// build gives every new record its sequence number and its final bytes. It changes the heads of the loop: if the
// batch is not committed, resync drops them all.
func (w *batch) build(ctx context.Context, at time.Time) (*event.Batch, error) {
	var (
		b       event.Batch
		owned   = slices.Clone(w.taken)
		touched = map[string]*head{}
		bodies  = make([]byte, 0, w.envelopeBytes())
	)
	b.Events, b.Letters = make([]event.NewEvent, 0, len(w.records)), slices.Clone(w.gone)
	for i := range w.records {
		r := &w.records[i]
		if r.own != 0 {
			owned = append(owned, r.own)
		}
		if r.letter != 0 {
			b.Letters = append(b.Letters, r.letter)
		}
		h := w.g.heads[r.Source]
		if h.isLate(r) || w.isStray(r, h.bucket) || w.isRepeat(r) {
			w.g.metrics.repeated.Inc()
			continue
		}
		of, err := w.g.readOrg(ctx, r.Org)
		if err != nil {
			return nil, err
		}
		if of.gone {
			w.g.metrics.repeated.Inc()
			continue
		}
		h.advance(r, at)
		if r.key != "" {
			w.added[event.FrameKey{Source: r.Source, DedupKey: r.key}] = true
		}
		touched[r.Source] = h
		e := event.NewEvent{DedupKey: r.key, Sandbox: of.sandbox, UpstreamAt: r.UpstreamAt, Stored: event.Stored{Org: r.Org, Source: r.Source, Seq: h.LastSeq, At: at,
			ID: id.New[id.Event](), Kind: r.Kind}}
		e.Trace = r.stored(e.ID)
		start := len(bodies)
		bodies = event.AppendEnvelope(bodies, envelope(&e.Stored, r, of.sandbox, h.Purged))
		e.Body = bodies[start:len(bodies):len(bodies)]
		b.Events = append(b.Events, e)
	}
	for _, h := range touched {
		b.Heads = append(b.Heads, h.HeadRow)
		w.g.owned[h.bucket].LastAt = at
	}
	b.Bury = w.bury
	w.addProgress(&b, touched)
	if len(owned) > 0 {
		b.Also = func(ctx context.Context, tx postgres.Tx) error { return w.g.deps.Outbox.Take(ctx, tx, owned) }
	}
	return &b, nil
}

// envelopeBytes estimates the size of the batch's envelopes, so that one allocation holds them all.
func (w *batch) envelopeBytes() (n int) {
	for i := range w.records {
		n += min(len(w.records[i].Data), event.MaxData) + event.AroundData
	}
	return n
}

// isStray reports whether a record was published by a listener that had not yet noticed that the log was lost, or that
// the database went back to an earlier state. Records before it may have been lost with the old log, or trimmed because
// they were stored before. So storing it would create a gap. The listener fetches all of them again.
func (w *batch) isStray(r *pendingRecord, slot int) bool {
	if r.Watermark == "" {
		return false // it cannot be fetched again
	}
	b := w.g.owned[slot]
	return r.LogEpoch != "" && !strings.Contains(r.LogEpoch, b.LogEpoch) || lease.Generation(r.Epoch) < lease.Generation(b.Epoch)
}

// addProgress adds the buckets that the batch touches, including those that only have events of the outbox, so that the
// commit is fenced for all of them.
func (w *batch) addProgress(b *event.Batch, touched map[string]*head) {
	slots := map[int]bool{}
	for slot, seq := range w.reached {
		w.g.owned[slot].Committed = max(seq, w.quiet[slot])
		slots[slot] = true
	}
	for _, h := range touched {
		slots[h.bucket] = true
	}
	for _, l := range w.bury {
		slots[l.Bucket] = slots[l.Bucket] || l.ID == 0 // a requeued one may be unreadable, and then its bucket is unknown
	}
	for slot, ours := range slots {
		if ours {
			b.Buckets = append(b.Buckets, w.g.owned[slot].Progress)
		}
	}
}

// advance moves the head past a record.
func (h *head) advance(r *pendingRecord, at time.Time) {
	h.LastSeq++
	h.LastAt = at
	h.Epoch = max(h.Epoch, r.Epoch)
	if r.Watermark != "" && r.Watermark != event.SameWatermark {
		h.Watermark, h.Known = r.Watermark, true
	}
	if r.key != "" {
		h.keys.add(recentKey{hashKey(r.key), r.UpstreamAt})
	}
	if r.UpstreamAt.After(h.NewestFrameAt) {
		h.NewestFrameAt = r.UpstreamAt
	}
	h.Closed = r.Kind == contract.KindAccountDisconnected
}

// envelope returns the complete event. Events of a purged account have no data, except for account.disconnected.
func envelope(s *event.Stored, r *pendingRecord, sandbox, purged bool) *event.Envelope {
	account := s.Source
	if !strings.HasPrefix(account, "acct_") {
		account = ""
	}
	if purged && s.Kind != contract.KindAccountDisconnected {
		return &event.Envelope{ID: s.ID, Kind: s.Kind, Account: account, At: s.At, Seq: s.Seq, Meta: event.Meta{Sandbox: sandbox, Purged: true}}
	}
	return &event.Envelope{
		ID: s.ID, Kind: s.Kind, Account: account, At: s.At, Seq: s.Seq, Data: r.Data,
		Meta: event.Meta{OfUserID: r.OfUserID, ReferenceID: r.ReferenceID, Sandbox: sandbox, UpstreamAt: r.UpstreamAt},
	}
}

// owner is what Ingest must know of an org.
type owner struct {
	// sandbox means that its accounts are test accounts.
	sandbox bool
	// gone means that nothing of the org is kept: it was destroyed, or its rows are being deleted.
	gone   bool
	readAt time.Time
}

// ownersFor is how long what was read of orgs is used. It is less than the time in which the rows of an org are deleted
// (erasure.Config.Settle), so that no row is written after the last is deleted.
const ownersFor = time.Minute

func (g *Ingest) readOrg(ctx context.Context, org id.Org) (owner, error) {
	now := g.deps.Now()
	if of, known := g.owners[org]; known && now.Sub(of.readAt) < ownersFor {
		return of, nil
	}
	of := owner{readAt: now}
	o, err := g.deps.Orgs.Get(ctx, org)
	switch {
	case errors.Is(err, problem.OrgNotFound.New("")):
		of.gone = true
	case err != nil:
		return owner{}, err
	default:
		of.sandbox, of.gone = o.Environment.IsTest(), o.Deletion != nil && o.Deletion.StartedAt != nil
	}
	g.owners[org] = of
	return of, nil
}

// maxLiveMessage bounds a live message, in bytes. NATS accepts a megabyte.
const maxLiveMessage = 512 << 10

// publishBatch passes committed events on: to streams on all nodes, and to webhooks on this one.
func (g *Ingest) publishBatch(ctx context.Context, b *event.Batch) {
	if len(b.Events) == 0 {
		return
	}
	now := g.deps.Now()
	list := make([]event.Stored, len(b.Events))
	messages := map[string]*liveMessage{}
	received := map[id.Org]int64{}
	for i := range b.Events {
		s := &b.Events[i].Stored
		list[i] = *s
		received[s.Org]++
		if at := b.Events[i].UpstreamAt; !at.IsZero() {
			tracing.ObserveIn(s.Trace, g.metrics.delay, max(0, now.Sub(at).Seconds()))
		}
		m := messages[s.Source]
		if m != nil && len(m.payload)+len(s.Body) > maxLiveMessage {
			g.publishLive(ctx, s, m)
			m = nil
		}
		if m == nil {
			m = &liveMessage{}
			messages[s.Source] = m
		}
		m.add(s)
	}
	for i := range list {
		if m := messages[list[i].Source]; m != nil {
			g.publishLive(ctx, &list[i], m)
			delete(messages, list[i].Source)
		}
	}
	for org, n := range received {
		g.deps.Meter.Received(org, n)
	}
	g.metrics.stored.Add(float64(len(list)))
	g.metrics.batch.Observe(float64(len(list)))
	g.deps.Committed(list)
}

// liveMessage is a live message in the making, with the traces of its events.
type liveMessage struct {
	payload []byte
	traces  []*trace.SpanContext
	traced  bool
}

func (m *liveMessage) add(s *event.Stored) {
	m.payload = event.AppendLive(m.payload, s)
	m.traces = append(m.traces, s.Trace)
	m.traced = m.traced || s.Trace != nil
}

func (g *Ingest) publishLive(ctx context.Context, s *event.Stored, m *liveMessage) {
	var parents []string
	if m.traced {
		for _, of := range m.traces {
			parents = append(parents, tracing.Format(ctx, of))
		}
	}
	// Best effort: streams that miss it read the store.
	_ = g.deps.Bus.PublishTraced(event.LiveSubject(s.Org, s.Source), m.payload, parents)
}
