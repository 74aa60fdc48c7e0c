//go:build unix

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Mute turns off echo. The caller calls restore.
func Mute(file *os.File) (restore func(), err error) {
	return change(file, func(state *unix.Termios) { state.Lflag &^= unix.ECHO })
}

// Keys makes reads return each key immediately, without Enter and without echo. A read without a key returns after 0.1
// s, because a blocking read could not be interrupted.
func Keys(file *os.File) (restore func(), err error) {
	return change(file, func(state *unix.Termios) {
		state.Lflag &^= unix.ICANON | unix.ECHO
		state.Cc[unix.VMIN], state.Cc[unix.VTIME] = 0, 1
	})
}

// Shows reports whether echo is on.
func Shows(file *os.File) bool {
	state, err := unix.IoctlGetTermios(int(file.Fd()), read)
	return err == nil && state.Lflag&unix.ECHO != 0
}

func change(file *os.File, edit func(*unix.Termios)) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(int(file.Fd()), read)
	if err != nil {
		return nil, err
	}
	after := *before
	edit(&after)
	if err := unix.IoctlSetTermios(int(file.Fd()), write, &after); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(int(file.Fd()), write, before) }, nil
}
