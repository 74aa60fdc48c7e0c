package requestlog_test

import (
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// partitions returns the names of the table's partitions, in order.
func partitions(t testing.TB, db *postgres.DB) []string {
	t.Helper()
	found, err := db.Pool().Query(t.Context(), `SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'request_log'::regclass ORDER BY 1`)
	must.OK(t, err)
	names, err := pgx.CollectRows(found, pgx.RowTo[string])
	must.OK(t, err)
	return names
}

func names(from, to time.Time) (list []string) {
	for at := from; !at.After(to); at = at.AddDate(0, 0, 1) {
		list = append(list, at.Format("request_log_20060102"))
	}
	return list
}

// Several nodes write and maintain the partitions concurrently, day after day. Partitions exist two days ahead, those
// that can no longer be read are dropped, nothing fails, and no readable row is lost.
func TestConcurrentNodesMaintainPartitions(t *testing.T) {
	t.Parallel()
	db := database(t)
	c := newClock()
	owner := id.New[id.Org]()
	var nodes []*requestlog.Journal
	for range 6 {
		nodes = append(nodes, newJournal(db, c))
	}
	const days = 36
	for n := range days {
		var wait sync.WaitGroup
		for i, j := range nodes {
			wait.Go(func() {
				j.Add(success(owner, c.now()))
				if i%2 == 0 { // some write before the partition exists
					if err := j.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if err := j.Upkeep(t.Context()); err != nil {
					t.Error(err)
				}
				if err := j.Flush(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		first := c.now().AddDate(0, 0, -min(n+1, org.MaxRetentionDays))
		if got, want := partitions(t, db), names(first, c.now().AddDate(0, 0, 2)); !slices.Equal(got, want) {
			t.Fatalf("after %d days: %v, want %v", n, got, want)
		}
		c.move(24 * time.Hour)
	}
	if n, want := countRows(t, db, "org_id = $1", owner), (org.MaxRetentionDays+1)*len(nodes); n != want {
		t.Errorf("%d rows, want %d", n, want)
	}
}

// A partition that was dropped by hand is created again. Entries with impossible times or with texts that the database
// does not accept do not block others.
func TestBadEntriesDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	db := database(t)
	c := newClock()
	j, metrics := newMeasuredJournal(db, c)
	owner := id.New[id.Org]()
	must.OK(t, j.Upkeep(t.Context()))
	for _, at := range []time.Time{{}, time.Unix(0, 0), noon.AddDate(0, 0, -31), noon.AddDate(0, 0, 3), noon.AddDate(8000, 0, 0)} {
		j.Add(success(owner, at))
	}
	for _, text := range []string{"a\x00b", "\xff\xfe", string(slices.Repeat([]byte{'x'}, 5000)), "é" + string(slices.Repeat([]byte("ü"), 300))} {
		e := success(owner, noon)
		e.Operation, e.Verb = text, text
		j.Add(e)
	}
	late := success(owner, noon.AddDate(0, 0, -12)) // of a day without a partition
	j.Add(late)
	if _, err := db.Pool().Exec(t.Context(), "DROP TABLE request_log_20261115"); err != nil {
		t.Fatal(err)
	}
	if err := j.Flush(t.Context()); err == nil {
		t.Error("a row was written without a partition")
	}
	if err := j.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if n := countRows(t, db, "org_id = $1", owner); n != 5 {
		t.Errorf("%d rows", n)
	}
	if n := countRows(t, db, "operation = 'ab'"); n != 1 {
		t.Errorf("%d rows with a cleaned text", n)
	}
	if lost := metric.Value(t, metrics, "stagedoor_request_log_lost_total", "why", "misdated"); lost != 5 {
		t.Errorf("%v misdated", lost)
	}
	if written := metric.Value(t, metrics, "stagedoor_request_log_written_total"); written != 5 {
		t.Errorf("%v written", written)
	}
}

// Dropping a partition waits only briefly for a reader, so that it does not hold up others, and succeeds the next time.
func TestDropOfPartitionWaitsBriefly(t *testing.T) {
	t.Parallel()
	db := database(t)
	c := newClock()
	j := newJournal(db, c)
	must.OK(t, j.Upkeep(t.Context()))
	c.set(noon.AddDate(0, 0, org.MaxRetentionDays))
	tx, err := db.Pool().Begin(t.Context())
	must.OK(t, err)
	if _, err := tx.Exec(t.Context(), "SELECT count(*) FROM request_log"); err != nil {
		t.Fatal(err)
	}
	if j.Upkeep(t.Context()) == nil {
		t.Error("a partition was dropped while it was being read")
	}
	must.OK(t, tx.Rollback(t.Context()))
	if err := j.Upkeep(t.Context()); err != nil {
		t.Error(err)
	}
	want := append(names(noon, noon.AddDate(0, 0, 2)), names(c.now().AddDate(0, 0, -1), c.now().AddDate(0, 0, 2))...)
	if got := partitions(t, db); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A node whose clock is more than a month ahead drops nothing.
func TestWrongClockDropsNoRequests(t *testing.T) {
	t.Parallel()
	db := database(t)
	c := newClock()
	j := newJournal(db, c)
	for range org.MaxRetentionDays {
		must.OK(t, j.Upkeep(t.Context()))
		c.move(24 * time.Hour)
	}
	must.OK(t, j.Upkeep(t.Context()))
	before := partitions(t, db)
	wrong := requestlog.New(requestlog.Deps{SettleTimeout: time.Minute,
		DB: db.WithClock(c.now), Ticker: noTicker, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return c.now().AddDate(0, 0, 34) },
	})
	must.OK(t, wrong.Upkeep(t.Context()))
	if after := partitions(t, db); !slices.Equal(after, before) {
		t.Errorf("%v became %v", before, after)
	}
}
