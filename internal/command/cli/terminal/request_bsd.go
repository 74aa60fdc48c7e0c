//go:build darwin || freebsd || netbsd || openbsd

package terminal

import "golang.org/x/sys/unix"

// ioctl requests that read and write the state of a terminal.
const (
	read  = unix.TIOCGETA
	write = unix.TIOCSETA
)
