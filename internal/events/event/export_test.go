package event

func (s *Store) Deps() *Deps { return &s.deps }
