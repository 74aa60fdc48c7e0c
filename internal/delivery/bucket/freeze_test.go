package bucket_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/ingest"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// frozenStore stops in the middle of the first transaction that stores events, as a node that is frozen there, and runs
// freeze. Later ones fail.
type frozenStore struct {
	*event.Store
	freeze func() error
}

func (s frozenStore) Commit(ctx context.Context, b *event.Batch) (int64, error) {
	also := b.Also
	b.Also = func(ctx context.Context, tx postgres.Tx) error {
		if len(b.Events) > 0 {
			if err := s.freeze(); err != nil {
				return err
			}
		}
		if also == nil {
			return nil
		}
		return also(ctx, tx)
	}
	return s.Store.Commit(ctx, b)
}

// A node freezes in the middle of a batch, for longer than its lease lasts, and commits it when another node has taken
// the bucket. The other one delivers these events too.
func TestBatchOfAFrozenNodeIsDelivered(t *testing.T) {
	t.Parallel()
	f, start := newNode(t, testenv.Postgres(t))
	frozen, thaw := make(chan struct{}), make(chan struct{})
	freeze := func() error {
		select {
		case <-frozen:
			return errors.New("frozen before")
		default:
			close(frozen)
			<-thaw
			return nil
		}
	}
	old := ingest.New(ingest.Deps{
		Store: frozenStore{f.store, freeze}, Events: f.log, Outbox: f.outbox, Bus: f.Bus, Meter: usage{}, Orgs: f.Orgs,
		Committed: func([]event.Stored) {}, Log: slog.New(slog.DiscardHandler), Now: clock.Now,
	})
	var epoch int64
	if err := f.db.QueryRow(t.Context(), "SELECT first_epoch()").Scan(&epoch); err != nil {
		t.Fatal(err)
	}
	slot := event.Bucket(string(f.account.ID))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	lease, release := context.WithCancel(ctx)
	var loop, hold sync.WaitGroup
	loop.Go(func() { _ = old.Run(ctx) })
	hold.Go(func() { old.Hold(lease, slot, epoch, func() {}) })
	t.Cleanup(func() { release(); hold.Wait(); stop(); loop.Wait() })

	f.publish(1, 5)
	<-frozen
	start()
	// The other node waits for the row of the bucket, which the frozen one has locked. While it waits, it does all that
	// it would do without the bucket.
	testenv.Await(t, "the other node waits for the bucket", f.waitsForBucket)
	testenv.Await(t, "it gives up waiting", func() bool { return !f.waitsForBucket() })
	close(thaw)
	f.publish(6, 10)
	f.awaitDelivery(10)
}

// waitsForBucket reports whether a statement that claims a bucket waits for a lock.
func (f *fixture) waitsForBucket() (waits bool) {
	f.Helper()
	const query = `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO event_bucket%')`
	if err := f.db.QueryRow(f.Context(), query).Scan(&waits); err != nil {
		f.Fatal(err)
	}
	return waits
}
