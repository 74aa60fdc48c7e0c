// Package proof selects between two forms of a test. In CI a test is short and passes on a machine of any speed. In
// `make proof` it is long, needs a quiet machine, and also checks time limits.
package proof

import "os"

// Running reports whether this run is `make proof`.
func Running() bool { return os.Getenv("STAGEDOOR_PROOF") != "" }

// Scale returns the first value in CI and the second in a proof.
func Scale[T any](ci, proof T) T {
	if Running() {
		return proof
	}
	return ci
}
