package listen

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// coalesceEvery is how far apart ephemeral events of one kind and account are told, unless the kind wants more; of those in between the
// last one counts.
const coalesceEvery = 250 * time.Millisecond

// coalescer thins out an account's ephemeral events, without I/O.
type coalescer struct {
	kinds map[string]*held
}

// held is what is known of a kind.
type held struct {
	free    time.Time
	waiting *catalog.Event
}

// came takes an event: true if it is to be told now. Otherwise it waits until due.
func (c *coalescer) came(e *catalog.Event, now time.Time) bool {
	h := c.kinds[e.Kind]
	if h == nil {
		if c.kinds == nil {
			c.kinds = map[string]*held{}
		}
		h = &held{}
		c.kinds[e.Kind] = h
	}
	if h.waiting != nil || now.Before(h.free) {
		copied := *e
		h.waiting = &copied
		return false
	}
	h.free = now.Add(apart(e))
	return true
}

func apart(e *catalog.Event) time.Duration { return max(e.Every, coalesceEvery) }

// due are the events whose time has come, and when the next one's does; the zero time if none waits.
func (c *coalescer) due(now time.Time) (list []catalog.Event, next time.Time) {
	for _, h := range c.kinds {
		switch {
		case h.waiting == nil:
			continue
		case now.Before(h.free):
			if next.IsZero() || h.free.Before(next) {
				next = h.free
			}
		default:
			list = append(list, *h.waiting)
			h.waiting, h.free = nil, now.Add(apart(h.waiting))
		}
	}
	return list, next
}
