package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
)

// This file moves lanes from phase to phase as the table of package phase says.

// occasion is what a trigger comes with. sent and result are those of a delivery.
type occasion struct {
	now    time.Time
	sent   *item
	result Result
}

func (m *Machine) fire(l *Lane, on phase.Trigger, o occasion) {
	step, _ := phase.Next(l.phase, on, m.facts(l, o))
	m.setPhase(l, step.To)
	m.carryOut(l, step, o)
}

func (m *Machine) facts(l *Lane, o occasion) phase.Facts {
	isHead := o.sent != nil && o.sent == &l.items[0]
	return phase.Facts{
		HeadBlocked: isHead && l.inFlight == 0 && l.nextAfterHead() != nil && m.isHeadBlocking(l, o.now),
		TriesLeft:   l.row.HeadTries <= len(m.EventDelays),
		GaveUp:      !l.row.FailSince.IsZero() && o.now.Sub(l.row.FailSince) >= m.GiveUp,
	}
}

// isHeadBlocking reports whether the first event has failed for so long that the one after it is tried.
func (m *Machine) isHeadBlocking(l *Lane, now time.Time) bool {
	return l.row.HeadTries >= m.BlockTries && !l.row.HeadSince.IsZero() && now.Sub(l.row.HeadSince) >= m.BlockFor
}

// setPhase changes the phase of a lane. It ends what belongs to the old phase: the timer, and the wait for the host.
func (m *Machine) setPhase(l *Lane, to phase.Phase) {
	if l.phase == to {
		return
	}
	if storedState(l.phase) != storedState(to) {
		l.markRowStale()
	}
	m.timers.stop(&l.timer)
	l.leaveHost()
	l.phase = to
	if storedState(to) != Backoff {
		l.row.NextAt = time.Time{}
	}
	if to == phase.Live {
		l.fault = faultNone
	}
	m.markChanged(l)
}

// carryOut carries out the effect of a step. The lane is in the new phase.
func (m *Machine) carryOut(l *Lane, step phase.Step, o occasion) {
	switch step.Do {
	case phase.None:
	case phase.Recover:
		m.recoverLane(l, o.now)
	case phase.SetEventAside:
		m.setAside(l, o.sent, o.now)
		l.clearFailures()
		l.row.Reason = ""
	case phase.KeepHeadResult:
		l.headResult = o.result
	case phase.ScheduleRetry:
		if step.From == phase.ProbingNext {
			o.result = l.headResult
		}
		m.scheduleRetry(l, o)
	case phase.ScheduleEventRetry:
		if l.fault == faultHost {
			l.fault = faultNone
		}
		m.setRetry(l, o.now.Add(m.EventDelays[max(l.row.HeadTries, 1)-1]))
	case phase.Disable:
		m.disable(l, step.On, o.now)
	case phase.WaitForHost:
		m.waitForHost(l, step.From, o.now)
	case phase.DropMemory:
		l.unload()
	case phase.ClearFailures:
		// A failing endpoint may have nothing left to deliver, for example because its events have expired. Its next
		// failure is then its first.
		l.clearFailures()
	case phase.ClearTries:
		l.clearFailures()
		l.fault = faultNone
		l.row.HeadTries, l.row.HeadSince = 0, time.Time{}
		l.markRowStale()
		if l.phase != phase.Live {
			m.markChanged(l)
		}
	case phase.StartAfresh:
		l.setRow(Row{Gen: l.row.Gen})
		l.headStale = true
	}
}

// recoverLane forgets the failures of an endpoint that works. After a long failure, or if the webhook had been
// disabled, it adds a notice.
func (m *Machine) recoverLane(l *Lane, now time.Time) {
	if since := l.row.FailSince; !since.IsZero() && now.Sub(since) >= m.NotifyAfter || l.row.Reason != "" {
		m.notices = append(m.notices, Notice{
			Org: l.org, Source: l.source, Endpoint: l.bucket.endpoint(), Recovered: true, Reason: l.row.Reason, Since: since, At: now, Hook: l.hook,
		})
	}
	l.clearFailures()
	l.row.Reason = ""
}

// setAside takes an event out of the lane and retries it as a side delivery, out of order.
func (m *Machine) setAside(l *Lane, one *item, now time.Time) {
	one.done = true
	tries := l.row.HeadTries
	m.sideDeliveries = append(m.sideDeliveries, SideDelivery{
		Org: l.org, Source: l.source, Endpoint: l.bucket.endpoint(), Seq: one.event.Seq, Attempt: tries, Since: now,
		NextAt: now.Add(m.Delay(max(tries, 1), m.chance())),
	})
}

// scheduleRetry counts a failure of the endpoint and sets the time of the next attempt.
func (m *Machine) scheduleRetry(l *Lane, o occasion) {
	if l.row.FailSince.IsZero() {
		l.row.FailSince = o.now
	}
	l.row.FailCount++
	l.fault = faultEndpoint
	at := o.now.Add(m.Delay(l.row.FailCount, m.chance()))
	if o.result.RetryAfter > 0 {
		at = o.now.Add(min(o.result.RetryAfter, m.MaxRetryAfter))
	}
	if end := l.row.FailSince.Add(m.GiveUp); at.After(end) {
		at = end
	}
	m.setRetry(l, at)
}

func (m *Machine) setRetry(l *Lane, at time.Time) {
	l.row.NextAt = at
	m.timers.set(&l.timer, at)
}

// The reasons in Row.Reason. ReasonGone and ReasonFailing are those of disabled lanes.
const (
	ReasonGone    = "gone"
	ReasonFailing = "failing"
	// ReasonOperator marks lanes that an operator has paused.
	ReasonOperator = "operator"
)

// disable records why a lane is disabled, and adds a notice.
func (m *Machine) disable(l *Lane, on phase.Trigger, now time.Time) {
	if l.row.FailSince.IsZero() {
		l.row.FailSince = now
	}
	l.row.Reason = ReasonFailing
	if on == phase.EndpointGone {
		l.row.Reason = ReasonGone
	}
	m.notices = append(m.notices, Notice{
		Org: l.org, Source: l.source, Endpoint: l.bucket.endpoint(), Reason: l.row.Reason, Since: l.row.FailSince, At: now, Hook: l.hook,
	})
}

// waitForHost adds a lane to those that wait for its host. The lane counts as failing: its timer is set to when it must
// be disabled.
func (m *Machine) waitForHost(l *Lane, from phase.Phase, now time.Time) {
	if from == phase.Live {
		l.fault = faultHost
	}
	if l.row.FailSince.IsZero() {
		l.row.FailSince = now
	}
	l.markRowStale()
	m.timers.set(&l.timer, l.row.FailSince.Add(m.GiveUp))
	h := m.laneHost(l)
	h.hold(l)
	if at := h.earlyProbeAt(now); l.fault != faultEndpoint && at.Before(h.timer.at) {
		m.timers.set(&h.timer, at)
	}
	l.row.NextAt = h.timer.at
	l.unload()
}
