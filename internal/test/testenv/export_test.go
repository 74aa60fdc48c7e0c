package testenv

import "testing"

// The parts of the check of events that its tests use.
var (
	EventFault    = eventFault
	EmittedFaults = emittedFaults
)

const DataPart = dataPart

// UncheckedDatabase returns a database whose events are not checked when the test ends.
func UncheckedDatabase(t testing.TB) string {
	t.Helper()
	return testDatabase(t, requireEngines(t))
}
