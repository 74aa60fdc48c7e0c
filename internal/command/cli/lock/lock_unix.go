//go:build unix

package lock

import (
	"os"

	"golang.org/x/sys/unix"
)

// File locks an open file until it is closed. It returns ErrTaken without waiting if another process holds the lock.
func File(file *os.File) error { return flock(int(file.Fd())) }

// Path locks the named file until the process ends, and creates it if it does not exist. It returns ErrTaken without
// waiting if the lock is held.
func Path(name string) error {
	// Use a plain descriptor: the garbage collector would close an unreferenced os.File and so release the lock.
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
