package postgres_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Several nodes maintain the partitions of two tables concurrently. Each table has exactly the days within its own
// bounds, rows go to the right day, and a row without a partition is distinguished from one that violates a
// constraint.
func TestDaysAreMadeAndDroppedPerTable(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	exec := func(sql string, args ...any) error {
		_, err := db.Pool().Exec(t.Context(), sql, args...)
		return err
	}
	for _, table := range []string{"diary", "diary_of_others"} { // one name is a prefix of the other
		if err := exec("CREATE TABLE " + table + " (at timestamptz NOT NULL, n integer CONSTRAINT " + table + "_small CHECK (n < 100)) PARTITION BY RANGE (at)"); err != nil {
			t.Fatal(err)
		}
	}
	noon := time.Date(2026, 2, 27, 12, 0, 0, 0, time.UTC)
	for n := range 6 {
		today := noon.AddDate(0, 0, n)
		var wait sync.WaitGroup
		for range 4 {
			for table, keep := range map[string]int{"diary": 3, "diary_of_others": 90} {
				wait.Go(func() {
					days := postgres.NewDays(db.WithClock(func() time.Time { return today }), table, slog.New(slog.DiscardHandler))
					if _, err := days.Upkeep(t.Context(), 1, 2, keep); err != nil {
						t.Error(err)
					}
				})
			}
		}
		wait.Wait()
	}
	for table, want := range map[string][]string{
		"diary":           {"20260301", "20260302", "20260303", "20260304", "20260305", "20260306"},
		"diary_of_others": {"20260226", "20260227", "20260228", "20260301", "20260302", "20260303", "20260304", "20260305", "20260306"},
	} {
		rows, err := db.Pool().Query(t.Context(), "SELECT right(inhrelid::regclass::text, 8) FROM pg_inherits WHERE inhparent = $1::text::regclass ORDER BY 1", table)
		must.OK(t, err)
		if got, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", table, got, err)
		}
	}
	copied := func(n int32, at ...time.Time) error {
		var rows postgres.Rows
		for _, one := range at {
			rows.Row(one, 2)
			rows.Int32(n)
		}
		return db.Tx(t.Context(), func(tx postgres.Tx) error { return rows.Send(t.Context(), tx, "diary", "(at, n)") })
	}
	second, seventh := noon.AddDate(0, 0, 2), noon.AddDate(0, 0, 7)
	if err := copied(1, second, seventh, second, second); err != nil {
		t.Error(err)
	}
	if err := copied(2, seventh, noon); !postgres.MissingDay(err) {
		t.Errorf("row without a partition: %v", err)
	}
	if err := copied(100, seventh); err == nil || postgres.MissingDay(err) {
		t.Errorf("row that violates a constraint: %v", err)
	}
	if err := postgres.NewDays(db, "diary", slog.New(slog.DiscardHandler)).Make(t.Context(), postgres.DayOf(noon), postgres.DayOf(noon)); err != nil {
		t.Error(err)
	}
	if err := copied(3, noon); err != nil {
		t.Error(err)
	}
	rows, err := db.Pool().Query(t.Context(), "SELECT to_char(at, 'MM-DD') || ' ' || n FROM diary ORDER BY 1")
	must.OK(t, err)
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := []string{"02-27 3", "03-01 1", "03-01 1", "03-01 1", "03-06 1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the rows are %q, %v; want %q", got, err, want)
	}
}

func days(t *testing.T, db *postgres.DB, table string) []string {
	t.Helper()
	rows, err := db.Pool().Query(t.Context(), "SELECT right(inhrelid::regclass::text, 8) FROM pg_inherits WHERE inhparent = $1::text::regclass ORDER BY 1", table)
	must.OK(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must.OK(t, err)
	return list
}

// If more than a quarter of a table's days have expired at once, Upkeep drops none of them, however often it runs, and
// logs an error.
func TestUpkeepDropsAtMostAQuarterOfTheDays(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	if _, err := db.Pool().Exec(t.Context(), "CREATE TABLE diary (at timestamptz NOT NULL) PARTITION BY RANGE (at)"); err != nil {
		t.Fatal(err)
	}
	const keep = 31
	today := time.Date(2026, 2, 27, 12, 0, 0, 0, time.UTC)
	var logged bytes.Buffer
	diary := postgres.NewDays(db.WithClock(func() time.Time { return today }), "diary", slog.New(slog.NewTextHandler(&logged, nil)))
	upkeep := func() {
		t.Helper()
		if _, err := diary.Upkeep(t.Context(), 1, 2, keep); err != nil {
			t.Fatal(err)
		}
	}
	for n := range keep {
		must.OK(t, diary.Make(t.Context(), postgres.DayOf(today.AddDate(0, 0, -n))))
	}
	upkeep()
	before := days(t, db, "diary")
	began := today

	today = began.AddDate(0, 0, 34) // nearly all days have expired
	upkeep()
	upkeep()
	if after := days(t, db, "diary"); len(after) != len(before)+4 || !slices.Equal(after[:len(before)], before) {
		t.Errorf("%d days became %v", len(before), after)
	}
	if !strings.Contains(logged.String(), "level=ERROR") || !strings.Contains(logged.String(), "table=diary") {
		t.Errorf("log: %q", logged.String())
	}

	logged.Reset()
	today = began.AddDate(0, 0, 8) // a quarter of the days has expired
	upkeep()
	if after := days(t, db, "diary"); after[0] != today.AddDate(0, 0, -keep).Format("20060102") || logged.Len() != 0 {
		t.Errorf("the oldest day is %s; log: %q", after[0], logged.String())
	}
}

// Trim deletes the rows of the given orgs from days before the bound, more than one batch of them, and nothing else.
func TestTrimDeletesOldRowsOfSomeOrgs(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	exec := func(sql string, args ...any) {
		_, err := db.Pool().Exec(t.Context(), sql, args...)
		must.OK(t, err)
	}
	exec("CREATE TABLE diary (at timestamptz NOT NULL, org_id text NOT NULL) PARTITION BY RANGE (at)")
	noon := time.Date(2026, 2, 27, 12, 0, 0, 0, time.UTC)
	days := postgres.NewDays(db.WithClock(func() time.Time { return noon }), "diary", slog.New(slog.DiscardHandler))
	_, err := days.Upkeep(t.Context(), 5, 1, 30)
	must.OK(t, err)
	for _, org := range []string{"short", "brief", "long"} {
		exec("INSERT INTO diary SELECT $1::timestamptz - make_interval(days => n % 5), $2 FROM generate_series(0, 4) AS n", noon, org)
	}
	exec("INSERT INTO diary SELECT $1::timestamptz - interval '4 days', 'short' FROM generate_series(1, 10000)", noon)
	deleted, err := days.Trim(t.Context(), []string{"short", "brief"}, 2)
	if err != nil || deleted != 10_004 {
		t.Fatalf("%d rows were deleted, %v", deleted, err)
	}
	rows, err := db.Pool().Query(t.Context(), "SELECT org_id || ' ' || string_agg(to_char(at, 'DD'), ',' ORDER BY at) FROM diary GROUP BY org_id ORDER BY 1")
	must.OK(t, err)
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if want := []string{"brief 25,26,27", "long 23,24,25,26,27", "short 25,26,27"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("%q are left, %v", left, err)
	}
}
