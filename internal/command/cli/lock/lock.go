// Package lock keeps a file for one process at a time, on every system that the command line runs on. A lock ends with the
// process at the latest, however that ends.
package lock

import "errors"

// ErrTaken means that another process holds the lock.
var ErrTaken = errors.New("another process holds the lock")
