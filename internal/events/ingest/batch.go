package ingest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// arrival is a record on its way into the store.
type arrival struct {
	event.Record
	// own is its number in the outbox; 0 for one of the log.
	own int64
}

// batch is what goes into one transaction.
type batch struct {
	g       *Ingest
	arrived []arrival
	// reached is how far buckets were read, by entries in this batch; quiet by others.
	reached, quiet map[int]uint64
}

func (g *Ingest) newBatch() *batch {
	return &batch{g: g, reached: map[int]uint64{}, quiet: map[int]uint64{}}
}

// ownMost is how many events of our own are taken at once.
const ownMost = 500

// takeOwn stores what waits in the outbox for buckets.
func (g *Ingest) takeOwn(ctx context.Context, slots []int16) error {
	if len(slots) == 0 {
		return nil
	}
	waiting, err := g.Outbox.Waiting(ctx, slots, ownMost)
	if err != nil || len(waiting) == 0 {
		return err
	}
	w := g.newBatch()
	for i := range waiting {
		o := &waiting[i]
		w.arrived = append(w.arrived, arrival{own: o.Seq, Record: event.Record{
			Org: o.Org, Source: o.Source(), Kind: o.Kind, OfUserID: o.OfUserID, ReferenceID: o.ReferenceID, Data: o.Data,
		}})
	}
	return w.store(ctx)
}

// store commits the batch and tells of it.
func (w *batch) store(ctx context.Context) error {
	begun, err := w.g.load(ctx, w)
	if err == nil && len(begun) > 0 {
		// The first event of an account is that it was connected, whatever the platform has sent meanwhile.
		if err = w.g.takeOwn(ctx, begun); err == nil {
			_, err = w.g.load(ctx, w)
		}
	}
	if err != nil {
		return err
	}
	began := w.g.Now()
	now, err := w.g.Store.Time(ctx)
	if err != nil {
		return err
	}
	b, err := w.make(ctx, w.at(now))
	if err != nil {
		return err
	}
	if len(b.Buckets) > 0 || b.Also != nil || len(b.Events) > 0 {
		tx, err := w.g.Store.Commit(ctx, b)
		if errors.Is(err, postgres.ErrOutcomeUnknown) {
			w.g.doubt = b
		}
		if err != nil {
			return err
		}
		w.g.wrote(b)
		for i := range b.Events {
			b.Events[i].Tx = tx
		}
	}
	for slot, seq := range w.quiet {
		w.g.owned[slot].Committed = seq // written down with the next of the bucket, or when all are moved on
	}
	w.g.metrics.lag.Set(w.g.Now().Sub(began).Seconds())
	w.g.tell(b)
	return nil
}

// at is the time of the batch's events: now, and later than everything in their buckets.
func (w *batch) at(now time.Time) time.Time {
	at := now.UTC().Truncate(time.Microsecond)
	for i := range w.arrived {
		if b := w.g.owned[event.Bucket(w.arrived[i].Source)]; b != nil && !at.After(b.LastAt) {
			at = b.LastAt.Add(time.Microsecond)
		}
	}
	return at
}

// make gives every record that is new its place and its final form. The heads of the loop move with it: if it is not committed, they are
// all forgotten (recover).
func (w *batch) make(ctx context.Context, at time.Time) (*event.Batch, error) {
	var (
		b       event.Batch
		owned   []int64
		touched = map[string]*head{}
		bodies  = make([]byte, 0, w.room())
	)
	b.Events = make([]event.NewEvent, 0, len(w.arrived))
	for i := range w.arrived {
		r := &w.arrived[i]
		if r.own != 0 {
			owned = append(owned, r.own)
		}
		h, mark := w.g.heads[r.Source], ""
		if r.own == 0 {
			mark = markOf(&r.Record)
		}
		if h.late(r, mark) || w.stray(r, h.bucket) {
			w.g.metrics.repeated.Inc()
			continue
		}
		sandbox, err := w.g.isSandbox(ctx, r.Org)
		if err != nil && errors.Is(err, problem.OrgNotFound.New("")) {
			w.g.metrics.unreadable.Inc() // of a database that is no more; it must not stand in the way of others
			continue
		}
		if err != nil {
			return nil, err
		}
		h.advance(r, mark, at)
		touched[r.Source] = h
		e := event.NewEvent{Mark: mark, Stored: event.Stored{Org: r.Org, Source: r.Source, Seq: h.LastSeq, At: at, ID: id.New[id.Event](), Kind: r.Kind}}
		start := len(bodies)
		bodies = event.AppendEnvelope(bodies, envelope(&e.Stored, r, sandbox, h.Purged))
		e.Body = bodies[start:len(bodies):len(bodies)]
		b.Events = append(b.Events, e)
	}
	for _, h := range touched {
		b.Heads = append(b.Heads, h.HeadRow)
		w.g.owned[h.bucket].LastAt = at
	}
	w.progress(&b, touched)
	if len(owned) > 0 {
		b.Also = func(ctx context.Context, tx postgres.Tx) error { return w.g.Outbox.Take(ctx, tx, owned) }
	}
	return &b, nil
}

// room is about as much as the envelopes need.
func (w *batch) room() (n int) {
	for i := range w.arrived {
		n += min(len(w.arrived[i].Data), event.MaxData) + event.AroundData
	}
	return n
}

// stray says whether a record was published by a listener that does not know yet that the log was lost. What came before it may be gone
// with that log; the listener fetches all of it again.
func (w *batch) stray(r *arrival, slot int) bool {
	return r.Watermark != "" && r.LogEpoch != "" && !strings.Contains(r.LogEpoch, w.g.owned[slot].LogEpoch)
}

// progress adds the buckets that the batch touches. Those of our own events are fenced by it as well.
func (w *batch) progress(b *event.Batch, touched map[string]*head) {
	slots := map[int]bool{}
	for slot, seq := range w.reached {
		w.g.owned[slot].Committed = max(seq, w.quiet[slot])
		slots[slot] = true
	}
	for _, h := range touched {
		slots[h.bucket] = true
	}
	for slot := range slots {
		b.Buckets = append(b.Buckets, w.g.owned[slot].Progress)
	}
}

// advance moves the head behind a record.
func (h *head) advance(r *arrival, mark string, at time.Time) {
	h.LastSeq++
	h.LastAt = at
	h.Epoch = max(h.Epoch, r.Epoch)
	if r.Watermark != "" {
		h.Watermark, h.Known = r.Watermark, true
	}
	if mark != "" {
		h.marks.add(hashMark(mark))
	}
	h.Closed = r.Kind == event.KindDisconnected
}

// envelope is an event in full. Of a deleted account's events only the last one, that it was deleted, says more than that it happened.
func envelope(s *event.Stored, r *arrival, sandbox, purged bool) *event.Envelope {
	account := s.Source
	if !strings.HasPrefix(account, "acct_") {
		account = ""
	}
	if purged && s.Kind != event.KindDisconnected {
		return &event.Envelope{ID: s.ID, Kind: s.Kind, Account: account, At: s.At, Seq: s.Seq, Meta: event.Meta{Sandbox: sandbox, Purged: true}}
	}
	return &event.Envelope{
		ID: s.ID, Kind: s.Kind, Account: account, At: s.At, Seq: s.Seq, Data: r.Data,
		Meta: event.Meta{OfUserID: r.OfUserID, ReferenceID: r.ReferenceID, Sandbox: sandbox, UpstreamAt: r.UpstreamAt},
	}
}

func (g *Ingest) isSandbox(ctx context.Context, org id.Org) (bool, error) {
	if is, known := g.sandbox[org]; known {
		return is, nil
	}
	is, err := g.Sandbox(ctx, org)
	if err == nil {
		g.sandbox[org] = is
	}
	return is, err
}

// liveMost bounds one live message, in bytes; NATS takes a megabyte.
const liveMost = 512 << 10

// tell hands on what was committed: to streams on any node, and to webhooks on this one.
func (g *Ingest) tell(b *event.Batch) {
	if len(b.Events) == 0 {
		return
	}
	list := make([]event.Stored, len(b.Events))
	messages := map[string][]byte{}
	received := map[id.Org]int64{}
	for i := range b.Events {
		s := &b.Events[i].Stored
		list[i] = *s
		received[s.Org]++
		m := messages[s.Source]
		if len(m) > 0 && len(m)+len(s.Body) > liveMost {
			g.publish(s, m)
			m = nil
		}
		messages[s.Source] = event.AppendLive(m, s)
	}
	for i := range list {
		if m := messages[list[i].Source]; m != nil {
			g.publish(&list[i], m)
			delete(messages, list[i].Source)
		}
	}
	for org, n := range received {
		g.Meter.Received(org, n)
	}
	g.metrics.stored.Add(float64(len(list)))
	g.metrics.batch.Observe(float64(len(list)))
	g.Committed(list)
}

func (g *Ingest) publish(s *event.Stored, message []byte) {
	// Streams that miss it read the store.
	_ = g.Bus.Poke(event.LiveSubject(s.Org, s.Source), message)
}
