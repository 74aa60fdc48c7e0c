//go:build unix

package lock

import (
	"os"

	"golang.org/x/sys/unix"
)

// File locks an open file until it is closed.
func File(file *os.File) error { return flock(int(file.Fd())) }

// Path locks the file of this name, which it makes if there is none, until the process ends.
func Path(name string) error {
	// A plain descriptor: an os.File would be closed, and the lock given up, once nothing refers to it.
	fd, err := unix.Open(name, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	if err := flock(fd); err != nil {
		_ = unix.Close(fd)
		return err
	}
	return nil
}

func flock(fd int) error {
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return ErrTaken
	}
	return nil
}
