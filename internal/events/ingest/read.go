package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// chunk is what was read of the log at once.
type chunk struct {
	entries []eventlog.Entry
	// reached is how far each bucket was read, quiet ones too.
	reached map[int]uint64
	err     error
}

// ahead is how many chunks are read before they are stored.
const ahead = 4

// reading is a reader at work.
type reading struct {
	reader eventlog.Reader
	chunks chan chunk
	stop   context.CancelFunc
	done   chan struct{}
}

// chunks is where the reader's chunks come; nothing while there is none.
func (g *Ingest) chunks() <-chan chunk {
	if g.reading == nil {
		return nil
	}
	return g.reading.chunks
}

// openPatience bounds how long the loop does nothing else than ask for the log.
const openPatience = 5 * time.Second

// reopen opens what is to be read, unless that has failed just now. That the log is away keeps nothing else from being stored.
func (g *Ingest) reopen(ctx context.Context) {
	if !g.dirty || g.Now().Before(g.openAfter) {
		return
	}
	err := g.open(ctx)
	if err == nil {
		g.openTrouble = backoff{}
		return
	}
	g.openAfter = g.Now().Add(g.openTrouble.next())
	if ctx.Err() == nil {
		g.Log.LogAttrs(ctx, slog.LevelWarn, "the log cannot be read", slog.Any("error", err))
	}
}

// open reads the buckets that the node holds, each from where the store has it.
func (g *Ingest) open(ctx context.Context) error {
	g.close()
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	slots := slices.Collect(maps.Keys(g.owned))
	if len(slots) == 0 {
		g.dirty = false
		return nil
	}
	states, err := g.Events.States(ctx, slots)
	if err != nil {
		return fmt.Errorf("ask for the state of the log: %w", err)
	}
	after := make(map[int]uint64, len(slots))
	for slot, b := range g.owned {
		g.settle(ctx, b, states[slot])
		after[slot] = b.Committed
	}
	g.dirty = false
	reader, err := g.Events.Read(ctx, after)
	if err != nil {
		g.dirty = true
		return fmt.Errorf("read the log: %w", err)
	}
	// The positions are good only if the log is still the one that was asked.
	again, err := g.Events.States(ctx, slots)
	for slot, state := range states {
		if err != nil || again[slot].Epoch != state.Epoch {
			reader.Close()
			g.dirty = true
			return errors.Join(eventlog.ErrLost, err)
		}
	}
	reading := &reading{reader: reader, chunks: make(chan chunk, ahead), done: make(chan struct{})}
	living, stop := context.WithCancel(context.WithoutCancel(ctx))
	reading.stop = stop
	g.reading = reading
	go reading.run(living)
	return nil
}

// settle compares what is known of a bucket's log with what is there. A log that was lost is read from its beginning: its listeners fill
// it again from what the store has.
func (g *Ingest) settle(ctx context.Context, b *bucket, state eventlog.State) {
	switch {
	case b.LogEpoch == state.Epoch && b.Committed <= state.Last:
		return
	case b.LogEpoch == "":
	default:
		g.metrics.lost.Inc()
		g.Log.LogAttrs(ctx, slog.LevelError, "the event log was lost; listeners fill it again", slog.Int("bucket", b.Bucket),
			slog.Uint64("committed", b.Committed), slog.Uint64("last", state.Last))
	}
	if b.LogEpoch != state.Epoch {
		b.Committed = 0
	}
	b.LogEpoch, b.Committed = state.Epoch, min(b.Committed, state.Last)
}

func (r *reading) run(ctx context.Context) {
	defer close(r.done)
	for {
		entries, err := r.reader.Next(ctx)
		c := chunk{entries: entries, err: err}
		if err == nil {
			c.reached = r.reader.Reached()
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

// close stops reading. What was read and not stored is read again.
func (g *Ingest) close() {
	if g.reading == nil {
		return
	}
	g.reading.stop()
	<-g.reading.done
	g.reading.reader.Close()
	g.reading = nil
}

// batchMost is how many records go into one transaction.
const batchMost = 1000

// take stores what was read, together with what has been read meanwhile.
func (g *Ingest) take(ctx context.Context, first chunk) error {
	w := g.newBatch()
	for c := first; ; {
		if c.err != nil {
			// Store what there is, and read on from there.
			g.dirty = true
			g.Log.LogAttrs(ctx, slog.LevelWarn, "reading the log ended", slog.Any("error", c.err))
			break
		}
		w.arrive(ctx, c)
		if len(w.arrived) >= batchMost {
			break
		}
		select {
		case more := <-g.reading.chunks:
			c = more
			continue
		default:
		}
		break
	}
	return w.store(ctx)
}

// arrive adds a chunk's records, and how far it has read.
func (w *batch) arrive(ctx context.Context, c chunk) {
	for _, e := range c.entries {
		if w.g.owned[e.Bucket] == nil {
			continue // given up meanwhile
		}
		for text := range eventlog.SplitBatch(e.Data) {
			r, err := event.ReadRecord(text)
			if err != nil || event.Bucket(r.Source) != e.Bucket {
				w.g.metrics.unreadable.Inc()
				w.g.Log.LogAttrs(ctx, slog.LevelError, "record of the event log skipped: it cannot be read",
					slog.Int("bucket", e.Bucket), slog.Uint64("position", e.Seq), slog.Any("error", err))
				continue
			}
			w.arrived = append(w.arrived, arrival{Record: r})
		}
		w.reached[e.Bucket] = e.Seq
	}
	for slot, seq := range c.reached {
		if b := w.g.owned[slot]; b != nil && seq > b.Committed && seq > w.reached[slot] {
			w.quiet[slot] = seq
		}
	}
}
