package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// How a lane comes by its webhook, and what becomes of it when that is another.

// load asks for a lane's webhook.
func (m *Machine) load(l *Lane) {
	if !l.loading {
		l.loading = true
		m.loads.push(l)
	}
}

// NextLoads are lanes whose webhook must be read, up to so many. Each must be answered by Configured or Unconfigured.
func (m *Machine) NextLoads(most int) []*Lane {
	n := min(most, m.loads.len())
	if n == 0 {
		return nil
	}
	list := make([]*Lane, 0, n)
	for range n {
		list = append(list, m.loads.pop())
	}
	return list
}

// Unconfigured means that a webhook could not be read; it is asked for again.
func (m *Machine) Unconfigured(l *Lane) {
	l.loading = false
	if m.lanes[l.source] == l {
		m.load(l)
	}
}

// Invalidate means that a source's webhook changed. New ones begin to deliver by this.
func (m *Machine) Invalidate(org id.Org, source string) {
	b := m.buckets[event.Bucket(source)]
	if b == nil || !b.held {
		return
	}
	l := m.lane(org, source, b)
	if l.loading {
		// What is being read may be older.
		l.loading = false
	}
	l.known = false
	m.load(l)
}

// Configured gives a lane its webhook; nil if there is none.
func (m *Machine) Configured(l *Lane, h *Hook, now time.Time) {
	if m.lanes[l.source] != l {
		return
	}
	l.loading = false
	l.known, l.hook = true, h
	defer l.answer()
	if h == nil {
		m.empty(l)
		return
	}
	if h.Gen != l.row.Gen {
		m.adopt(l, h, now)
	} else if l.placed {
		l.choose()
	}
	if l.placed && l.cursor < h.StartSeq && l.flying == 0 {
		head := max(l.head, h.StartSeq)
		if l.tail < h.StartSeq {
			l.place(h.StartSeq)
			l.head = head
		} else {
			l.drop(h.StartSeq)
		}
	}
	m.look(l)
	m.act(l, now)
}

// drop takes out what was there before the webhook.
func (l *Lane) drop(upTo int64) {
	for i := range l.items {
		if l.items[i].event.Seq <= upTo {
			l.items[i].done = true
		}
	}
	l.settle()
	l.cursor = max(l.cursor, upTo)
}

// empty is a lane of a source without a webhook.
func (m *Machine) empty(l *Lane) {
	l.again()
	l.row = Row{State: Live}
	l.hasRow, l.wantsRow, l.dirty, l.behind, l.skip = false, false, false, false, nil
	l.cursor, l.tail = l.head, l.head
	m.timers.stop(&l.timer)
	delete(m.changed, l)
}

// again makes what is under way none of the lane's business any more.
func (l *Lane) again() {
	l.run++
	l.strays += l.flying
	l.flying = 0
	l.items, l.bytes = nil, 0
	l.tail = l.cursor
	l.probing, l.beside, l.parked = false, false, false
}

// adopt follows the owner's orders: what the database says of the lane counts, not what it was doing.
func (m *Machine) adopt(l *Lane, h *Hook, now time.Time) {
	known := l.row.Gen
	l.row.Gen = h.Gen
	if h.Row == nil {
		switch {
		case l.row.State.sends():
		case known != 0:
			// It was failing, and the webhook is another one now.
			l.row = Row{State: Draining, Gen: h.Gen}
			l.probing, l.beside, l.parked, l.behind = false, false, false, true
			m.timers.stop(&l.timer)
		}
		l.dirty = l.dirty || l.wantsRow
		if l.placed {
			l.choose()
		}
		return
	}
	l.row, l.hasRow, l.wantsRow, l.dirty = *h.Row, true, true, l.placed
	l.row.Moved = 0
	l.probing, l.beside, l.parked = false, false, false
	if h.Row.Cursor >= 0 && (h.Row.Moved > known || !l.placed) {
		head := l.head
		l.again()
		l.place(h.Row.Cursor)
		l.head = max(l.head, head)
		l.skip = nil
	} else if l.placed {
		l.choose()
	}
	if !l.pending() {
		l.missedAt = now
	}
	l.behind = true
	l.unplaced()
	m.timers.stop(&l.timer)
	if l.row.State == Backoff {
		m.timers.set(&l.timer, l.row.NextAt)
	}
	if m.isSuspended(l.org) {
		m.calm(l)
	}
}

// maxAsking bounds how many events that are not stored wait for a lane's webhook to be read: about one of each kind.
const maxAsking = 16

// Live gives the webhook by which events of a source that are not stored can be sent: at once, or when it was read. Without one nothing
// is called. give must not block.
func (m *Machine) Live(org id.Org, source string, give func(*Hook)) {
	l := m.lanes[source]
	if l == nil {
		b := m.buckets[event.Bucket(source)]
		if b == nil || !b.runs() {
			return
		}
		l = m.lane(org, source, b)
	}
	if l.known {
		l.live(give)
		return
	}
	if m.load(l); len(l.asking) < maxAsking {
		l.asking = append(l.asking, give)
	}
}

func (l *Lane) live(give func(*Hook)) {
	if l.hook != nil && l.row.State.sends() {
		give(l.hook)
	}
}

// answer tells those that asked while the webhook was not known.
func (l *Lane) answer() {
	for _, give := range l.asking {
		l.live(give)
	}
	l.asking = nil
}
