package lease_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/test/testenv/simulation"
)

// The simulated world has a database that fails, answers late or not at all and goes back to an earlier state, and nodes
// that join, leave, crash, pause, and have work that does not end. The assignments of the nodes are the real ones.

const simSlots = 8

// simulated is a world.
type simulated struct {
	s      *simulation.Scheduler
	config lease.Config
	// calm means that nothing fails any more.
	calm   bool
	downTo time.Time
	names  int
	nodes  []*simNode

	// The tables of the database.
	generation int64
	until      map[string]time.Time
	leaving    map[string]bool
	slots      [simSlots]lease.Held
	holders    [simSlots]string
	// commits are earlier states of the slots. highest is the highest epoch of a slot that was ever given.
	commits []simCommit
	highest [simSlots]int64
	// stops counts the holds that were stopped.
	stops int
}

type simCommit struct {
	slots   [simSlots]lease.Held
	holders [simSlots]string
}

func newSimulated(s *simulation.Scheduler) *simulated {
	w := &simulated{
		s: s, generation: 1, until: map[string]time.Time{}, leaving: map[string]bool{},
		config: lease.Config{TTL: 6 * time.Second, Beat: 2 * time.Second, Patience: time.Minute},
	}
	if s.Chance(2) {
		w.config.Grace = 2 * time.Minute
	}
	for range 1 + s.IntN(4) {
		w.join()
	}
	w.injectFaults()
	return w
}

// simNode is a node. It does what run does around its assignment.
type simNode struct {
	*lease.Assignment
	w       *simulated
	name    string
	process *simulation.Process
	holds   map[int]*simHold
	// pauses counts the pauses; pausedAt is the number at the last renewal.
	pauses, pausesAtRenewal int
	lapsesAt                time.Time
	isGone                  bool
}

type simHold struct {
	n       *simNode
	slot    *lease.HeldSlot
	stopped bool
	// isStuck means that the work never ends.
	isStuck bool
}

func (w *simulated) join() {
	w.names++
	n := &simNode{w: w, name: fmt.Sprintf("node%d", w.names), process: w.s.NewProcess(), holds: map[int]*simHold{}}
	n.Assignment = lease.NewAssignment(w.config, "work", simSlots, n.name)
	w.nodes = append(w.nodes, n)
	n.process.After(w.s.Upto(time.Second), n.beat)
}

// query runs a query: apply changes the database, and done gets its result, or an error. The query may fail before or
// after it was applied, and may be applied after the node has given it up.
func (n *simNode) query(apply func(), done func(ok bool)) {
	w := n.w
	delay := func() time.Duration {
		if !w.calm && w.s.Chance(30) {
			return w.s.Upto(3 * time.Second)
		}
		return w.s.Upto(10 * time.Millisecond)
	}
	limit, there, back := w.config.Beat, delay(), delay()
	lost := !w.calm && w.s.Chance(60)
	applied := false
	w.s.After(there, func() {
		if !w.s.Now().Before(w.downTo) {
			apply()
			applied = true
		}
	})
	if lost || there+back >= limit {
		n.process.After(limit, func() { done(false) })
		return
	}
	n.process.After(there+back, func() { done(applied) })
}

func (n *simNode) beat() {
	if n.isGone {
		return
	}
	n.release(func(ok bool) {
		if !ok {
			n.beatAgain(false)
			return
		}
		n.renew()
	})
}

func (n *simNode) beatAgain(ok bool) {
	wait := n.w.config.Beat
	if !ok {
		wait /= 4
	}
	n.process.After(wait, n.beat)
}

func (n *simNode) renew() {
	w, began := n.w, n.w.s.Now()
	lenience, pauses := n.LenienceAt(began), n.pauses
	var s lease.Snapshot
	n.query(func() { s = w.applyBeat(n, lenience) }, func(ok bool) {
		if !ok {
			n.beatAgain(false)
			return
		}
		n.lapsesAt, n.pausesAtRenewal = n.Renewed(began, &s), pauses
		n.process.After(max(0, n.lapsesAt.Sub(w.s.Now())), func() { n.Lapse(w.s.Now()) })
		n.StopLost(s, w.s.Now())
		n.AbandonStuck(w.s.Now())
		n.claim(s)
	})
}

func (n *simNode) claim(s lease.Snapshot) {
	w, wanted := n.w, n.Wanted(s)
	n.release(func(ok bool) {
		if !ok || len(wanted) == 0 {
			n.leaveOrBeat(ok)
			return
		}
		var taken []lease.Held
		n.query(func() { taken = w.applyTake(n, wanted) }, func(ok bool) {
			if ok {
				for _, h := range taken {
					n.hold(h)
				}
			}
			n.leaveOrBeat(ok)
		})
	})
}

func (n *simNode) leaveOrBeat(ok bool) {
	if n.IsLeaving() && n.HeldCount() == 0 && len(n.Unreleased()) == 0 {
		n.isGone = true
		n.query(func() { delete(n.w.until, n.name) }, func(bool) {})
		return
	}
	n.beatAgain(ok)
}

func (n *simNode) release(done func(ok bool)) {
	list := slices.Clone(n.Unreleased())
	if len(list) == 0 {
		done(true)
		return
	}
	n.query(func() { n.w.applyRelease(n, list) }, func(ok bool) {
		if ok {
			n.SetReleased()
		}
		done(ok)
	})
}

// hold starts the work on a slot.
func (n *simNode) hold(held lease.Held) {
	h := &simHold{n: n, isStuck: !n.w.calm && n.w.s.Chance(20)}
	h.slot = n.Start(held, func(error) { h.stop() })
	n.holds[held.Slot] = h
	if n.IsLeaving() {
		h.stop()
	}
	h.work()
}

// stop ends the context of a hold.
func (h *simHold) stop() {
	if h.stopped {
		return
	}
	h.stopped = true
	h.n.w.stops++
	if !h.isStuck {
		h.n.process.After(h.n.w.s.Upto(500*time.Millisecond), h.end)
	}
}

// end ends a hold, as loop does when it has returned.
func (h *simHold) end() {
	delete(h.n.holds, h.slot.Slot)
	h.n.Returned(h.slot)
}

// work checks that no other node has the slot. A node that was paused since its last renewal cannot know that, and with a
// grace work goes on without a lease; then fencing keeps it from writing.
func (h *simHold) work() {
	n, w := h.n, h.n.w
	if h.stopped {
		return
	}
	if n.w.config.Grace == 0 && n.pauses == n.pausesAtRenewal {
		holder := w.holders[h.slot.Slot]
		if lease.Generation(h.slot.Epoch) == w.generation && holder != n.name {
			w.s.Fail("%s works on slot %d under epoch %d, but %q has it", n.name, h.slot.Slot, h.slot.Epoch, holder)
		}
	}
	n.process.After(w.s.Upto(time.Second), h.work)
}

// The database.

func (w *simulated) firstEpoch() int64 { return w.generation << lease.GenerationShift }

func (w *simulated) applyBeat(n *simNode, lenience time.Duration) lease.Snapshot {
	now := w.s.Now()
	nodes, mine := []string{n.name}, map[int]int64{}
	for name, until := range w.until { // any order
		if name != n.name && until.After(now.Add(-lenience)) && !w.leaving[name] {
			nodes = append(nodes, name)
		}
		if name != n.name && until.Before(now.Add(-time.Hour)) {
			delete(w.until, name)
		}
	}
	w.until[n.name], w.leaving[n.name] = now.Add(w.config.TTL), n.IsLeaving()
	for slot, holder := range w.holders {
		if holder == n.name {
			mine[slot] = w.slots[slot].Epoch
		}
	}
	return lease.NewSnapshot(nodes, mine, w.firstEpoch())
}

func (w *simulated) applyTake(n *simNode, wanted []int32) (taken []lease.Held) {
	w.save()
	for _, slot := range wanted {
		holder := w.holders[slot]
		if until, known := w.until[holder]; holder != "" && holder != n.name && known && until.After(w.s.Now()) {
			continue
		}
		h := lease.Held{Slot: int(slot), Epoch: max(w.slots[slot].Epoch+1, w.firstEpoch())}
		if h.Epoch <= w.highest[slot] {
			w.s.Fail("slot %d gets the epoch %d after %d", slot, h.Epoch, w.highest[slot])
		}
		w.highest[slot], w.slots[slot], w.holders[slot] = h.Epoch, h, n.name
		w.s.Trace("take", int64(slot), h.Epoch, int64(len(n.name)))
		taken = append(taken, h)
	}
	return taken
}

func (w *simulated) applyRelease(n *simNode, list []lease.Held) {
	w.save()
	for _, h := range list {
		if w.holders[h.Slot] == n.name && w.slots[h.Slot].Epoch == h.Epoch {
			w.holders[h.Slot] = ""
		}
	}
}

func (w *simulated) save() {
	if w.commits = append(w.commits, simCommit{w.slots, w.holders}); len(w.commits) > 40 {
		w.commits = slices.Delete(w.commits, 0, 20)
	}
}

// injectFaults makes something fail, again and again.
func (w *simulated) injectFaults() {
	if w.calm {
		return
	}
	w.s.After(w.s.Upto(20*time.Second), w.injectFaults)
	n := w.nodes[w.s.IntN(len(w.nodes))]
	switch w.s.IntN(8) {
	case 0:
		w.s.Trace("crash")
		w.remove(n)
	case 1:
		if len(w.nodes) < 5 {
			w.join()
		}
	case 2:
		if n.IsLeaving() {
			w.remove(n)
			return
		}
		w.s.Trace("leave")
		n.Leave()
		for slot := range simSlots {
			if h := n.holds[slot]; h != nil {
				h.stop()
			}
		}
	case 3:
		n.pauses++
		n.process.Pause(w.s.Upto(20 * time.Second))
	case 4:
		w.downTo = w.s.Now().Add(w.s.Upto(30 * time.Second))
	case 5:
		if back := w.s.IntN(6); w.s.Chance(4) && back < len(w.commits) {
			w.s.Trace("database went back")
			c := w.commits[len(w.commits)-1-back]
			w.slots, w.holders, w.commits = c.slots, c.holders, w.commits[:len(w.commits)-1-back]
			w.generation++
		}
	default:
	}
}

// remove crashes a node. If it was the last one, another joins.
func (w *simulated) remove(n *simNode) {
	n.process.Crash()
	n.isGone = true
	w.nodes = slices.DeleteFunc(w.nodes, func(one *simNode) bool { return one == n })
	if len(w.nodes) == 0 {
		w.join()
	}
}

// end ends all faults. Then each slot must be worked on where it belongs, and an outage of the database must not move
// any.
func (w *simulated) end() {
	w.calm, w.downTo = true, w.s.Now()
	for _, n := range slices.Clone(w.nodes) {
		if n.isGone || n.IsLeaving() { // a node whose work does not end is killed
			w.remove(n)
		}
	}
	w.s.Settle(10*time.Minute, "every slot is worked on by the node that it belongs to", w.isSettled)
	if w.config.Grace == 0 {
		return
	}
	if len(w.nodes) > 1 { // a node that has died is not waited for after an outage
		w.remove(w.nodes[0])
		w.s.Settle(10*time.Minute, "the slots of a dead node are worked on", w.isSettled)
	}
	stops := w.stops
	w.downTo = w.s.Now().Add(time.Minute)
	end := w.downTo.Add(time.Minute)
	w.s.Settle(3*time.Minute, "the outage is over", func() bool { return w.s.Now().After(end) })
	if !w.isSettled() || w.stops != stops {
		w.s.Fail("an outage of the database stopped %d holds", w.stops-stops)
	}
}

// isSettled reports whether every slot is worked on, under its epoch, by the node that it belongs to.
func (w *simulated) isSettled() bool {
	var names []string
	for _, n := range w.nodes {
		if !n.IsLeaving() {
			names = append(names, n.name)
		}
	}
	for slot := range simSlots {
		owner := lease.PreferredNode("work", slot, names)
		i := slices.IndexFunc(w.nodes, func(n *simNode) bool { return n.name == owner })
		h := w.nodes[i].holds[slot]
		if h != nil && h.stopped && h.isStuck {
			continue // the node cannot work on it until it is restarted
		}
		if h == nil || h.stopped || h.slot.Epoch != w.slots[slot].Epoch || w.holders[slot] != owner ||
			lease.Generation(h.slot.Epoch) != w.generation {
			return false
		}
	}
	return true
}

// Whatever fails, at most one node works on a slot, epochs only grow, and in the end every slot is worked on.
func TestSimulatedFaultsNeverGiveASlotToTwoNodes(t *testing.T) {
	t.Parallel()
	simulation.Run(t, 200_000, func(s *simulation.Scheduler) func() { return newSimulated(s).end })
}
