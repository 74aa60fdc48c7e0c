package event

// Deps returns the dependencies.
func (s *Store) Deps() *Deps { return &s.deps }
