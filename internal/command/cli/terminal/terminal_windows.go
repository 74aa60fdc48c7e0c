package terminal

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Mute turns off echo. The caller calls restore.
func Mute(file *os.File) (restore func(), err error) {
	console := windows.Handle(file.Fd())
	var before uint32
	if err := windows.GetConsoleMode(console, &before); err != nil {
		return nil, err
	}
	if err := windows.SetConsoleMode(console, before&^windows.ENABLE_ECHO_INPUT); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(console, before) }, nil
}

// Keys is not supported: a console read cannot be interrupted.
func Keys(*os.File) (restore func(), err error) { return nil, errors.ErrUnsupported }

// Shows reports whether echo is on.
func Shows(file *os.File) bool {
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(file.Fd()), &mode) == nil && mode&windows.ENABLE_ECHO_INPUT != 0
}
