package endpoint

// CheckJSON is checkJSON, for fuzzing.
var CheckJSON = checkJSON

// Reason returns the code of the problem that ended the stream.
func (s *Events) Reason() string { return s.reason }

// InFlight returns the sums of the counters of bodies and of working requests.
func (t *Table) InFlight() (bodies, working int) {
	t.inFlight.mu.Lock()
	defer t.inFlight.mu.Unlock()
	for _, n := range t.inFlight.bySource {
		bodies += n
	}
	for _, of := range t.inFlight.byOrg {
		bodies += of.bodies
		working += of.working
	}
	return bodies, working + t.inFlight.working
}
