package endpoint

// CheckJSON opens the body check to fuzzing.
var CheckJSON = checkJSON

// Reason is the problem that a stream ended with.
func (s *Events) Reason() string { return s.reason }

// Places is how many bodies and requests have a place, as all counters together say.
func (t *Table) Places() (bodies, working int) {
	t.places.mu.Lock()
	defer t.places.mu.Unlock()
	for _, n := range t.places.bySource {
		bodies += n
	}
	for _, of := range t.places.byOrg {
		bodies += of.bodies
		working += of.working
	}
	return bodies, working + t.places.working
}
