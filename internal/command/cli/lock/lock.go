// Package lock provides exclusive file locks between processes, on all systems that the command line runs on. The
// system releases a lock when its process ends, even after a crash.
package lock

import "errors"

// ErrTaken means that another process holds the lock.
var ErrTaken = errors.New("another process holds the lock")
