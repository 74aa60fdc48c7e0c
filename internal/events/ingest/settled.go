package ingest

import (
	"context"
	"sync"

	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// Settling says when the store has what the log held. A listener that takes over waits for it: before that, the watermark is old, and
// all that it would fetch again is in the log already.
type Settling struct {
	Store  *event.Store
	Events eventlog.Log

	mu sync.Mutex
	// wanted is what the log held when it was asked for first, by bucket.
	wanted map[int]eventlog.State
}

// Settled says whether the store has all that the log held of a bucket when it was first asked for.
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
	if asked && p.LogEpoch != want.Epoch { // that log is gone; what is wanted of the new one is asked for next time
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
