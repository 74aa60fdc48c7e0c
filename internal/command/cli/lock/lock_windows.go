package lock

import (
	"os"

	"golang.org/x/sys/windows"
)

// File locks an open file until it is closed. It returns ErrTaken without waiting if another process holds the lock. It
// locks a byte far past the content, because on Windows other processes cannot read locked bytes.
func File(file *os.File) error { return lockHandle(windows.Handle(file.Fd())) }

// Path locks the named file until the process ends, and creates it if it does not exist. It returns ErrTaken without
// waiting if the lock is held.
func Path(name string) error {
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	// Use a plain handle: the garbage collector would close an unreferenced os.File and so release the lock.
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
