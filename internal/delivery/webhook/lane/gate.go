package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// class separates lanes that work from those that failed lately, so that failing endpoints never use all permits.
type class uint8

const (
	healthy class = iota
	troubled
	classes
)

// waiter is a permit request of a lane or a callback; one of the fields is set.
type waiter struct {
	lane  *Lane
	grant func(*Job)
}

// tenant is the queue of an organisation: its hosts that have a waiter and room for a delivery.
type tenant struct {
	hosts  [classes]fifo[*host]
	listed [classes]bool
	// credit is below zero for an organisation whose deliveries hold permits for long. While permits are scarce, other
	// organisations come first.
	credit float64
}

// gate limits concurrent deliveries and decides which waiter is next: round robin over organisations, then over the
// hosts of an organisation, then first come, first served within a host.
type gate struct {
	permits  int
	inFlight int
	orgs     [classes]fifo[*tenant]
	byOrg    map[id.Org]*tenant
	turn     class
}

// reservedShare is the divisor of the permits that only healthy lanes get: one in five.
const reservedShare = 5

func (g *gate) isScarce() bool { return g.inFlight >= g.permits-g.permits/reservedShare }

func (g *gate) enqueue(h *host, w waiter, c class) {
	h.waiters[c].push(w)
	g.listHost(h, c)
}

// listHost puts a host into the queue of its organisation if it has a waiter and room for a delivery.
func (g *gate) listHost(h *host, c class) {
	if h.listed[c] || h.waiters[c].empty() || h.isFull(c) {
		return
	}
	h.listed[c] = true
	h.tenant.hosts[c].push(h)
	if !h.tenant.listed[c] {
		h.tenant.listed[c] = true
		g.orgs[c].push(h.tenant)
	}
}

// pickWaiter returns the next waiter with a permit. Healthy and troubled waiters alternate; only healthy ones
// are picked while permits are scarce.
func (g *gate) pickWaiter() (w waiter, h *host, c class, ok bool) {
	if g.inFlight >= g.permits {
		return waiter{}, nil, healthy, false
	}
	first, second := g.turn, 1-g.turn
	if g.isScarce() {
		first, second = healthy, classes
	}
	g.turn = 1 - g.turn
	c = first
	if w, h, ok = g.pickClass(first); !ok && second < classes {
		c = second
		w, h, ok = g.pickClass(second)
	}
	if ok {
		g.inFlight++
		h.inFlight[c]++
		g.listHost(h, c)
	}
	return w, h, c, ok
}

// pickClass picks a waiter of one class. While permits are scarce it passes over organisations without credit, once per
// call at most.
func (g *gate) pickClass(c class) (waiter, *host, bool) {
	scarce := g.isScarce()
	for patience := g.orgs[c].len(); !g.orgs[c].empty(); patience-- {
		o := g.orgs[c].pop()
		if scarce && o.credit < 0 && patience > 0 {
			o.credit++
			g.orgs[c].push(o)
			continue
		}
		w, h, ok := g.pickHost(o, c)
		if o.listed[c] = !o.hosts[c].empty(); o.listed[c] {
			g.orgs[c].push(o)
		}
		if ok {
			return w, h, true
		}
	}
	return waiter{}, nil, false
}

func (g *gate) pickHost(o *tenant, c class) (waiter, *host, bool) {
	for !o.hosts[c].empty() {
		h := o.hosts[c].pop()
		h.listed[c] = false
		if h.isFull(c) || h.waiters[c].empty() {
			continue // release or enqueue lists it again
		}
		return h.waiters[c].pop(), h, true
	}
	return waiter{}, nil, false
}

// permitCost is how long a delivery holds a permit per unit of credit.
const permitCost = 100 * time.Millisecond

// release returns a permit and, while permits are scarce, charges the organisation for the time it was held.
func (g *gate) release(h *host, c class, took time.Duration) {
	g.inFlight--
	h.inFlight[c]--
	if g.isScarce() {
		h.tenant.credit = max(h.tenant.credit-float64(took)/float64(permitCost), -100)
	} else {
		h.tenant.credit = 0
	}
	g.relist(h)
}

func (g *gate) relist(h *host) {
	g.listHost(h, healthy)
	g.listHost(h, troubled)
}

// fifo is a queue that reuses its memory.
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
