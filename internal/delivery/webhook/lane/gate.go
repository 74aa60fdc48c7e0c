package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// class separates lanes that work from those that failed lately, so that the second never take all slots.
type class uint8

const (
	healthy class = iota
	troubled
	classes
)

// waiter is somebody who would send: a lane, or whoever is to be told that they may.
type waiter struct {
	lane  *Lane
	grant func(*Job)
}

// tenant is an org as far as it sends.
type tenant struct {
	hosts  [classes]fifo[*host]
	listed [classes]bool
	// credit is below zero for an org whose deliveries hold slots for long: while slots are scarce others come first.
	credit float64
}

// gate decides who may send: over all orgs in turn, within an org over its hosts, within a host first come first served.
type gate struct {
	slots  int
	flying int
	orgs   [classes]fifo[*tenant]
	byOrg  map[id.Org]*tenant
	turn   class
}

// reserved is the part of the slots that only healthy lanes get.
const reserved = 5 // one in five

func (g *gate) scarce() bool { return g.flying >= g.slots-g.slots/reserved }

// enqueue lets somebody wait for their turn.
func (g *gate) enqueue(h *host, w waiter, c class) {
	h.ready[c].push(w)
	g.list(h, c)
}

// list puts a host where it is found, if it can send.
func (g *gate) list(h *host, c class) {
	if h.listed[c] || h.ready[c].empty() || h.full(c) {
		return
	}
	h.listed[c] = true
	h.org.hosts[c].push(h)
	if !h.org.listed[c] {
		h.org.listed[c] = true
		g.orgs[c].push(h.org)
	}
}

// pick takes the next who may send, and a slot for them.
func (g *gate) pick() (w waiter, h *host, c class, ok bool) {
	if g.flying >= g.slots {
		return waiter{}, nil, healthy, false
	}
	first, second := g.turn, 1-g.turn
	if g.scarce() {
		first, second = healthy, classes
	}
	g.turn = 1 - g.turn
	c = first
	if w, h, ok = g.pickOf(first); !ok && second < classes {
		c = second
		w, h, ok = g.pickOf(second)
	}
	if ok {
		g.flying++
		h.flying[c]++
		g.list(h, c)
	}
	return w, h, c, ok
}

func (g *gate) pickOf(c class) (waiter, *host, bool) {
	scarce := g.scarce()
	for patience := g.orgs[c].len(); !g.orgs[c].empty(); patience-- {
		o := g.orgs[c].pop()
		if scarce && o.credit < 0 && patience > 0 {
			o.credit++
			g.orgs[c].push(o)
			continue
		}
		w, h, ok := g.pickIn(o, c)
		if o.listed[c] = !o.hosts[c].empty(); o.listed[c] {
			g.orgs[c].push(o)
		}
		if ok {
			return w, h, true
		}
	}
	return waiter{}, nil, false
}

func (g *gate) pickIn(o *tenant, c class) (waiter, *host, bool) {
	for !o.hosts[c].empty() {
		h := o.hosts[c].pop()
		h.listed[c] = false
		if h.full(c) || h.ready[c].empty() {
			continue // it is listed again when it has room
		}
		return h.ready[c].pop(), h, true
	}
	return waiter{}, nil, false
}

// costPer is the time in a slot that counts as one delivery.
const costPer = 100 * time.Millisecond

// release gives a slot back.
func (g *gate) release(h *host, c class, took time.Duration) {
	g.flying--
	h.flying[c]--
	if g.scarce() {
		h.org.credit = max(h.org.credit-float64(took)/float64(costPer), -100)
	} else {
		h.org.credit = 0
	}
	g.relist(h)
}

func (g *gate) relist(h *host) {
	g.list(h, healthy)
	g.list(h, troubled)
}

// fifo is a queue whose memory is used again.
type fifo[T any] struct {
	list  []T
	first int
}

func (q *fifo[T]) len() int    { return len(q.list) - q.first }
func (q *fifo[T]) empty() bool { return q.first == len(q.list) }
func (q *fifo[T]) push(v T)    { q.list = append(q.list, v) }

func (q *fifo[T]) pop() T {
	var zero T
	v := q.list[q.first]
	q.list[q.first] = zero
	q.first++
	switch {
	case q.first == len(q.list):
		q.list, q.first = q.list[:0], 0
	case q.first >= 64 && q.first*2 >= len(q.list):
		n := copy(q.list, q.list[q.first:])
		clear(q.list[n:])
		q.list, q.first = q.list[:n], 0
	}
	return v
}
