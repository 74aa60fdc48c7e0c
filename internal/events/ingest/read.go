package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// chunk is the result of one read of the log.
type chunk struct {
	entries []eventlog.Entry
	// reached is how far each bucket was read, including buckets without entries.
	reached map[int]uint64
	err     error
}

// readAhead is how many chunks are read before they are stored.
const readAhead = 4

// logReader reads the log in its own goroutine.
type logReader struct {
	source eventlog.Reader
	chunks chan chunk
	stop   context.CancelFunc
	done   chan struct{}
}

// chunks returns the reader's channel; nil, which blocks forever, if there is no reader.
func (g *Ingest) chunks() <-chan chunk {
	if g.reader == nil {
		return nil
	}
	return g.reader.chunks
}

// openTimeout bounds how long opening the log may block the loop.
const openTimeout = 5 * time.Second

// reopen opens the reader if it is dirty and the wait after the last failure is over. A failure is only logged, because
// events of the outbox can be stored without the log.
func (g *Ingest) reopen(ctx context.Context) {
	if !g.dirty || g.deps.Now().Before(g.openAfter) {
		return
	}
	err := g.openReader(ctx)
	if err == nil {
		g.openBackoff = backoff{}
		return
	}
	g.openAfter = g.deps.Now().Add(g.openBackoff.next())
	if ctx.Err() == nil {
		g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read the event log", slog.Any(logkey.Error, err))
	}
}

// openReader starts reading the buckets that the node holds, each from its committed position.
func (g *Ingest) openReader(ctx context.Context) error {
	g.closeReader()
	if len(g.owned) == 0 {
		g.dirty = false
		return nil
	}
	source, err := g.readFromPositions(ctx)
	if err != nil {
		return err
	}
	r := &logReader{source: source, chunks: make(chan chunk, readAhead), done: make(chan struct{})}
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	r.stop = stop
	g.reader = r
	go r.readLoop(living)
	return nil
}

// readFromPositions returns a reader of the buckets that the node holds, from their committed positions.
func (g *Ingest) readFromPositions(ctx context.Context) (eventlog.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	slots := slices.Collect(maps.Keys(g.owned))
	states, err := g.deps.Events.States(ctx, slots)
	if err != nil {
		return nil, fmt.Errorf("read the state of the log: %w", err)
	}
	after := make(map[int]uint64, len(slots))
	for slot, b := range g.owned {
		g.compareLog(ctx, b, states[slot])
		after[slot] = b.Committed
	}
	g.dirty = false
	reader, err := g.deps.Events.Read(ctx, after)
	if err != nil {
		g.dirty = true
		return nil, fmt.Errorf("read the log: %w", err)
	}
	// The positions are valid only if the log was not replaced in between.
	again, err := g.deps.Events.States(ctx, slots)
	for slot, state := range states {
		if err != nil || again[slot].Epoch != state.Epoch {
			reader.Close()
			g.dirty = true
			return nil, errors.Join(eventlog.ErrLost, err)
		}
	}
	return reader, nil
}

// compareLog compares the recorded position of a bucket with the log. A log that was lost is read from its beginning:
// listeners publish everything after their watermarks again.
func (g *Ingest) compareLog(ctx context.Context, b *bucket, state eventlog.State) {
	switch {
	case b.LogEpoch == state.Epoch && b.Committed <= state.Last:
		return
	case b.LogEpoch == "":
	default:
		g.metrics.lost.Inc()
		g.deps.Log.LogAttrs(ctx, slog.LevelError, "event log was lost, listeners fill it again", slog.Int(logkey.Bucket, b.Bucket),
			slog.Uint64(logkey.Committed, b.Committed), slog.Uint64(logkey.Last, state.Last))
	}
	if b.LogEpoch != state.Epoch {
		b.Committed = 0
	}
	b.LogEpoch, b.Committed = state.Epoch, min(b.Committed, state.Last)
}

// readLoop sends chunks until ctx ends or a read fails; the failure is its last chunk.
func (r *logReader) readLoop(ctx context.Context) {
	defer close(r.done)
	for {
		entries, err := r.source.Next(ctx)
		c := chunk{entries: entries, err: err}
		if err == nil {
			c.reached = r.source.Reached()
		}
		select {
		case <-ctx.Done():
			return
		case r.chunks <- c:
		}
		if err != nil {
			return
		}
	}
}

// closeReader stops reading. What was read but not stored will be read again.
func (g *Ingest) closeReader() {
	if g.reader == nil {
		return
	}
	g.reader.stop()
	<-g.reader.done
	g.reader.source.Close()
	g.reader = nil
}

// maxBatch is the number of records after which a transaction takes no more chunks.
const maxBatch = 1000

// storeChunks stores a chunk, together with further chunks that are already waiting.
func (g *Ingest) storeChunks(ctx context.Context, first chunk) error {
	w := g.newBatch()
	for c := first; ; {
		if c.err != nil {
			// Store what there is, then open a new reader.
			g.dirty = true
			g.deps.Log.LogAttrs(ctx, slog.LevelWarn, "reading the log ended", slog.Any(logkey.Error, c.err))
			break
		}
		w.addChunk(ctx, c)
		if len(w.records) >= maxBatch {
			break
		}
		select {
		case more := <-g.reader.chunks:
			c = more
			continue
		default:
		}
		break
	}
	if err := w.open(ctx); err != nil {
		return err
	}
	return w.store(ctx)
}

// open opens the content of the batch's records. It drops those of accounts that were deleted while they were in the log,
// and buries those that cannot be opened.
func (w *batch) open(ctx context.Context) error {
	records := make([]*event.Record, len(w.records))
	for i := range w.records {
		records[i] = &w.records[i].Record
	}
	failed, err := w.g.deps.Store.OpenRecords(ctx, records)
	if err != nil {
		return err
	}
	kept := w.records[:0]
	for i, r := range w.records {
		switch {
		case failed[i] == nil:
			r.key = dedupKeyOf(&r.Record)
			kept = append(kept, r)
		case errors.Is(failed[i], seal.ErrShredded):
			w.g.metrics.repeated.Inc()
			if r.letter != 0 {
				w.gone = append(w.gone, r.letter)
			}
		default:
			if err := w.addLetter(ctx, &r, failed[i]); err != nil {
				return err
			}
		}
	}
	w.records = kept
	return nil
}

// addChunk adds the records of a chunk, and how far buckets were read.
func (w *batch) addChunk(ctx context.Context, c chunk) {
	for _, e := range c.entries {
		if w.g.owned[e.Bucket] == nil {
			continue // released in the meantime
		}
		traces, number := e.Traces, -1
		for text := range eventlog.SplitBatch(e.Data) {
			var from *trace.SpanContext
			if number++; len(traces) > 0 && traces[0].Record == number {
				from, traces = traces[0].Context, traces[1:]
			}
			r, err := event.ReadRecord(text)
			if err != nil || event.Bucket(r.Source) != e.Bucket {
				if err == nil {
					err = fmt.Errorf("the record is of bucket %d", event.Bucket(r.Source))
				}
				w.g.deps.Log.LogAttrs(ctx, slog.LevelError, "unreadable record of the event log became a dead letter",
					slog.Int(logkey.Bucket, e.Bucket), slog.Uint64(logkey.Position, e.Seq), slog.Any(logkey.Error, err))
				w.bury = append(w.bury, event.Letter{Bucket: e.Bucket, Reason: err.Error(), Record: text})
				continue
			}
			w.records = append(w.records, pendingRecord{Record: r, from: from})
		}
		w.reached[e.Bucket] = e.Seq
	}
	for slot, seq := range c.reached {
		if b := w.g.owned[slot]; b != nil && seq > b.Committed && seq > w.reached[slot] {
			w.quiet[slot] = seq
		}
	}
}
