package webhook

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// This file delivers ephemeral events, which are not stored. They are sent at most once, only while the lane of the
// account delivers, and at most one per account, kind and second: the newest replaces those that wait.

const (
	ephemeralEvery = time.Second
	// ephemeralLate is how long an event may wait until its webhook is read. After that it is outdated.
	ephemeralLate = 5 * time.Second
)

// ephemeralKey says who gets the event: endpoint is empty for the webhook of the account.
type ephemeralKey struct {
	endpoint     id.Endpoint
	source, kind string
}

type ephemeralDue struct {
	endpoint id.Endpoint
	event    *event.Stored
}

type ephemeralEntry struct {
	// sent is when the last event was sent.
	sent time.Time
	// waiting is the newest event since; nil if there is none.
	waiting *event.Stored
}

// coalescer keeps the newest of the events that arrive too often.
type coalescer struct {
	mu      sync.Mutex
	entries map[ephemeralKey]*ephemeralEntry
}

// maxEphemeral limits the tracked accounts and kinds. Beyond it, events are dropped.
const maxEphemeral = 100_000

// admit reports whether an event must be sent now. Otherwise it is kept until its second is over, or dropped.
func (c *coalescer) admit(endpoint id.Endpoint, e *event.Stored, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := ephemeralKey{endpoint, e.Source, e.Kind}
	entry := c.entries[key]
	if entry == nil {
		if len(c.entries) >= maxEphemeral {
			return false
		}
		c.entries[key] = &ephemeralEntry{sent: now}
		return true
	}
	if now.Sub(entry.sent) >= ephemeralEvery {
		entry.sent, entry.waiting = now, nil
		return true
	}
	entry.waiting = e
	return false
}

// due returns the waiting events whose second is over.
func (c *coalescer) due(now time.Time) []ephemeralDue {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []ephemeralDue
	for key, entry := range c.entries {
		if now.Sub(entry.sent) < ephemeralEvery {
			continue
		}
		if entry.waiting == nil {
			delete(c.entries, key)
			continue
		}
		list = append(list, ephemeralDue{key.endpoint, entry.waiting})
		entry.sent, entry.waiting = now, nil
	}
	return list
}

// listenEphemeral subscribes to the ephemeral events of a bucket until the context ends.
func (w *Webhooks) listenEphemeral(ctx context.Context, bucket int) {
	err := w.deps.Bus.Subscribe(ctx, event.EphemeralPattern(bucket), func(_ string, payload []byte) {
		for e, err := range event.ReadLive(payload) {
			if err != nil || event.Bucket(e.Source) != bucket {
				return
			}
			if w.ephemeral.admit("", &e, w.deps.Now()) {
				w.sendEphemeral(&e)
			}
		}
	})
	if err != nil && ctx.Err() == nil {
		w.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot subscribe to ephemeral events",
			slog.Int(logkey.Bucket, bucket), slog.Any(logkey.Error, err))
	}
}

func (w *Webhooks) sendDueEphemeral() {
	for _, one := range w.ephemeral.due(w.deps.Now()) {
		if one.endpoint != "" {
			w.sendEphemeralTo(one.endpoint, one.event)
		} else {
			w.sendEphemeral(one.event)
		}
	}
}

// sendEphemeral sends an event once if the lane of its account delivers and the webhook wants it.
func (w *Webhooks) sendEphemeral(e *event.Stored) {
	received := w.deps.Now()
	w.mu.Lock()
	w.machine.WithLiveHook(e.Org, e.Source, func(hook *lane.Hook) {
		h := w.held[event.Bucket(e.Source)]
		unwanted := hook.Match != nil && !hook.Match(e.Kind)
		if w.machine.IsHeld(e.Org) || h == nil || unwanted || w.deps.Now().Sub(received) > ephemeralLate {
			return
		}
		w.workers.Go(func() {
			h.run(func(ctx context.Context) {
				w.sendWithPermit(ctx, e.Org, hook.Host, func() lane.Result {
					return w.send(ctx, endpointOf(hook), e, deliveryMeta{attempt: 1, cause: CauseLive})
				})
			})
		})
	})
	loading := w.machine.HasHookLoads()
	w.mu.Unlock()
	if loading {
		signal(w.loadWanted)
	}
}
