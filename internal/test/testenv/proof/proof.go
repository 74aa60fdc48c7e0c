// Package proof selects between the two forms of a test. The form of CI is short and holds on a machine of any speed. The
// form of `make proof` is long, needs a quiet machine, and limits time.
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
