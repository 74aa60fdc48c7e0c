// Package eventlog is a durable log in buckets, between those who hear of something and those who store it for good.
//
// What Publish has acknowledged survives the loss of any process and, with three replicas, of any one machine. Readers follow buckets
// from positions of their own and acknowledge nothing. The log forgets after some days, and its promise ends with its disks: State
// has an epoch by which everybody notices that a log is not the one it was.
//
// There are two: one on JetStream (jetstream.go), and one in PostgreSQL for a single box without JetStream (store.go). Both pass the
// suite of eventlogtest. A Batcher (batcher.go) puts many small records into few entries.
package eventlog

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Entry is what was published at once.
type Entry struct {
	Bucket int
	// Seq is its position. Positions of one bucket grow, with holes.
	Seq  uint64
	Data []byte
}

// State is what a log has.
type State struct {
	// Epoch changes when the log was lost or made anew: positions of another epoch mean nothing.
	Epoch string
	// First and Last bound the positions that are there; First is Last+1 if nothing is. A reader that stands before First-1 may have
	// missed entries that were too old.
	First, Last uint64
}

// Log is a log in buckets.
type Log interface {
	// Publish appends an entry to a bucket. When it returns nil the entry is on disk; with several replicas, on most of them. If it
	// returns an error the entry may be there all the same. An id is of one entry, in whichever bucket: the same id is stored once,
	// within two minutes. The data may be overwritten once Publish has returned.
	Publish(ctx context.Context, bucket int, id string, data []byte) error
	// Read gives the entries of buckets, of each those behind a position, and in order. To be sure that these are positions of this
	// log, compare the epoch of State after Read with that under which they were noted.
	Read(ctx context.Context, after map[int]uint64) (Reader, error)
	// State is asked of the part of the log that a bucket is in, and makes that part if it is not there.
	State(ctx context.Context, bucket int) (State, error)
	// States is State for many buckets, in as few questions as the log needs.
	States(ctx context.Context, buckets []int) (map[int]State, error)
}

// Reader follows buckets. It is for one goroutine.
type Reader interface {
	// Next waits for entries and returns some; none if only Reached has moved. It goes on by itself after any trouble that passes. ErrLost means that
	// the log has gone, or has gone back behind what was read: there is nothing more to read here. When the context ends nothing is
	// lost, and Next can be called again.
	Next(ctx context.Context) ([]Entry, error)
	// Reached is up to where Next has given everything there is, for each bucket, also for quiet ones.
	Reached() map[int]uint64
	// Close ends the reader. Next must not be under way.
	Close()
}

var (
	// ErrLost means that a log is not the one it was.
	ErrLost = errors.New("the event log has lost entries or was made anew; take up from what its writers can give again")
	// ErrTooBig means that an entry or a record does not fit.
	ErrTooBig = errors.New("too big for the event log")
	// ErrClosed means that a Batcher or a Reader was closed.
	ErrClosed = errors.New("closed")
)

// MaxData is the longest that an entry can be.
const MaxData = 1<<20 - 8<<10

// Config says where and how the log is kept. What is zero has a default.
type Config struct {
	URL secret.String
	// Name shows up in the server's list of connections.
	Name string
	// Buckets is how many there are, from 0; 256.
	Buckets int
	// Streams is over how many streams the buckets are spread; 1. More make sense on more machines only. A bucket that moves to
	// another stream starts with an empty log of another epoch.
	Streams int
	// Replicas is on how many servers an entry is kept, 1 or 3; 1.
	Replicas int
	// MaxBytes is what one stream may take of the disk before it drops the oldest; 1 GiB.
	MaxBytes int64
	// MaxAge is how long entries are kept; 72 h.
	MaxAge time.Duration
	// Patience is how long Publish tries; 15 s, because the choice of another leader takes up to 9.
	Patience time.Duration
	// Log may be nil.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Buckets <= 0 {
		c.Buckets = 256
	}
	c.Streams = max(c.Streams, 1)
	c.Replicas = max(c.Replicas, 1)
	if c.MaxBytes <= 0 {
		c.MaxBytes = 1 << 30
	}
	if c.MaxAge <= 0 {
		c.MaxAge = 72 * time.Hour
	}
	if c.Patience <= 0 {
		c.Patience = 15 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// duplicates is how long an id is remembered.
const duplicates = 2 * time.Minute

// pauses between tries grow from the first to the last.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)

// pause waits a little longer each time. It says false if the context ended.
func pause(ctx context.Context, last time.Duration) (time.Duration, bool) {
	next := min(max(2*last, firstPause), lastPause)
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return next, true
	case <-ctx.Done():
		return next, false
	}
}

// patiently tries until it works, fails for good, or has taken too long. Each try has a time of its own.
func patiently(ctx context.Context, patience time.Duration, try func(ctx context.Context) (final bool, err error)) error {
	over, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var waited time.Duration
	for {
		once, stop := context.WithTimeout(over, tryAtMost)
		final, err := try(once)
		stop()
		if err == nil || final {
			return err
		}
		var again bool
		if waited, again = pause(over, waited); !again {
			if ctx.Err() != nil {
				return errors.Join(ctx.Err(), err)
			}
			return err
		}
	}
}

// tryAtMost bounds one try of anything.
const tryAtMost = 3 * time.Second
