package terminal

import "golang.org/x/sys/unix"

// How the state of a terminal is read and written.
const (
	read  = unix.TCGETS
	write = unix.TCSETS
)
