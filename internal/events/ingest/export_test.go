package ingest

import (
	"context"

	"github.com/stagedoor/stagedoor/internal/events/event"
)

// NewTrimmer returns the trimmer of a node that holds no buckets.
func NewTrimmer(d Deps) *trimmer { return &trimmer{g: New(d)} }

// Trim is trim, for tests.
func (t *trimmer) Trim(ctx context.Context) error { return t.trim(ctx) }

// Lag is lag, for tests.
func (t *trimmer) Lag() any { return t.lag() }

// Stepper does what Run does, one step at a time and without goroutines. After a step has failed, Resync must be called
// until it returns true.
type Stepper struct {
	g       *Ingest
	trimmer trimmer
}

// NewStepper returns a Stepper that holds no buckets. Its heads remember ringSize dedup keys.
func NewStepper(d Deps, ringSize int) *Stepper {
	g := New(d)
	g.ringSize = ringSize
	return &Stepper{g: g, trimmer: trimmer{g: g}}
}

// Take adds a bucket that was claimed.
func (s *Stepper) Take(p event.Progress) {
	s.g.apply(bucketChange{take: &p, done: make(chan struct{})})
}

// Drop removes a bucket.
func (s *Stepper) Drop(slot int) { s.g.apply(bucketChange{drop: slot, done: make(chan struct{})}) }

// Epoch returns the lease epoch of a bucket; 0 if it is not held.
func (s *Stepper) Epoch(slot int) int64 {
	if b := s.g.owned[slot]; b != nil {
		return b.Epoch
	}
	return 0
}

// PollOnce is pollOnce without the goroutine of the reader.
func (s *Stepper) PollOnce(ctx context.Context) error {
	if s.g.dirty {
		s.g.closeReader()
		if len(s.g.owned) == 0 {
			s.g.dirty = false
		} else if source, err := s.g.readFromPositions(ctx); err == nil {
			done := make(chan struct{})
			close(done)
			s.g.reader = &logReader{source: source, chunks: make(chan chunk, readAhead), stop: func() {}, done: done}
		}
	}
	return s.g.storeOutbox(ctx, s.g.slots())
}

// Read reads at most readAhead chunks of the log and stores them.
func (s *Stepper) Read(ctx context.Context, chunks int) error {
	r := s.g.reader
	if r == nil {
		return nil
	}
	for len(r.chunks) < min(chunks, readAhead) {
		entries, err := r.source.Next(ctx)
		c := chunk{entries: entries, err: err}
		if err == nil {
			c.reached = r.source.Reached()
		}
		r.chunks <- c
		if err != nil {
			break
		}
	}
	return s.g.storeChunks(ctx, <-r.chunks)
}

// AdvanceQuiet is advanceQuiet.
func (s *Stepper) AdvanceQuiet(ctx context.Context) error { return s.g.advanceQuiet(ctx) }

// Resync is resync.
func (s *Stepper) Resync(ctx context.Context) bool {
	s.g.mustResync = true
	s.g.resync(ctx)
	return !s.g.mustResync
}

// Evict drops the head of a source from memory.
func (s *Stepper) Evict(source string) { delete(s.g.heads, source) }

// Trim trims the log as the holder of trimmingBucket does.
func (s *Stepper) Trim(ctx context.Context) error {
	if !s.g.trims.Load() {
		s.trimmer = trimmer{g: s.g}
		return nil
	}
	return s.trimmer.trim(ctx)
}

// OwnersFor is how long what was read of orgs is used.
const OwnersFor = ownersFor
