package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/ingest"
)

// crowdedLog is a log that reports that it is crowded.
type crowdedLog struct{ eventlog.Log }

func (l crowdedLog) States(ctx context.Context, buckets []int) (map[int]eventlog.State, error) {
	states, err := l.Log.States(ctx, buckets)
	for bucket, state := range states {
		state.Used = eventlog.Crowded
		states[bucket] = state
	}
	return states, err
}

// Entries are dropped ten minutes after they were stored, or immediately if the log is crowded. Entries that are not stored
// are never dropped, also if the store has lost some that it had.
func TestOnlyStoredEntriesAreTrimmed(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := string(id.New[id.Account]())
	bucket := event.Bucket(a)
	clock := now()
	deps := ingest.Deps{Store: r.store, Events: r.log, Log: quiet(), Now: func() time.Time { return clock }}
	trimmer := ingest.NewTrimmer(deps)
	crowded := deps
	crowded.Events = crowdedLog{r.log}
	trim := func(after time.Duration, wantFirst uint64, wantLag time.Duration) {
		t.Helper()
		clock = clock.Add(after)
		r.must(trimmer.Trim(t.Context()))
		state, err := r.log.State(t.Context(), bucket)
		r.must(err)
		if lag := trimmer.Lag(); state.First != wantFirst || lag != wantLag {
			t.Fatalf("the log begins at %d and the lag is %v, want %d and %v", state.First, lag, wantFirst, wantLag)
		}
	}
	stored := 0
	store := func() {
		t.Helper()
		stored++
		r.publish(fmt.Sprint(stored), r.record(a, stored))
		stop := r.node(int64(stored), bucket)
		r.waitForEvents(a, stored)
		stop()
	}

	store()
	trim(0, 1, 0)
	trim(9*time.Minute, 1, 0)
	store()
	trim(50*time.Second, 1, 0)
	trim(10*time.Second, 2, 0) // the first entry was stored ten minutes ago
	r.publish("unstored", r.record(a, 3))
	trim(time.Minute, 2, time.Minute) // it was complete a minute ago
	trim(time.Hour, 3, time.Hour+time.Minute)
	r.must(ingest.NewTrimmer(crowded).Trim(t.Context()))
	trim(time.Hour, 3, 2*time.Hour+time.Minute)

	// The store goes back: the third entry, which it had, must stay.
	stored = 2
	stop := r.node(10, bucket)
	r.waitForEvents(a, 3)
	stop()
	trim(time.Minute, 3, 0)
	_, err := r.db.Pool().Exec(t.Context(), "UPDATE event_bucket SET committed = 2")
	r.must(err)
	trim(time.Hour, 3, time.Hour)
}
