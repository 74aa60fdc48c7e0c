package org

func (s *Orgs) Deps() *Deps { return &s.deps }
