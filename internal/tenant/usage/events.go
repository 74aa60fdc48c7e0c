package usage

import (
	"cmp"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// eventKey identifies an hour or a minute of an org, by its start.
type eventKey struct {
	org id.Org
	at  time.Time
}

// Events counts events by what happened to them.
type Events struct {
	// Received were stored, Streamed were sent to readers of streams and pulls, Delivered were accepted by webhooks.
	// DeliveryFailed counts failed attempts, of which one event can have several.
	Received, Streamed, Delivered, DeliveryFailed int64
	// Slowest is the longest time from an event to the response that accepted it.
	Slowest time.Duration
}

func (e *Events) plus(more *Events) {
	e.Received += more.Received
	e.Streamed += more.Streamed
	e.Delivered += more.Delivered
	e.DeliveryFailed += more.DeliveryFailed
	e.Slowest = max(e.Slowest, more.Slowest)
}

// Received adds events that were stored. Like Streamed and Delivered it does not block.
func (u *Usage) Received(org id.Org, events int64) { u.countEvents(org, Events{Received: events}) }

// Streamed adds events that were sent to a reader.
func (u *Usage) Streamed(org id.Org, events int64) { u.countEvents(org, Events{Streamed: events}) }

// Delivered adds accepted and failed attempts to deliver to a webhook, and the longest time from an event to the response
// that accepted it.
func (u *Usage) Delivered(org id.Org, accepted, failed int64, slowest time.Duration) {
	u.countEvents(org, Events{Delivered: accepted, DeliveryFailed: failed, Slowest: slowest})
}

func (u *Usage) countEvents(org id.Org, more Events) {
	now := u.deps.Now()
	add := func(sum *Events) { sum.plus(&more) }
	u.events.update(eventKey{org, now.Truncate(time.Hour)}, add)
	u.minutes.update(eventKey{org, now.Truncate(time.Minute)}, add)
}

func compareEventKeys(a, b eventKey) int {
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.org, b.org))
}
