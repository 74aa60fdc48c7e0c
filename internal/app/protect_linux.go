package app

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Protect keeps the memory of this process, which holds keys and sessions, from the disk and from other processes of the
// same user: it turns core dumps off, and with them the rights of other processes to trace it or to read its memory. Root
// keeps these rights. The programs that the process starts inherit only the former.
func Protect() error {
	var failed error
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		failed = fmt.Errorf("turn core dumps off: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		failed = errors.Join(failed, fmt.Errorf("protect the memory of the process: %w", err))
	}
	return failed
}
