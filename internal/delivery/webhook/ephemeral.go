package webhook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// Events that are not stored are sent once or not at all, to webhooks that keep up, and at most one per account, kind and second.

const (
	shortEvery = time.Second
	// shortLate is how long one waits at most for its webhook to be read. Later nobody wants it.
	shortLate = 5 * time.Second
)

type shortKey struct{ source, kind string }

type shortEntry struct {
	// sent is when the last one was.
	sent time.Time
	// waiting is the newest since; nil if there is none.
	waiting *event.Stored
}

// coalescer keeps the newest of events that come too often.
type coalescer struct {
	mu      sync.Mutex
	entries map[shortKey]*shortEntry
}

// maxShort bounds what is remembered. Beyond it events are dropped, as they may be.
const maxShort = 100_000

// take says whether an event is to be sent now.
func (c *coalescer) take(e *event.Stored, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := shortKey{e.Source, e.Kind}
	entry := c.entries[key]
	if entry == nil {
		if len(c.entries) >= maxShort {
			return false
		}
		c.entries[key] = &shortEntry{sent: now}
		return true
	}
	if now.Sub(entry.sent) >= shortEvery {
		entry.sent, entry.waiting = now, nil
		return true
	}
	entry.waiting = e
	return false
}

// due are events whose second is over.
func (c *coalescer) due(now time.Time) []*event.Stored {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*event.Stored
	for key, entry := range c.entries {
		if now.Sub(entry.sent) < shortEvery {
			continue
		}
		if entry.waiting == nil {
			delete(c.entries, key)
			continue
		}
		list = append(list, entry.waiting)
		entry.sent, entry.waiting = now, nil
	}
	return list
}

// hear listens for events of a bucket that are not stored.
func (w *Webhooks) hear(ctx context.Context, bucket int) {
	err := w.Bus.Subscribe(ctx, event.EphemeralPattern(bucket), func(_ string, payload []byte) {
		for e, err := range event.ReadLive(payload) {
			if err != nil || event.Bucket(e.Source) != bucket {
				return
			}
			if w.shortly.take(&e, w.Now()) {
				w.sendShort(&e)
			}
		}
	})
	if err != nil && ctx.Err() == nil {
		w.Log.LogAttrs(ctx, slog.LevelWarn, "events that are not stored not heard of", slog.Int("bucket", bucket), slog.Any("error", err))
	}
}

func (w *Webhooks) releaseShort() {
	for _, e := range w.shortly.due(w.Now()) {
		w.sendShort(e)
	}
}

// sendShort sends an event once, if its webhook keeps up and wants it.
func (w *Webhooks) sendShort(e *event.Stored) {
	heard := w.Now()
	w.mu.Lock()
	w.machine.Live(e.Org, e.Source, func(hook *lane.Hook) {
		h := w.held[event.Bucket(e.Source)]
		if w.machine.Held(e.Org) || h == nil || hook.Match != nil && !hook.Match(e.Kind) || w.Now().Sub(heard) > shortLate {
			return
		}
		w.workers.Go(func() {
			h.do(func(ctx context.Context) {
				w.slot(ctx, e.Org, hook.Host, func() lane.Result {
					return w.send(ctx, endpointOf(hook), e, note{attempt: 1, cause: CauseLive})
				})
			})
		})
	})
	loading := w.machine.Loading()
	w.mu.Unlock()
	if loading {
		signal(w.loads)
	}
}
