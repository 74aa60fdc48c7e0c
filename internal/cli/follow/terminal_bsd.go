//go:build darwin || freebsd || netbsd || openbsd

package follow

import "syscall"

// How the state of a terminal is read and written.
const (
	readTerminal  = uintptr(syscall.TIOCGETA)
	writeTerminal = uintptr(syscall.TIOCSETA)
)
