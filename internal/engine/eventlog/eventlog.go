// Package eventlog is a durable log, divided into buckets, between the listeners that receive frames and the workers
// that store events.
//
// An entry that Publish has acknowledged survives the loss of any process and, with three replicas, of any one
// machine. Readers follow buckets from positions that they keep themselves; they acknowledge nothing. The log keeps
// entries until Trim drops what is stored elsewhere, and refuses new ones when it is full. If its disks are lost, its
// entries are too: State has an epoch that changes then, so that readers and writers notice.
//
// There are two implementations: JetStream (jetstream.go), and PostgreSQL for a single machine without JetStream
// (store.go). Both pass the suite of package eventlogtest. A Batcher (batcher.go) groups many small records into few
// entries. Start with the interface Log.
package eventlog

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/natslink"
)

// Entry is the data of one call of Publish.
type Entry struct {
	Bucket int
	// Seq is the position of the entry. Positions grow within a bucket, with gaps.
	Seq  uint64
	Data []byte
	// Traces are those of its records that are traced.
	Traces []Trace
}

// State describes the part of a log that a bucket is in.
type State struct {
	// Epoch identifies the log. It changes when the log was lost or recreated; positions of another epoch are
	// meaningless.
	Epoch string
	// First and Last are the lowest and the highest position; First is Last+1 if the log is empty.
	First, Last uint64
	// Used is the share of the maximum size that is used, from 0 to 1; 0 if there is no maximum.
	Used float64
}

// Log is a log that is divided into buckets. It is safe for concurrent use.
type Log interface {
	// Publish appends an entry to a bucket. If it returns nil, the entry is on disk; with several replicas, on a
	// majority of them. If it returns an error, the entry may still have been stored. ErrFull means that it was not. The
	// id must be unique over all buckets: an id that is published again within two minutes is stored once. The caller may
	// reuse data after Publish has returned. traces are stored with the entry.
	Publish(ctx context.Context, bucket int, id string, data []byte, traces ...Trace) error
	// Read follows the given buckets, each from the entry after its position, in order. To make sure that the positions
	// are of this log, call State after Read and compare its epoch with the one that was stored with the positions.
	Read(ctx context.Context, after map[int]uint64) (Reader, error)
	// State returns the state of the part of the log that a bucket is in, and creates that part if it does not exist,
	// unless Config.KeepStreams is set.
	State(ctx context.Context, bucket int) (State, error)
	// States is State for many buckets, with as few requests as possible.
	States(ctx context.Context, buckets []int) (map[int]State, error)
	// Trim drops entries of buckets up to the given positions, inclusive. All readers must have read them. It may keep
	// some of them, unless the log is more than half full.
	Trim(ctx context.Context, upTo map[int]uint64) error
}

// Reader follows buckets. It is not safe for concurrent use.
type Reader interface {
	// Next waits for entries and returns them. It returns no entries and no error if only Reached has advanced. It
	// recovers from transient errors itself. ErrLost means that the log does not exist any more or ends before what
	// was read; the reader is then useless. If ctx ends, nothing is lost, and Next can be called again.
	Next(ctx context.Context) ([]Entry, error)
	// Reached returns, for each bucket, the position up to which Next has returned all entries. It also advances for
	// buckets without new entries.
	Reached() map[int]uint64
	// Close ends the reader. It must not be called during Next.
	Close()
}

var (
	// ErrLost means that entries which were read before are not in the log any more, or that the log was recreated.
	ErrLost = errors.New("the event log lost entries or was recreated; its writers must send what was not stored")
	// ErrFull means that the log has its maximum size. It accepts entries again when others have been trimmed.
	ErrFull = errors.New("the event log is full")
	// ErrTooBig means that an entry or a record is longer than MaxData or MaxRecord.
	ErrTooBig = errors.New("too big for the event log")
	// ErrClosed means that a Batcher or a Reader was closed.
	ErrClosed = errors.New("closed")
)

// MaxData is the maximum length of an entry: the message size of the server, 1 MiB, less room for the headers.
const MaxData = 1<<20 - 8<<10

// Config holds the settings of a log.
type Config struct {
	// URL names the NATS servers.
	URL secret.String
	// Name identifies the connection in the server's list of connections.
	Name   string
	Access natslink.Access
	// Buckets is the number of buckets, which are numbered from 0. Default: 256.
	Buckets int
	// Streams is the number of streams that the buckets are distributed over. Default: 1. More streams help only on
	// more machines. If this number changes, buckets that move to another stream start with an empty log of another
	// epoch.
	Streams int
	// Replicas is the number of servers that store an entry, 1 or 3. Default: 1.
	Replicas int
	// MaxBytes limits the size of one stream on disk; beyond it Publish fails with ErrFull. Default: 1 GiB.
	MaxBytes int64
	// KeepStreams means that this node neither creates nor changes streams, and waits until another node has created
	// them. A role that may change a stream can also read it, by having its messages published elsewhere.
	KeepStreams bool
	// Patience is how long Publish retries. Default: 15 s, because the election of a leader takes up to 9 s.
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
	if c.Patience <= 0 {
		c.Patience = 15 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// duplicateWindow is how long JetStream remembers ids.
const duplicateWindow = 2 * time.Minute

// The pauses between attempts double from minBackoff to maxBackoff.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Second
)

// backOff waits twice as long as the last time, and returns that time. It returns false if ctx ended first.
func backOff(ctx context.Context, last time.Duration) (time.Duration, bool) {
	next := min(max(2*last, minBackoff), maxBackoff)
	timer := time.NewTimer(next)
	defer timer.Stop()
	select {
	case <-timer.C:
		return next, true
	case <-ctx.Done():
		return next, false
	}
}

// retry calls attempt until it succeeds, fails with final set, or patience is over. Each attempt has its own timeout.
func retry(ctx context.Context, patience time.Duration, attempt func(ctx context.Context) (final bool, err error)) error {
	over, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var waited time.Duration
	for {
		once, stop := context.WithTimeout(over, attemptTimeout)
		final, err := attempt(once)
		stop()
		if err == nil || final {
			return err
		}
		var again bool
		if waited, again = backOff(over, waited); !again {
			if ctx.Err() != nil {
				return errors.Join(ctx.Err(), err)
			}
			return err
		}
	}
}

// attemptTimeout bounds one request to the server.
const attemptTimeout = 3 * time.Second
