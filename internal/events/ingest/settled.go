package ingest

import (
	"context"
	"sync"

	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// Settling tells when the store has everything that the log contained. A listener that takes over a shard waits for it:
// before that the watermark is old, and the listener would fetch frames again that are already in the log. It is safe
// for concurrent use.
type Settling struct {
	Store interface {
		Progress(ctx context.Context, bucket int) (event.Progress, error)
	}
	Events eventlog.Log

	mu sync.Mutex
	// wanted is the state of the log at the first call for a bucket.
	wanted map[int]eventlog.State
}

// Settled reports whether the store has everything that the log contained of a bucket at the first call. Once it has
// returned true, the next call starts over.
func (s *Settling) Settled(ctx context.Context, bucket int) (bool, error) {
	s.mu.Lock()
	want, asked := s.wanted[bucket]
	s.mu.Unlock()
	if !asked {
		state, err := s.Events.State(ctx, bucket)
		if err != nil {
			return false, err
		}
		want = state
	}
	p, err := s.Store.Progress(ctx, bucket)
	if err != nil {
		return false, err
	}
	if asked && p.LogEpoch != want.Epoch { // the log was replaced: the next call reads the state of the new one
		s.mu.Lock()
		delete(s.wanted, bucket)
		s.mu.Unlock()
		return false, nil
	}
	settled := want.Last < want.First || p.LogEpoch == want.Epoch && p.Committed >= want.Last
	s.mu.Lock()
	defer s.mu.Unlock()
	if settled {
		delete(s.wanted, bucket)
		return true, nil
	}
	if s.wanted == nil {
		s.wanted = map[int]eventlog.State{}
	}
	s.wanted[bucket] = want
	return false, nil
}
