package requestlog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Entries are written at the next tick and when Run ends, and none is written twice.
func TestRunWritesEverySecondAndAtTheEnd(t *testing.T) {
	t.Parallel()
	db := database(t)
	c := newClock()
	ticks := make(chan time.Time)
	asked := make(chan time.Duration, 2)
	j := requestlog.New(requestlog.Deps{SettleTimeout: time.Minute, DB: db.WithClock(c.now), Log: slog.New(slog.DiscardHandler), Now: c.now, Ticker: func(d time.Duration) (<-chan time.Time, func()) {
		asked <- d
		if d == time.Second {
			return ticks, func() {}
		}
		return nil, func() {}
	}})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx) }()
	owner := id.New[id.Org]()
	for n := 1; n <= 3; n++ {
		for range 2000 {
			j.Add(success(owner, noon))
		}
		ticks <- noon
		ticks <- noon // received when the first flush has ended
		if found := countRows(t, db, "org_id = $1", owner); found != n*2000 {
			t.Errorf("%d rows after %d ticks", found, n)
		}
	}
	j.Add(success(owner, noon))
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if found := countRows(t, db, "org_id = $1", owner); found != 6001 {
		t.Errorf("%d rows at the end", found)
	}
	if every := <-asked; every != time.Second {
		t.Errorf("flushes every %s", every)
	}
}

// While the database is away, the newest requests are kept and the oldest are dropped and counted. When it is back, all
// kept requests are written once.
func TestNewestRequestsSurviveDatabaseOutage(t *testing.T) {
	t.Parallel()
	db, link := openThroughLink(t, testenv.DatabaseURL(t))
	c := newClock()
	j, metrics := newMeasuredJournal(db, c)
	owner := id.New[id.Org]()
	n := 0
	add := func(count int) {
		for range count {
			e := success(owner, noon)
			e.Request, e.Out = id.Request(fmt.Sprint("r", n)), int64(n)
			j.Add(e)
			n++
		}
	}
	add(10)
	must.OK(t, j.Flush(t.Context()))
	link.setCut(true)
	for range 20 { // many small flushes do not use up the room
		add(500)
		if j.Flush(t.Context()) == nil {
			t.Fatal("written without a database")
		}
	}
	if waiting := metric.Value(t, metrics, "stagedoor_request_log_waiting"); waiting != 10_000 {
		t.Errorf("%v wait", waiting)
	}
	if lost := metric.Value(t, metrics, "stagedoor_request_log_lost_total", "why", "full"); lost != 0 {
		t.Errorf("%v lost with room left", lost)
	}
	add(150_000)
	if j.Flush(t.Context()) == nil {
		t.Fatal("written without a database")
	}
	add(20_000)
	link.setCut(false)
	for tries := 0; ; tries++ { // the pool detects its dead connections one by one
		if err := j.Flush(t.Context()); err == nil {
			break
		} else if tries == 10 {
			t.Fatal(err)
		}
	}
	lost := metric.Value(t, metrics, "stagedoor_request_log_lost_total", "why", "full")
	found := countRows(t, db, "org_id = $1", owner)
	if lost == 0 || found+int(lost) != n || found < 128*1024-20_000 {
		t.Errorf("%d written, %v lost of %d", found, lost, n)
	}
	// The lost requests are the oldest, except for the first ten, which were written before.
	if newest := countRows(t, db, "org_id = $1 AND bytes_out >= $2", owner, n-(found-10)); newest != found-10 {
		t.Errorf("%d of the newest %d", newest, found-10)
	}
	if twice := countRows(t, db, "org_id = $1 AND request_id IN (SELECT request_id FROM request_log GROUP BY 1 HAVING count(*) > 1)", owner); twice != 0 {
		t.Errorf("%d rows were written twice", twice)
	}
}

// A COPY that was carried out but whose confirmation was lost is not repeated.
func TestUnconfirmedCopyIsNotRepeated(t *testing.T) {
	t.Parallel()
	db, link := openThroughLink(t, testenv.DatabaseURL(t))
	c := newClock()
	j, metrics := newMeasuredJournal(db, c)
	owner := id.New[id.Org]()
	must.OK(t, j.Upkeep(t.Context()))
	for range 3000 {
		j.Add(success(owner, noon))
	}
	link.swallow.Store(true)
	if j.Flush(t.Context()) == nil {
		t.Fatal("the COPY was confirmed")
	}
	<-link.swallowed
	for range 50 { // these must not be merged into the uncertain blocks, although there is room
		j.Add(success(owner, noon))
	}
	for tries := 0; j.Flush(t.Context()) != nil; tries++ {
		if tries == 10 {
			t.Fatal("not written")
		}
	}
	if n := countRows(t, db, "org_id = $1", owner); n != 3050 {
		t.Errorf("%d rows", n)
	}
	if written := metric.Value(t, metrics, "stagedoor_request_log_written_total"); written != 3050 {
		t.Errorf("%v written", written)
	}
}

// An org that keeps calling over a limit does not fill the log: only some of these calls are logged, and all others
// are.
func TestCallsOverALimitDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	db := database(t)
	c := newClock()
	j, metrics := newMeasuredJournal(db, c)
	loud, quiet := id.New[id.Org](), id.New[id.Org]()
	for round := 1; round <= 2; round++ {
		for i := range 5000 {
			e := success(loud, noon)
			e.Status, e.Problem = 429, "quota-exceeded"
			j.Add(e)
			if i%50 == 0 {
				j.Add(success(loud, noon))
				e.Org = quiet
				if i%100 == 0 {
					j.Add(e)
				}
			}
		}
		must.OK(t, j.Flush(t.Context()))
		for _, want := range []struct {
			where string
			org   id.Org
			rows  int
		}{{"org_id = $1 AND problem <> ''", loud, 100 * round}, {"org_id = $1 AND problem = ''", loud, 100 * round}, {"org_id = $1", quiet, 50 * round}} {
			if n := countRows(t, db, want.where, want.org); n != want.rows {
				t.Errorf("%d rows, want %d", n, want.rows)
			}
		}
	}
	if lost := metric.Value(t, metrics, "stagedoor_request_log_lost_total", "why", "refused"); lost != 9800 {
		t.Errorf("%v refused", lost)
	}
}

// At most four readers use the database concurrently. One that cannot wait for a permit gets service-unavailable.
func TestConcurrentReadersAreLimited(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(testenv.DatabaseURL(t).Reveal())
	must.OK(t, err)
	params := address.Query()
	params.Set("lock_timeout", "0")
	params.Set("statement_timeout", "0")
	address.RawQuery = params.Encode()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: secret.New(address.String()), MaxConns: 20, Name: "test"})
	must.OK(t, err)
	t.Cleanup(db.Close)
	j := startJournal(t, db, newClock())
	owner := id.New[id.Org]()
	read := func(ctx context.Context) error {
		_, _, err := j.Page(ctx, unlimited(owner), requestlog.Filter{}, requestlog.Position{}, 10)
		return err
	}
	must.OK(t, read(t.Context()))
	held, err := db.Pool().Begin(t.Context())
	must.OK(t, err)
	if _, err := held.Exec(t.Context(), "LOCK TABLE request_log"); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error)
	for range 4 {
		go func() { errs <- read(t.Context()) }()
	}
	for waiting := 0; waiting < 4; {
		if err := db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := read(short); !errors.Is(err, problem.ServiceUnavailable.New("")) {
		t.Errorf("one reader too many: %v", err)
	}
	must.OK(t, held.Rollback(t.Context()))
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if err := read(t.Context()); err != nil {
		t.Error(err)
	}
}

// Add does not allocate.
//
//nolint:paralleltest // it counts the allocations of the whole process
func TestAddAllocatesNothing(t *testing.T) {
	j := newJournal(nil, newClock())
	e := success(id.New[id.Org](), noon)
	if n := testing.AllocsPerRun(200_000, func() { j.Add(e) }); n > 0 {
		t.Errorf("%v allocations per request", n)
	}
}
