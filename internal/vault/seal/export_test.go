package seal

import "github.com/prometheus/client_golang/prometheus/testutil"

// HandleShred is handleShred, for tests.
func (s *Sealer) HandleShred(org string, holder []byte) { s.handleShred(org, holder) }

// Watches reports whether the node has read all shreddings lately.
func (s *Sealer) Watches() bool { return s.watches() }

// Loads returns how many times data keys were read.
func (s *Sealer) Loads() float64 { return testutil.ToFloat64(s.metrics.loads) }
