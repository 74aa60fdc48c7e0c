package clock

import (
	"context"
	"sync/atomic"
	"time"
)

// Shared is a clock that follows the database's, so that all nodes agree about the time and a node whose own clock is
// wrong or jumps does no harm. Between two readings of the database's clock it advances with this machine's monotonic
// clock. It lags by at most the duration of a reading and, but for drift, never runs ahead. Before the first reading it
// is this machine's clock. It is safe for concurrent use.
//
// Its times have no monotonic reading of this machine. Deadlines of connections and contexts must come from Now instead.
type Shared struct{ last atomic.Pointer[reading] }

// reading is a time of the database, and the local time at which it arrived.
type reading struct{ theirs, ours time.Time }

// Now returns the database's time in UTC.
func (s *Shared) Now() time.Time {
	r := s.last.Load()
	if r == nil {
		return Now()
	}
	return r.at(time.Now())
}

// at returns the database's time at a local time.
func (r *reading) at(local time.Time) time.Time { return r.theirs.Add(local.Sub(r.ours)) }

// tolerance is how much slower than the database's clock this machine's may become before it is set again.
const tolerance = 20 * time.Millisecond

// Read reads the database's clock. A reading that only confirms what is known, within its own duration, changes nothing,
// so that the clock does not waver.
func (s *Shared) Read(ctx context.Context, database func(context.Context) (time.Time, error)) error {
	asked := time.Now()
	theirs, err := database(ctx)
	if err != nil {
		return err
	}
	next := &reading{theirs: theirs.UTC().Round(0), ours: time.Now()}
	took := next.ours.Sub(asked)
	// The true time of the database is now between theirs and theirs+took.
	if last := s.last.Load(); last != nil {
		if ahead := last.at(next.ours).Sub(next.theirs); ahead >= -tolerance && ahead <= took {
			return nil
		}
	}
	s.last.Store(next)
	return nil
}

// Follow reads the database's clock every d until ctx ends. It passes errors to failed.
func (s *Shared) Follow(ctx context.Context, d time.Duration, database func(context.Context) (time.Time, error), failed func(error)) {
	for range Ticks(ctx, d) {
		limited, cancel := context.WithTimeout(ctx, d)
		if err := s.Read(limited, database); err != nil && ctx.Err() == nil {
			failed(err)
		}
		cancel()
	}
}

// Ahead returns how far this machine's own clock is ahead of the database's; negative if it is slow.
func (s *Shared) Ahead() time.Duration { return time.Now().Round(0).Sub(s.Now()) }
