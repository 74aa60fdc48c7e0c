// Package must ends a test that cannot continue after an error. Start with OK.
package must

import "testing"

// OK fails the test immediately if err is not nil. Call it only in the goroutine of the test.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
