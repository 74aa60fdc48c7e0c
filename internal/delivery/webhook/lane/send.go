package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
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
	// Grant is set for a permit from RequestPermit and must be called with the job. The other exported fields are empty
	// then.
	Grant func(*Job)

	// Holder is the value that HoldBucket was called with.
	Holder any

	host      *host
	class     class
	run       int
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
	able := l.row.State.sends() || l.row.State == Backoff && l.probing
	if m.lanes[l.source] != l || !l.bucket.isRunning() || !able || m.IsHeld(l.org) || l.hookState != hookReady ||
		l.strays > 0 || l.inFlight >= l.maxInFlight() {
		delete(h.extraTries, l)
		return nil
	}
	if m.laneHost(l) != h || !h.admits(l) {
		m.advance(l, now)
		return nil
	}
	one := l.nextEvent()
	if l.afterHead {
		one = l.nextAfterHead()
	}
	if one == nil {
		l.afterHead = false
		m.advance(l, now)
		return nil
	}
	one.inFlight = true
	l.inFlight++
	l.bucket.inFlight++
	job := &Job{
		Lane: l, Hook: l.hook, Event: one.event, Attempt: 1, Prev: one.prev, Holder: l.bucket.holder, host: h,
		run: l.run, afterHead: l.afterHead,
	}
	if one == &l.items[0] {
		job.Attempt += l.row.HeadTries
	}
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

// Done reports the result of a delivery and returns its outcome.
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
	switch outcome {
	case Down:
		m.recordHostFailure(h, job, r, now)
	case Delivered, Refused, Gone:
		m.recordHostSuccess(h, now)
	case Aborted:
	}
	if h.probe == l {
		h.probe = nil
	}
	if job.run != l.run || m.lanes[l.source] != l {
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
	m.applyOutcome(l, one, job, r, outcome, now)
	m.markChanged(l)
	m.advance(l, now)
	if m.IsHeld(l.org) || l.row.State != Live && !l.row.State.sends() && !l.probing {
		l.unload()
	}
	return outcome
}

// applyOutcome updates a lane after a delivery. An event that its receiver keeps refusing becomes a side delivery, and
// an endpoint that is down makes the lane back off. If the first event blocks the lane for long, the one after it is
// tried: a success shows that the first event is the problem, and it becomes a side delivery.
func (m *Machine) applyOutcome(l *Lane, one *item, job *Job, r Result, outcome Outcome, now time.Time) {
	if outcome == Aborted || outcome != Delivered && job.Hook.Gen != l.row.Gen ||
		outcome != Delivered && !l.row.State.sends() && !l.probing {
		l.afterHead = false
		return // the result says nothing about the endpoint in its current state
	}
	l.row.LastStatus, l.row.LastError = r.Status, r.Failure
	l.markRowStale()
	switch outcome {
	case Delivered:
		m.markDelivered(l, one, job, now)
	case Gone:
		m.disable(l, ReasonGone, now)
	case Refused:
		if job.afterHead {
			m.blameEndpoint(l, r, now)
			return
		}
		m.countHeadTry(l, one, r, now)
		if l.row.HeadTries > len(m.EventDelays) {
			m.divertEvent(l, one, now)
			l.advanceCursor()
			m.resumeLane(l)
			return
		}
		if l.fault == faultHost {
			l.fault = faultNone
		}
		m.waitUntil(l, now.Add(m.EventDelays[max(l.row.HeadTries, 1)-1]))
	case Down:
		if job.afterHead {
			m.blameEndpoint(l, r, now)
			return
		}
		m.countHeadTry(l, one, r, now)
		if one == &l.items[0] && l.inFlight == 0 && l.nextAfterHead() != nil && m.isHeadBlocking(l, now) {
			l.afterHead, l.headResult, l.probing = true, r, true
			return
		}
		m.backOff(l, r, now)
	case Aborted:
	}
}

// blameEndpoint backs off because the event after a failing first event failed as well: the endpoint is at fault, not
// the event.
func (m *Machine) blameEndpoint(l *Lane, _ Result, now time.Time) {
	l.afterHead = false
	m.backOff(l, l.headResult, now)
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

// isHeadBlocking reports whether the first event has failed for so long that the one after it is tried.
func (m *Machine) isHeadBlocking(l *Lane, now time.Time) bool {
	return l.row.HeadTries >= m.BlockTries && !l.row.HeadSince.IsZero() && now.Sub(l.row.HeadSince) >= m.BlockFor
}

// markDelivered records a successful delivery. After a long failure, or if the webhook had been disabled, it adds a
// notice of the recovery.
func (m *Machine) markDelivered(l *Lane, one *item, job *Job, now time.Time) {
	one.done = true
	if job.afterHead {
		l.afterHead = false
		m.divertEvent(l, &l.items[0], now)
	}
	l.advanceCursor()
	if !l.row.State.sends() && !l.probing {
		return // it was in flight when another delivery failed or the lane was paused
	}
	if since := l.row.FailSince; !since.IsZero() && now.Sub(since) >= m.NotifyAfter || l.row.Reason != "" {
		m.notices = append(m.notices, Notice{
			Org: l.org, Source: l.source, Recovered: true, Reason: l.row.Reason, Since: since, At: now, Hook: l.hook,
		})
	}
	m.resumeLane(l)
}

// resumeLane ends a backoff and clears the failures.
func (m *Machine) resumeLane(l *Lane) {
	l.probing = false
	l.clearFailures()
	l.row.Reason = ""
	if l.row.State == Backoff {
		l.row.State, l.row.NextAt = Draining, time.Time{}
	}
	l.markRowStale()
}

// divertEvent takes an event out of the lane and retries it as a side delivery, out of order.
func (m *Machine) divertEvent(l *Lane, one *item, now time.Time) {
	one.done = true
	tries := l.row.HeadTries
	m.sideDeliveries = append(m.sideDeliveries, SideDelivery{
		Org: l.org, Source: l.source, Seq: one.event.Seq, Attempt: tries, Since: now, NextAt: now.Add(m.Delay(max(tries, 1), m.chance())),
	})
}

// backOff lets a lane wait because its endpoint fails, or disables it when it has failed for GiveUp.
func (m *Machine) backOff(l *Lane, r Result, now time.Time) {
	if l.row.FailSince.IsZero() {
		l.row.FailSince = now
	}
	if now.Sub(l.row.FailSince) >= m.GiveUp {
		m.disable(l, ReasonFailing, now)
		return
	}
	l.row.FailCount++
	l.fault = faultEndpoint
	at := now.Add(m.Delay(l.row.FailCount, m.chance()))
	if r.RetryAfter > 0 {
		at = now.Add(min(r.RetryAfter, m.MaxRetryAfter))
	}
	if end := l.row.FailSince.Add(m.GiveUp); at.After(end) {
		at = end
	}
	m.waitUntil(l, at)
}

func (m *Machine) waitUntil(l *Lane, until time.Time) {
	l.row.State, l.row.NextAt, l.probing = Backoff, until, false
	l.markRowStale()
	m.timers.set(&l.timer, until)
}

// The reasons in Row.Reason. ReasonGone and ReasonFailing are those of disabled lanes.
const (
	ReasonGone    = "gone"
	ReasonFailing = "failing"
	// ReasonOperator marks lanes that an operator has paused.
	ReasonOperator = "operator"
)

// disable stops a lane until its owner acts, and adds a notice.
func (m *Machine) disable(l *Lane, reason string, now time.Time) {
	if l.row.FailSince.IsZero() {
		l.row.FailSince = now
	}
	l.row.State, l.row.Reason, l.row.NextAt, l.probing, l.afterHead = Disabled, reason, time.Time{}, false, false
	l.markRowStale()
	m.timers.stop(&l.timer)
	m.notices = append(m.notices, Notice{
		Org: l.org, Source: l.source, Reason: reason, Since: l.row.FailSince, At: now, Hook: l.hook,
	})
}
