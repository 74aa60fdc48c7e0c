package terminal

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Keys is not supported: a console read cannot be interrupted.
func Keys(*os.File) (restore func(), err error) { return nil, errors.ErrUnsupported }

// IsEchoing reports whether echo is on.
func IsEchoing(file *os.File) bool {
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(file.Fd()), &mode) == nil && mode&windows.ENABLE_ECHO_INPUT != 0
}
