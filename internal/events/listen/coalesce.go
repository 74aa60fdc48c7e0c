package listen

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// coalesceEvery is the minimum interval between two ephemeral events of one kind and account, unless the kind has a
// longer one. Of the events in between, only the last one is published.
const coalesceEvery = 250 * time.Millisecond

// coalescer limits the rate of an account's ephemeral events per kind, without I/O. It is not safe for concurrent use.
type coalescer struct {
	kinds map[string]*kindState
}

// kindState is the state of one kind: when the next event may be published, and the event that waits for it.
type kindState struct {
	nextAt  time.Time
	waiting *catalog.Event
}

// add adds an event. It returns true if the event can be published now; otherwise the event waits and replaces the
// one that waited before.
func (c *coalescer) add(e *catalog.Event, now time.Time) bool {
	h := c.kinds[e.Kind]
	if h == nil {
		if c.kinds == nil {
			c.kinds = map[string]*kindState{}
		}
		h = &kindState{}
		c.kinds[e.Kind] = h
	}
	if h.waiting != nil || now.Before(h.nextAt) {
		copied := *e
		h.waiting = &copied
		return false
	}
	h.nextAt = now.Add(interval(e))
	return true
}

func interval(e *catalog.Event) time.Duration { return max(e.Every, coalesceEvery) }

// due returns and removes the waiting events that can be published now, and returns when the next one can; zero if none
// waits.
func (c *coalescer) due(now time.Time) (list []catalog.Event, next time.Time) {
	for _, h := range c.kinds {
		switch {
		case h.waiting == nil:
			continue
		case now.Before(h.nextAt):
			if next.IsZero() || h.nextAt.Before(next) {
				next = h.nextAt
			}
		default:
			list = append(list, *h.waiting)
			h.waiting, h.nextAt = nil, now.Add(interval(h.waiting))
		}
	}
	return list, next
}
