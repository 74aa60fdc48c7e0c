package seal

// HeardShred is what a node does when it is poked.
func (s *Sealer) HeardShred(org string, holder []byte) { s.heardShred(org, holder) }
