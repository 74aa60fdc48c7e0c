package lane

import (
	"container/list"
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
)

// Check verifies what must hold between any two calls of a machine: timers are set exactly where they are needed, and
// the counts of deliveries in flight agree.
func (m *Machine) Check() error {
	var errs []error
	failf := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	inFlight := map[*bucket]int{}
	for _, l := range m.lanes {
		inFlight[l.bucket] += l.inFlight + l.strays
		l.check(failf)
	}
	hosts, buckets := 0, 0
	queued, down := map[*Lane]int{}, map[*Lane]int{}
	for _, h := range m.hosts {
		hosts += h.inFlight[healthy] + h.inFlight[troubled]
		for _, q := range h.waiters {
			for _, w := range q.list[q.first:] {
				if queued[w.lane]++; w.lane != nil && w.lane.queuedAt != h {
					failf("%s waits at %s, but does not know", w.lane.source, h.key.name)
				}
			}
		}
	}
	for _, h := range m.hosts {
		for _, lanes := range []*list.List{&h.working, &h.failing} {
			for one := lanes.Front(); one != nil; one = one.Next() {
				l := one.Value.(*Lane)
				if down[l]++; down[l] > 1 || l.downAt != h || m.lanes[l.source] != l {
					failf("%s is %d times in the list of %s", l.source, down[l], h.key.name)
				}
			}
		}
	}
	for _, l := range m.lanes {
		if (l.downAt != nil) != (down[l] == 1) {
			failf("%s is %d times in the list of its host", l.source, down[l])
		}
		if (l.queuedAt != nil) != (queued[l] == 1) {
			failf("%s waits %d times for a permit: %t", l.source, queued[l], l.queuedAt != nil)
		}
	}
	for _, b := range m.buckets {
		buckets += b.inFlight
		if b.inFlight != inFlight[b] {
			failf("bucket %d counts %d deliveries in flight, its lanes %d", b.number, b.inFlight, inFlight[b])
		}
	}
	if m.gate.inFlight != hosts || hosts < buckets {
		failf("in flight: %d by gate, %d by hosts, %d by buckets", m.gate.inFlight, hosts, buckets)
	}
	return errors.Join(errs...)
}

func (l *Lane) check(failf func(string, ...any)) {
	if waits := l.phase == phase.Waiting || l.phase == phase.HostDown; waits != (l.timer.index > 0) {
		failf("%s is %s, and its timer is set: %t", l.source, l.phase, l.timer.index > 0)
	}
	if (l.phase == phase.HostDown) != (l.downAt != nil) {
		failf("%s is %s, and waits for a host: %t", l.source, l.phase, l.downAt != nil)
	}
	if (l.fault == faultEndpoint) != (l.row.FailCount > 0) || l.phase == phase.Live && l.fault != faultNone {
		failf("%s is %s with fault %d after %d failures", l.source, l.phase, l.fault, l.row.FailCount)
	}
	if !l.phase.Tries() && l.inFlight == 0 && len(l.items) > 0 {
		failf("%s is %s and holds %d events in memory", l.source, l.phase, len(l.items))
	}
	inFlight, last := 0, l.cursor
	for _, one := range l.items {
		if one.inFlight {
			inFlight++
		}
		if one.event.Seq <= last {
			failf("%s holds %d after %d", l.source, one.event.Seq, last)
		}
		last = one.event.Seq
	}
	if inFlight != l.inFlight {
		failf("%s counts %d deliveries in flight, its events %d", l.source, l.inFlight, inFlight)
	}
	if last > l.tail {
		failf("%s holds %d, and its tail is %d", l.source, last, l.tail)
	}
}
