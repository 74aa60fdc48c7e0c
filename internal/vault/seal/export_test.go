package seal

// HandleShred is handleShred, for tests.
func (s *Sealer) HandleShred(org string, holder []byte) { s.handleShred(org, holder) }
