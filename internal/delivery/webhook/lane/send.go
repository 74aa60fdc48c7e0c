package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// Job is a delivery to carry out.
type Job struct {
	Lane  *Lane
	Hook  *Hook
	Event event.Stored
	// Attempt counts from 1. Prev is the sequence of the last wanted event before this one; 0 if unknown.
	Attempt int
	Prev    int64
	// Prompt means that nothing but us delays the delivery: it is the first attempt, and the lane keeps up.
	Prompt bool
	// Grant is set for a permit from RequestPermit and must be called with the job. The other exported fields are empty
	// then.
	Grant func(*Job)

	// Holder is the value that HoldBucket was called with.
	Holder any

	host  *host
	class class
	run   int
	// afterHead means that the event was sent although the first event of its lane was not delivered.
	afterHead bool
}

// Next returns a delivery that may start now; nil if there is none. The caller must call Done for it.
func (m *Machine) Next(now time.Time) *Job {
	for !m.halted {
		w, h, c, ok := m.gate.pickWaiter()
		if !ok {
			return nil
		}
		h.lastUsed = now
		if w.lane == nil {
			return &Job{Grant: w.grant, host: h, class: c}
		}
		if job := m.startDelivery(w.lane, h, now); job != nil {
			job.class = c
			return job
		}
		m.gate.release(h, c, 0)
	}
	return nil
}

// startDelivery starts the next delivery of a lane, which the gate has picked. It returns nil if the lane changed while
// it was queued and cannot send now.
func (m *Machine) startDelivery(l *Lane, h *host, now time.Time) *Job {
	l.queuedAt = nil
	if m.lanes[l.key] != l || !l.bucket.isRunning() || !l.phase.Tries() || m.IsHeld(l.org) ||
		l.hookState != hookReady || l.strays > 0 || l.inFlight >= l.maxInFlight() {
		delete(h.extraTries, l)
		return nil
	}
	if m.laneHost(l) != h || !h.admits(l) {
		m.advance(l, now)
		return nil
	}
	one := l.nextEvent()
	if l.phase == phase.ProbingNext {
		one = l.nextAfterHead()
	}
	if one == nil {
		m.fire(l, phase.Aborted, occasion{now: now})
		m.advance(l, now)
		return nil
	}
	one.inFlight = true
	l.inFlight++
	l.bucket.inFlight++
	job := &Job{
		Lane: l, Hook: l.hook, Event: one.event, Attempt: 1, Prev: one.prev, Holder: l.bucket.holder, host: h,
		run: l.run, afterHead: l.phase == phase.ProbingNext,
	}
	if one == &l.items[0] {
		job.Attempt += l.row.HeadTries
	}
	job.Prompt = job.Attempt == 1 && l.phase == phase.Live
	m.advance(l, now)
	return job
}

// RequestPermit queues a request to send to a host outside a lane. Next returns the permit as a job whose Grant is
// grant, and Done must follow.
func (m *Machine) RequestPermit(org id.Org, hostName string, grant func(*Job)) {
	m.gate.enqueue(m.ensureHost(org, hostName), waiter{grant: grant}, troubled)
}

// IsHostDown reports whether the breaker of a host is open.
func (m *Machine) IsHostDown(org id.Org, hostName string) bool {
	h := m.hosts[hostKey{org, hostName}]
	return h != nil && h.breaker == breakerOpen
}

func (m *Machine) Done(job *Job, r Result, now time.Time) Outcome {
	if m.isSuspended(job.host.key.org) && Classify(r) != Delivered {
		r = Result{Took: r.Took, Aborted: true} // no endpoint fails while its organisation is suspended
	}
	h, outcome := job.host, Classify(r)
	h.adaptLimit(r, now, m.HostMax)
	m.gate.release(h, job.class, r.Took)
	l := job.Lane
	if l == nil {
		return outcome
	}
	l.bucket.inFlight--
	delete(h.extraTries, l)
	switch b := l.bucket; {
	case b.feed != nil && b.held && job.Hook.Gen == b.feed.hook.Gen:
		m.recordFeedResult(l, r, outcome, now)
	case b.feed != nil:
	default:
		m.recordHostResult(h, job, r, outcome, now)
	}
	if h.probe == l {
		h.probe = nil
	}
	if job.run != l.run || m.lanes[l.key] != l {
		l.strays--
		m.advance(l, now)
		return outcome
	}
	l.inFlight--
	one := l.findEvent(job.Event.Seq)
	if one == nil {
		m.advance(l, now)
		return outcome
	}
	one.inFlight = false
	if l.bucket.feed != nil && outcome == Gone {
		outcome = Aborted // it is the endpoint that is gone
	}
	m.applyOutcome(l, one, job, r, outcome, now)
	m.markChanged(l)
	m.advance(l, now)
	if m.IsHeld(l.org) || !l.phase.Tries() {
		l.unload()
	}
	if l.bucket.feed != nil && l.bucket.feed.row.State != Live {
		m.rewind(l)
	}
	return outcome
}

// recordHostResult tells the breaker of a host how a delivery ended.
func (m *Machine) recordHostResult(h *host, job *Job, r Result, outcome Outcome, now time.Time) {
	switch outcome {
	case Down:
		m.recordHostFailure(h, job, r, now)
	case Delivered, Refused, Gone:
		m.recordHostSuccess(h, now)
	case Aborted:
	}
}

// triggers are those of the outcomes.
var triggers = map[Outcome]phase.Trigger{
	Delivered: phase.Delivered, Down: phase.EndpointFailed, Refused: phase.EventRefused, Gone: phase.EndpointGone,
	Aborted: phase.Aborted,
}

// applyOutcome updates a lane after a delivery of one of its events.
func (m *Machine) applyOutcome(l *Lane, one *item, job *Job, r Result, outcome Outcome, now time.Time) {
	if outcome != Delivered && job.Hook.Gen != l.row.Gen {
		outcome = Aborted // the result says nothing about the webhook as it is now
	}
	isLate := !l.phase.Tries()
	switch {
	case outcome == Delivered:
		one.done = true
		// Even if the lane was paused in the meantime, the first event must not follow as if it were in order.
		if head := &l.items[0]; job.afterHead && head != one {
			m.setAside(l, head, now)
		}
	case outcome == Aborted, isLate:
		m.fire(l, triggers[outcome], occasion{now: now, sent: one, result: r})
		return
	case outcome != Gone && l.phase != phase.ProbingNext:
		m.countHeadTry(l, one, r, now)
	}
	l.row.LastStatus, l.row.LastError = r.Status, r.Failure
	l.markRowStale()
	m.fire(l, triggers[outcome], occasion{now: now, sent: one, result: r})
	if one.done {
		l.advanceCursor()
	}
}

// countHeadTry counts a failed try if it was of the first event.
func (m *Machine) countHeadTry(l *Lane, one *item, r Result, now time.Time) {
	if one != &l.items[0] {
		return
	}
	l.row.HeadTries++
	switch {
	case r.Status == 0:
		l.row.HeadSince = time.Time{}
	case l.row.HeadSince.IsZero():
		l.row.HeadSince = now
	}
}
