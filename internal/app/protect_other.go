//go:build !linux

package app

// Protect does nothing: only Linux has these settings.
func Protect() error { return nil }
