package usage

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

type eventKey struct {
	org  id.Org
	hour time.Time
}

// Events counts events by what happened to them.
type Events struct {
	// Received were stored, Streamed were sent to readers of streams and pulls, Delivered were accepted by webhooks.
	// DeliveryFailed counts failed attempts, of which one event can have several.
	Received, Streamed, Delivered, DeliveryFailed int64
}

func (e Events) plus(more Events) Events {
	return Events{
		e.Received + more.Received, e.Streamed + more.Streamed, e.Delivered + more.Delivered, e.DeliveryFailed + more.DeliveryFailed,
	}
}

// Received adds events that were stored. Like Streamed and Delivered it does not block.
func (u *Usage) Received(org id.Org, events int64) { u.countEvents(org, Events{Received: events}) }

// Streamed adds events that were sent to a reader.
func (u *Usage) Streamed(org id.Org, events int64) { u.countEvents(org, Events{Streamed: events}) }

// Delivered adds accepted and failed attempts to deliver to a webhook.
func (u *Usage) Delivered(org id.Org, accepted, failed int64) {
	u.countEvents(org, Events{Delivered: accepted, DeliveryFailed: failed})
}

func (u *Usage) countEvents(org id.Org, more Events) {
	key := eventKey{org, u.Now().Truncate(time.Hour)}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.addEventSums(key, more)
}

// addEventSums adds to the sums. The caller holds u.mu.
func (u *Usage) addEventSums(key eventKey, more Events) {
	sum, ok := u.events[key]
	if ok || len(u.events) < maxSums {
		u.events[key] = sum.plus(more)
	}
}

func (u *Usage) flushEvents(ctx context.Context) error {
	u.mu.Lock()
	events := u.events
	u.events = map[eventKey]Events{}
	u.mu.Unlock()
	if len(events) == 0 {
		return nil
	}
	// All nodes lock the rows in the same order.
	keys := slices.SortedFunc(maps.Keys(events), func(a, b eventKey) int {
		return cmp.Or(a.hour.Compare(b.hour), cmp.Compare(a.org, b.org))
	})
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	err := addEvents(ctx, u.DB.Pool(), keys, events)
	if err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		for k, e := range events {
			u.addEventSums(k, e)
		}
	}
	return err
}
