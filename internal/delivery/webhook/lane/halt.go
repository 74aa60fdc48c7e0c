package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane/phase"
)

// Halt starts no more deliveries until Resume. Deliveries in flight end as usual. New events are not kept in memory:
// they wait in the store, and each lane gets a row as soon as it lags. No endpoint fails because of a halt.
func (m *Machine) Halt() {
	if m.halted {
		return
	}
	m.halted = true
	for _, l := range m.lanes {
		l.unload()
	}
}

// Halted reports whether deliveries are stopped by Halt.
func (m *Machine) Halted() bool { return m.halted }

// Resume ends a Halt. Every lane continues where it stopped.
func (m *Machine) Resume(now time.Time) {
	if !m.halted {
		return
	}
	m.halted = false
	m.wakeFeeds()
	for l := m.newest; l != nil; l = l.older {
		if l.hasPending() {
			m.markChanged(l)
			m.advance(l, now)
		}
	}
}

// Suspend stops the lanes of exactly these organisations and resumes all others. It is like Halt for each of them:
// deliveries in flight end, new events wait in the store. Failures from before a suspension are cleared and none are
// counted during it, so that no endpoint is disabled because of it.
func (m *Machine) Suspend(orgs map[id.Org]struct{}, now time.Time) {
	before := m.suspended
	m.suspended = orgs
	for _, h := range m.hosts {
		if _, was := before[h.key.org]; !was && m.isSuspended(h.key.org) {
			m.timers.stop(&h.timer)
			h.breaker, h.openCount, h.releaseWindow, h.failures = breakerClosed, 0, 0, 0
			h.probe, h.failedSources = nil, h.failedSources[:0]
			clear(h.extraTries)
		}
	}
	for l := m.newest; l != nil; l = l.older {
		_, was := before[l.org]
		switch is := m.isSuspended(l.org); {
		case is && !was:
			m.fire(l, phase.OrgSuspended, occasion{now: now})
			l.unload()
		case was && !is && l.hasPending():
			m.markChanged(l)
			m.advance(l, now)
		}
	}
	m.resetSuspendedFeeds(before)
	m.wakeFeeds()
}

func (m *Machine) isSuspended(org id.Org) bool {
	_, is := m.suspended[org]
	return is
}

// IsHeld reports whether no delivery may start for an organisation.
func (m *Machine) IsHeld(org id.Org) bool { return m.halted || m.isSuspended(org) }
