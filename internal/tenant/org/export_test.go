package org

// Deps returns the dependencies.
func (s *Orgs) Deps() *Deps { return &s.deps }
