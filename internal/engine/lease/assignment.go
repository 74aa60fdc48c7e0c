package lease

import (
	"context"
	"slices"
	"time"
)

// heldSlot is a slot whose hold is running. It exists until hold has returned, even after the slot was lost.
type heldSlot struct {
	Held
	cancel context.CancelCauseFunc
	// stopping is set when cancel was called; hold may still be running.
	stopping  bool
	stoppedAt time.Time
	// abandoned means that the slot was released before hold returned.
	abandoned bool
}

func (h *heldSlot) stop(why error, now time.Time) {
	if !h.stopping {
		h.stopping, h.stoppedAt = true, now
	}
	h.cancel(why)
}

// assignment decides, without I/O, which slots a node works on: what it takes, stops and releases. Times are those of
// the node's monotonic clock. It is not safe for concurrent use.
type assignment struct {
	config Config
	kind   string
	slots  int
	node   string
	held   map[int]*heldSlot
	// unreleased are slots that this node no longer works on but that are still assigned to it in the database.
	unreleased []Held
	// isLeaving means that the node takes no more slots, and that all its holds are ending.
	isLeaving bool
	// renewedAt is when the last renewal began, lapsesAt when the holds must stop unless another succeeds. lenience is how
	// old the leases of other nodes may be, until lenientUntil: after an outage, they expired for the same reason as this
	// node's.
	renewedAt, lapsesAt, lenientUntil time.Time
	lenience                          time.Duration
	// known are the nodes that were live at the last renewal before the outage.
	known []string
}

// lenienceAt returns how long ago the leases of other nodes may have expired, for a renewal that begins now.
func (a *assignment) lenienceAt(now time.Time) time.Duration {
	ttl := a.config.TTL
	if away := now.Sub(a.renewedAt); !a.renewedAt.IsZero() && away > ttl {
		a.lenience, a.lenientUntil = away, now.Add(ttl)
	}
	if now.Before(a.lenientUntil) {
		return a.lenience + ttl
	}
	return 0
}

// renewed records a renewal that has succeeded. The database counts the TTL from when it got the query, which was after
// the renewal began, so the holds stop in time even if the query was slow. After an outage it removes from s the nodes
// that had died before it, because they would be given slots and not work on them.
func (a *assignment) renewed(began time.Time, s *snapshot) {
	c := a.config
	a.renewedAt, a.lapsesAt = began, began.Add(c.TTL-c.TTL/marginDivisor+c.Grace)
	if began.Before(a.lenientUntil) {
		s.nodes = slices.DeleteFunc(s.nodes, func(node string) bool { return !slices.Contains(a.known, node) })
		return
	}
	a.known = s.nodes
}

// lapse stops all holds if the lease was not renewed in time, because other nodes may soon take over their slots. It
// reports whether it did.
func (a *assignment) lapse(now time.Time) bool {
	if now.Before(a.lapsesAt) || len(a.held) == 0 {
		return false
	}
	for _, h := range a.inOrder() {
		h.stop(ErrLapsed, now)
	}
	return true
}

// stopLost stops the holds of slots that are no longer this node's in the database, that it took before the database was
// restored or failed over, or that should be another node's. A leaving node does not look at the latter: all of its
// holds are ending anyway.
func (a *assignment) stopLost(s snapshot, now time.Time) {
	for _, h := range a.inOrder() {
		epoch, mine := s.mine[h.Slot]
		switch {
		case h.stopping:
		case !mine || epoch != h.Epoch || epoch < s.firstEpoch:
			h.stop(ErrLapsed, now)
		case !a.isLeaving && a.ownerOf(h.Slot, s) != a.node:
			h.stop(ErrMoved, now)
		}
	}
}

// abandonStuck gives up the slots of holds that were stopped and do not return.
func (a *assignment) abandonStuck(now time.Time) (stuck []Held) {
	for _, h := range a.inOrder() {
		if h.stopping && !h.abandoned && now.Sub(h.stoppedAt) >= a.config.Patience {
			h.abandoned = true
			stuck = append(stuck, h.Held)
		}
	}
	a.unreleased = append(a.unreleased, stuck...)
	return stuck
}

// wanted returns the slots that should be this node's and that it does not work on. The database may assign slots to this
// node that it does not work on, because the response to an earlier query was lost. These are taken again with a new
// epoch, or released.
func (a *assignment) wanted(s snapshot) (slots []int32) {
	for slot := range a.slots {
		epoch, mine := s.mine[slot]
		switch {
		case a.held[slot] != nil:
		case !a.isLeaving && a.ownerOf(slot, s) == a.node:
			slots = append(slots, int32(slot))
		case mine:
			a.unreleased = append(a.unreleased, Held{slot, epoch})
		}
	}
	return slots
}

func (a *assignment) ownerOf(slot int, s snapshot) string {
	return preferredNode(a.kind, slot, s.nodes)
}

// inOrder returns the held slots in a fixed order, so that tests can be repeated.
func (a *assignment) inOrder() []*heldSlot {
	list := make([]*heldSlot, 0, len(a.held))
	for slot := range a.slots {
		if h := a.held[slot]; h != nil {
			list = append(list, h)
		}
	}
	return list
}

// start adds a slot that was taken. cancel ends its hold.
func (a *assignment) start(held Held, cancel context.CancelCauseFunc) *heldSlot {
	h := &heldSlot{Held: held, cancel: cancel}
	a.held[h.Slot] = h
	return h
}

// returned removes a slot whose hold has returned, and notes that it must be released.
func (a *assignment) returned(h *heldSlot) {
	delete(a.held, h.Slot)
	a.unreleased = append(a.unreleased, h.Held)
}
