//go:build unix

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Mute stops showing what is typed.
func Mute(file *os.File) (restore func(), err error) {
	return change(file, func(state *unix.Termios) { state.Lflag &^= unix.ECHO })
}

// Keys gives each key at once, without Enter, and does not show it. A read ends after a tenth of a second also without a key: one that
// waits could not be broken off.
func Keys(file *os.File) (restore func(), err error) {
	return change(file, func(state *unix.Termios) {
		state.Lflag &^= unix.ICANON | unix.ECHO
		state.Cc[unix.VMIN], state.Cc[unix.VTIME] = 0, 1
	})
}

// Shows says whether what is typed is shown.
func Shows(file *os.File) bool {
	state, err := unix.IoctlGetTermios(int(file.Fd()), read)
	return err == nil && state.Lflag&unix.ECHO != 0
}

func change(file *os.File, to func(*unix.Termios)) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(int(file.Fd()), read)
	if err != nil {
		return nil, err
	}
	after := *before
	to(&after)
	if err := unix.IoctlSetTermios(int(file.Fd()), write, &after); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(int(file.Fd()), write, before) }, nil
}
