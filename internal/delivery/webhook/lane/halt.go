package lane

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Halt lets nothing begin any more, for as long as it takes. What is under way ends as usual; what comes is not kept in memory but waits in
// the store, with a row for each lane as soon as it lags. Nobody's endpoint is held to have failed meanwhile.
func (m *Machine) Halt() {
	if m.halted {
		return
	}
	m.halted = true
	for _, l := range m.lanes {
		l.forget()
	}
}

// Halted says whether it is.
func (m *Machine) Halted() bool { return m.halted }

// Go ends a Halt: every lane goes on where it stood.
func (m *Machine) Go(now time.Time) {
	if !m.halted {
		return
	}
	m.halted = false
	for _, l := range m.lanes {
		if l.pending() {
			m.look(l)
			m.act(l, now)
		}
	}
}

// Suspend holds back the lanes of these orgs and of no others. It is like Halt for each of them: what is under way ends, what comes waits
// in the store. Their endpoints start afresh afterwards, because nothing can be known of them meanwhile: no failure is counted, and none
// from before leads to their being disabled.
func (m *Machine) Suspend(orgs map[id.Org]struct{}, now time.Time) {
	before := m.suspended
	m.suspended = orgs
	for _, h := range m.hosts {
		if _, was := before[h.key.org]; !was && m.isSuspended(h.key.org) {
			m.timers.stop(&h.timer)
			h.open, h.half, h.opens, h.window, h.fails = false, false, 0, 0, 0
			h.probe, h.elected, h.parked, h.who = nil, false, nil, h.who[:0]
		}
	}
	for _, l := range m.lanes {
		_, was := before[l.org]
		switch is := m.isSuspended(l.org); {
		case is && !was:
			m.calm(l)
			l.forget()
		case was && !is && l.pending():
			m.look(l)
			m.act(l, now)
		}
	}
}

func (m *Machine) isSuspended(org id.Org) bool {
	_, is := m.suspended[org]
	return is
}

// Held reports whether nothing may begin for an org.
func (m *Machine) Held(org id.Org) bool { return m.halted || m.isSuspended(org) }

// calm forgets what failed. What is paused or disabled stays so.
func (m *Machine) calm(l *Lane) {
	if l.row.State == Paused || l.row.State == Disabled {
		return
	}
	m.timers.stop(&l.timer)
	l.probing, l.beside, l.parked, l.volunteer, l.clean = false, false, false, false, false
	if l.row.State == Backoff {
		l.row.State = Draining
	}
	l.row.FailSince, l.row.FailCount, l.row.NextAt = time.Time{}, 0, time.Time{}
	l.row.HeadTries, l.row.HeadSince = 0, time.Time{}
	if l.wantsRow {
		l.dirty = true
		m.look(l)
	}
}
