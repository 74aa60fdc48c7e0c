package lock

import (
	"os"

	"golang.org/x/sys/windows"
)

// File locks an open file until it is closed. It locks a byte far past the content: Windows would keep other processes from
// reading what is locked.
func File(file *os.File) error { return lockHandle(windows.Handle(file.Fd())) }

// Path locks the file of this name, which it makes if there is none, until the process ends.
func Path(name string) error {
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	// A plain handle: an os.File would be closed, and the lock given up, once nothing refers to it.
	handle, err := windows.CreateFile(text, windows.GENERIC_READ|windows.GENERIC_WRITE, windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE,
		nil, windows.OPEN_ALWAYS, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	if err := lockHandle(handle); err != nil {
		_ = windows.CloseHandle(handle)
		return err
	}
	return nil
}

func lockHandle(handle windows.Handle) error {
	place := &windows.Overlapped{OffsetHigh: 1 << 30}
	if err := windows.LockFileEx(handle, windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, place); err != nil {
		return ErrTaken
	}
	return nil
}
