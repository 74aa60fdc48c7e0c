package lane_test

import (
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/test/testenv/simulation"
)

// simulated lets a scheduler drive a world: at random times events are committed, deliveries are made and rows are
// flushed, and each of these can fail.
type simulated struct {
	*world
	s *simulation.Scheduler
	// calm means that nothing fails any more. Without crashes nothing may be delivered twice.
	calm, hasCrashes bool
}

func newSimulated(s *simulation.Scheduler) *simulated {
	w := &simulated{world: newWorld(s.T(), s.Seed(), 1+s.IntN(6)), s: s, hasCrashes: s.Chance(2)}
	w.random, w.answer = s.Rand, trouble
	w.orders, w.filter = s.Chance(2), s.Chance(2)
	if w.badStatus = 422; w.orders && s.Chance(2) {
		w.badStatus = 500
	}
	if s.Chance(4) {
		w.host = "one"
	}
	w.every(500*time.Millisecond, w.commitSome)
	w.every(60*time.Millisecond, func() { w.step() })
	w.every(time.Second, func() { w.flush(w.random.IntN(4) == 0) })
	w.every(3*time.Second, w.fault)
	return w
}

// every plans do to run again and again, after up to d, until the faults end.
func (w *simulated) every(d time.Duration, do func()) {
	w.s.After(w.s.Upto(d), func() {
		if w.calm {
			return
		}
		if w.s.Now().After(w.now) {
			w.now = w.s.Now()
		}
		do()
		w.s.Trace("", int64(w.sends), int64(len(w.inFlight)), int64(len(w.rows)))
		w.every(d, do)
	})
}

func (w *simulated) commitSome() {
	all := w.sources()
	n := 1 + w.random.IntN(2)
	if w.random.IntN(100) == 0 {
		n = w.random.IntN(300)
	}
	w.commit(all[w.random.IntN(len(all))], n)
}

func (w *simulated) fault() {
	all := w.sources()
	source := all[w.random.IntN(len(all))]
	switch w.random.IntN(6) {
	case 0, 1:
		w.broken[source] = !w.broken[source]
	case 2:
		if w.hasCrashes {
			w.crash()
		}
	case 3:
		w.order(source)
	case 4:
		if w.machine.Halted() {
			w.machine.Resume(w.now)
		} else if w.random.IntN(3) == 0 {
			w.machine.Halt()
		}
	default:
		w.now = w.now.Add(time.Duration(w.random.IntN(60)) * time.Minute) // nothing runs for a while
	}
	w.checkMachine()
}

// end ends all faults. Then everything must be delivered.
func (w *simulated) end() {
	w.calm = true
	clear(w.broken)
	w.machine.Resume(w.now)
	w.resumeAll()
	for _, source := range w.sources() {
		w.commitWanted(source)
	}
	w.settle(100 * time.Hour)
	w.check(w.seed)
	for source, row := range w.rows {
		if row.State != lane.Paused {
			w.t.Errorf("seed %d: the row of %s is left: %+v", w.seed, source, row)
		}
	}
}

// Whatever fails, every event is delivered, in order per account, and a takeover at any time would skip none.
func TestSimulatedFaultsSkipNoDelivery(t *testing.T) {
	t.Parallel()
	simulation.Run(t, 20_000, func(s *simulation.Scheduler) func() { return newSimulated(s).end })
}
