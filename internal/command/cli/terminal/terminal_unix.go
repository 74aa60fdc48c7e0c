//go:build unix

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Keys makes reads return each key immediately, without Enter and without echo. A read without a key returns after 0.1
// s, because a blocking read could not be interrupted. The caller calls restore.
func Keys(file *os.File) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(int(file.Fd()), read)
	if err != nil {
		return nil, err
	}
	after := *before
	after.Lflag &^= unix.ICANON | unix.ECHO
	after.Cc[unix.VMIN], after.Cc[unix.VTIME] = 0, 1
	if err := unix.IoctlSetTermios(int(file.Fd()), write, &after); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(int(file.Fd()), write, before) }, nil
}

// IsEchoing reports whether echo is on.
func IsEchoing(file *os.File) bool {
	state, err := unix.IoctlGetTermios(int(file.Fd()), read)
	return err == nil && state.Lflag&unix.ECHO != 0
}
