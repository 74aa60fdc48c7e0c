package lane

import "time"

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
