package webhook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// flushAtMost bounds how long a database that hangs is waited for.
const flushAtMost = 5 * time.Second

func (w *Webhooks) flushLoop(ctx context.Context) {
	every(ctx, w.Config.FlushEvery, nil, func(ctx context.Context) {
		w.releaseShort()
		w.flushOrLog(ctx)
	})
}

func (w *Webhooks) flushOrLog(ctx context.Context) {
	if err := w.Flush(ctx); err != nil && ctx.Err() == nil {
		w.Log.LogAttrs(ctx, slog.LevelWarn, "progress of webhooks not written", slog.Any("error", err))
	}
}

// Flush writes what has changed: floors, lanes, errands, events and the log, together. What cannot be written is kept for the next time.
func (w *Webhooks) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushAtMost)
	defer cancel()
	w.flushing.Lock()
	defer w.flushing.Unlock()
	w.mu.Lock()
	batch := w.machine.Flush(w.Now())
	w.metrics.set(w.machine.Stats())
	w.mu.Unlock()
	rows := w.log.take()
	if batch.Empty() && len(rows) == 0 {
		return nil
	}
	done, err := w.write(ctx, batch, rows)
	if postgres.MissingDay(err) {
		days := make([]postgres.Day, len(rows))
		for i := range rows {
			days[i] = postgres.DayOf(rows[i].At)
		}
		if err = w.days.Make(ctx, days...); err == nil {
			done, err = w.write(ctx, batch, rows)
		}
	}
	w.mu.Lock()
	if err != nil {
		w.machine.Unflushed(batch)
	} else {
		w.machine.Flushed(batch, done.unsaved)
	}
	for _, f := range done.lost {
		// By now this node may have the bucket again, by a newer lease.
		if h := w.held[f.Bucket]; h != nil && h.epoch == f.Epoch {
			h.lose()
		}
	}
	job := w.advance(w.Now())
	w.mu.Unlock()
	w.spawn(job)
	if err != nil {
		w.metrics.unlogged.Add(float64(w.log.putBack(rows)))
		return err
	}
	w.count(rows)
	w.log.recycle(rows)
	return nil
}

// written is what became of a batch.
type written struct {
	// lost are buckets that another node has, unsaved accounts whose owner ordered something else meanwhile.
	lost    []lane.Floor
	unsaved map[string]bool
}

func (w *Webhooks) write(ctx context.Context, batch *lane.Batch, rows []Delivery) (written, error) {
	var done written
	copied := w.copied
	if w.copied = nil; copied == nil {
		copied = &postgres.Rows{}
	}
	err := w.DB.Tx(ctx, func(tx postgres.Tx) error {
		var err error
		if done, err = saveBatch(ctx, tx, batch, w.Now()); err != nil {
			return err
		}
		for _, told := range batch.Told {
			if err := w.Outbox.Add(ctx, tx, news(told)); err != nil {
				return err
			}
		}
		if err := hush(ctx, tx, rows); err != nil {
			return err
		}
		return copyDeliveries(ctx, tx, rows, copied)
	})
	if err == nil { // otherwise somebody may still be sending them
		w.copied = copied
	}
	return done, err
}

// news is the event that tells of a webhook.
func news(t lane.Told) outbox.Event {
	e := outbox.Event{Org: t.Org, Account: id.Account(t.Source), Kind: "webhook.disabled"}
	if t.Recovered {
		e.Kind = "webhook.recovered"
	}
	failing := 0
	if !t.Since.IsZero() {
		failing = int(t.At.Sub(t.Since).Seconds())
	}
	e.Data = map[string]any{"url": endpointOf(t.Hook).url, "reason": t.Reason, "failingSinceSec": failing}
	return e
}

// count tells usage of deliveries.
func (w *Webhooks) count(rows []Delivery) {
	type sums struct{ good, bad int64 }
	by := map[id.Org]sums{}
	for i := range rows {
		s := by[rows[i].Org]
		if rows[i].Delivered {
			s.good++
		} else {
			s.bad++
		}
		by[rows[i].Org] = s
	}
	for org, s := range by {
		w.Usage.Delivered(org, s.good, s.bad)
	}
}

// maxUnwritten bounds the log of deliveries while the database is away.
const maxUnwritten = 100_000

// deliveryLog gathers deliveries until they are written.
type deliveryLog struct {
	mu    sync.Mutex
	list  []Delivery
	spare []Delivery
}

func (l *deliveryLog) add(d *Delivery) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) >= maxUnwritten {
		return false
	}
	l.list = append(l.list, *d)
	return true
}

func (l *deliveryLog) waiting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list) > 0
}

func (l *deliveryLog) take() []Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list, l.spare = l.spare[:0], nil
	return list
}

// putBack keeps what could not be written, and says how many did not fit.
func (l *deliveryLog) putBack(list []Delivery) (lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := max(maxUnwritten-len(l.list), 0)
	if lost = max(len(list)-room, 0); lost > 0 {
		list = list[lost:]
	}
	l.list = append(list, l.list...)
	return lost
}

// recycle uses the memory again.
func (l *deliveryLog) recycle(list []Delivery) {
	clear(list)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spare == nil && cap(list) <= 16_384 {
		l.spare = list[:0]
	}
}
