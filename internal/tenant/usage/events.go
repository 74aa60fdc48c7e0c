package usage

import (
	"cmp"
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

func (e *Events) plus(more *Events) {
	e.Received += more.Received
	e.Streamed += more.Streamed
	e.Delivered += more.Delivered
	e.DeliveryFailed += more.DeliveryFailed
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
	key := eventKey{org, u.deps.Now().Truncate(time.Hour)}
	u.events.update(key, func(sum *Events) { sum.plus(&more) })
}

func compareEventKeys(a, b eventKey) int {
	return cmp.Or(a.hour.Compare(b.hour), cmp.Compare(a.org, b.org))
}
