package follow

import "syscall"

// How the state of a terminal is read and written.
const (
	readTerminal  = uintptr(syscall.TCGETS)
	writeTerminal = uintptr(syscall.TCSETS)
)
