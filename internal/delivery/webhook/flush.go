package webhook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// flushAtMost limits how long a flush waits for the database.
const flushAtMost = 5 * time.Second

func (w *Webhooks) flushLoop(ctx context.Context) {
	every(ctx, w.deps.Config.FlushEvery, nil, func(ctx context.Context) {
		w.sendDueEphemeral()
		w.flushOrLog(ctx)
	})
}

func (w *Webhooks) flushOrLog(ctx context.Context) {
	if err := w.Flush(ctx); err != nil && ctx.Err() == nil {
		w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot write webhook progress", slog.Any(logkey.Error, err))
	}
}

// Flush writes what has changed in one transaction: checkpoints, lanes, side deliveries, notices and the delivery log.
// If it fails, the next flush writes it.
func (w *Webhooks) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushAtMost)
	defer cancel()
	w.flushMu.Lock()
	defer w.flushMu.Unlock()
	w.mu.Lock()
	batch := w.machine.Flush(w.deps.Now())
	w.metrics.set(w.machine.Stats())
	w.mu.Unlock()
	rows := w.log.takeAll()
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
		w.machine.FlushFailed(batch)
	} else {
		w.machine.Flushed(batch, done.unsaved)
	}
	for _, c := range done.lost {
		// This node may hold the bucket again by now, under a newer lease.
		if h := w.held[c.Bucket]; h != nil && h.epoch == c.Epoch {
			h.lose()
		}
	}
	job := w.startWork(w.deps.Now())
	w.mu.Unlock()
	w.spawn(job)
	if err != nil {
		w.metrics.unlogged.Add(float64(w.log.putBack(rows)))
		return err
	}
	w.countUsage(rows)
	w.log.recycle(rows)
	return nil
}

// written is the result of writing a batch.
type written struct {
	// lost are checkpoints of buckets that a newer lease holds.
	lost []lane.Checkpoint
	// unsaved are accounts whose webhook was changed in the meantime, so that their lane was not written.
	unsaved map[string]bool
}

func (w *Webhooks) write(ctx context.Context, batch *lane.Batch, rows []Delivery) (written, error) {
	var done written
	buffer := w.copyBuffer
	if w.copyBuffer = nil; buffer == nil {
		buffer = &postgres.Rows{}
	}
	err := w.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		var err error
		if done, err = saveBatch(ctx, tx, batch, w.deps.Now()); err != nil {
			return err
		}
		for _, notice := range batch.Notices {
			if err := w.deps.Outbox.Add(ctx, tx, noticeEvent(notice)); err != nil {
				return err
			}
		}
		if err := clearDeletedResponses(ctx, tx, rows); err != nil {
			return err
		}
		return copyDeliveries(ctx, tx, rows, buffer)
	})
	if err == nil { // after an error the connection may still be reading the buffer
		w.copyBuffer = buffer
	}
	return done, err
}

// noticeEvent returns the event webhook.disabled or webhook.recovered.
func noticeEvent(n lane.Notice) outbox.Event {
	data := contract.WebhookDisabled{URL: endpointOf(n.Hook).url, Reason: n.Reason}
	if !n.Since.IsZero() {
		data.FailingSinceSec = int(n.At.Sub(n.Since).Seconds())
	}
	data.EndpointID = n.Endpoint
	e := outbox.Event{Org: n.Org, Data: data}
	if event.IsAccount(n.Source) {
		e.Account = id.Account(n.Source)
	}
	if n.Recovered {
		e.Data = contract.WebhookRecovered(data)
	}
	return e
}

func (w *Webhooks) countUsage(rows []Delivery) {
	type sums struct {
		good, bad int64
		slowest   time.Duration
	}
	by := map[id.Org]sums{}
	for i := range rows {
		s := by[rows[i].Org]
		if rows[i].Delivered {
			s.good++
			s.slowest = max(s.slowest, rows[i].lag)
		} else {
			s.bad++
		}
		by[rows[i].Org] = s
	}
	for org, s := range by {
		w.deps.Usage.Delivered(org, s.good, s.bad, s.slowest)
	}
}

// maxUnwritten limits the deliveries in memory while the database is unavailable.
const maxUnwritten = 100_000

// deliveryLog collects deliveries until a flush writes them. spare is memory of an earlier list, for reuse.
type deliveryLog struct {
	mu    sync.Mutex
	list  []Delivery
	spare []Delivery
}

// add reports whether there was room for the delivery.
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

func (l *deliveryLog) takeAll() []Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list, l.spare = l.spare[:0], nil
	return list
}

// putBack returns deliveries that could not be written. It drops the oldest that do not fit and returns their number.
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

// recycle keeps the memory of a written list for reuse.
func (l *deliveryLog) recycle(list []Delivery) {
	clear(list)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spare == nil && cap(list) <= 16_384 {
		l.spare = list[:0]
	}
}
