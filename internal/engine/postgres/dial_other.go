//go:build !linux

package postgres

// setUserTimeout does nothing: only Linux, on which servers run, has the option under this name.
func setUserTimeout(int) error { return nil }
