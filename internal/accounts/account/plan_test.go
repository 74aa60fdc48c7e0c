package account_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
)

// accountsInPlan returns how many accounts the query plan is made for. docs/accounts.md shows PLAN_ACCOUNTS=1000000.
func accountsInPlan(t *testing.T) int {
	t.Helper()
	if testing.Short() {
		t.Skip("fills a table")
	}
	n, err := strconv.Atoi(os.Getenv("PLAN_ACCOUNTS"))
	if err != nil {
		return 50_000
	}
	return n
}

// query returns the text of a query of queries.sql.
func query(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("queries.sql")
	must.OK(t, err)
	_, rest, found := strings.Cut(string(text), "-- name: "+name+" :")
	if !found {
		t.Fatalf("there is no query %s", name)
	}
	_, rest, _ = strings.Cut(rest, "\n")
	sql, _, _ := strings.Cut(rest, "\n\n")
	return sql
}

// claimSQL returns the query that claims due probes, for the current time and one shard.
func claimSQL(t *testing.T) string {
	t.Helper()
	sql := query(t, "Claim")
	for name, value := range map[string]string{"@leased_until": "now() + interval '1 minute'", "@shard": "3", "@now": "now()", "@max_rows": "64"} {
		sql = strings.ReplaceAll(sql, name, value)
	}
	return sql
}

// Claiming due probes reads an index from its beginning, however many accounts there are.
func TestDueAccountsAreFoundByTheIndex(t *testing.T) {
	t.Parallel()
	n := accountsInPlan(t)
	r := newFixture(t)
	owner := r.Org()
	for from := 0; from < n; from += 50_000 {
		insertAccounts(t, r, string(owner), from, min(50_000, n-from))
	}
	vacuumTables(t, r)
	plan := explain(t, r, claimSQL(t))
	t.Log("\n" + plan)
	if !strings.Contains(plan, "account_health_due") || strings.Contains(plan, "Seq Scan on account_health") {
		t.Fatal("the index is not used")
	}
	// A few pages per row: the index from its beginning, the rows, and what the update writes.
	if buffers := sharedBuffers(t, plan); buffers > 64*40 {
		t.Fatalf("%d pages for 64 rows", buffers)
	}
	t.Log(claimTimes(t, r))
}

// vacuumTables brings the tables into the state in which autovacuum keeps them.
func vacuumTables(t *testing.T, r *accounttest.Fixture) {
	t.Helper()
	execSlow(t, r, `VACUUM ANALYZE account_health`)
	execSlow(t, r, `ANALYZE account`)
}

// execSlow runs a statement without the statement timeout of the product.
func execSlow(t testing.TB, r *accounttest.Fixture, sql string, args ...any) {
	t.Helper()
	conn, err := r.DB.Pool().Acquire(t.Context())
	must.OK(t, err)
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), `SET statement_timeout = 0`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `RESET statement_timeout`); err != nil {
		t.Fatal(err)
	}
}

// claimTimes claims due probes repeatedly, as workers do, and reports how long that takes.
func claimTimes(t *testing.T, r *accounttest.Fixture) string {
	t.Helper()
	r.Clock.Advance(5 * time.Minute)
	var times []time.Duration
	taken := 0
	for i := range 400 {
		began := time.Now()
		list, err := r.Accounts.ClaimProbes(t.Context(), i%account.Shards, 64, 15*time.Minute)
		must.OK(t, err)
		times, taken = append(times, time.Since(began)), taken+len(list)
	}
	return fmt.Sprintf("%d accounts claimed, 64 at a time; median of each hundred claims: %s, %s, %s, %s", taken,
		median(times[:100]), median(times[100:200]), median(times[200:300]), median(times[300:]))
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[len(sorted)/2].Round(10 * time.Microsecond)
}

func explain(t *testing.T, r *accounttest.Fixture, sql string) string {
	t.Helper()
	tx, err := r.DB.Pool().Begin(t.Context())
	must.OK(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), query(t, "InOrder")); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS, SUMMARY) "+sql)
	must.OK(t, err)
	var lines []string
	for rows.Next() {
		var line string
		must.OK(t, rows.Scan(&line))
		lines = append(lines, line)
	}
	must.OK(t, rows.Err())
	return strings.Join(lines, "\n")
}

var buffersHit = regexp.MustCompile(`shared hit=(\d+)(?: read=(\d+))?`)

// sharedBuffers returns how many pages the whole plan touched; its first line has the sum.
func sharedBuffers(t *testing.T, plan string) int {
	t.Helper()
	m := buffersHit.FindStringSubmatch(plan)
	if m == nil {
		t.Fatal("no buffers in the plan")
	}
	hit, _ := strconv.Atoi(m[1])
	read, _ := strconv.Atoi(m[2])
	return hit + read
}

// insertAccounts inserts n accounts without secrets. Every tenth is paused. Their probes are due from a minute ago to
// 14 minutes from now.
func insertAccounts(t testing.TB, r *accounttest.Fixture, owner string, from, n int) {
	t.Helper()
	for _, sql := range []string{
		`INSERT INTO account (org_id, id, upstream_id, label, state, state_changed_at, username, display_name, avatar_url, region, reference_id,
			remember_credentials, created_at, session_version, sealed_version, sign_in, attempt_id, attempt_kind)
		SELECT $1, 'acct_' || lpad(i::text, 26, '0'), i::text, 'label ' || i % 50, CASE i % 10 WHEN 0 THEN 'paused' ELSE 'active' END, now(), 'u', 'd', '', 'us',
			'ref-' || i, false, now(), 1, 1, 1, '', '' FROM generate_series($2::int + 1, $2::int + $3::int) i`,
		`INSERT INTO account_health (org_id, account_id, shard, probe_at)
		SELECT $1, 'acct_' || lpad(i::text, 26, '0'), i % 8, now() + (random() * 15 - 1) * interval '1 minute' FROM generate_series($2::int + 1, $2::int + $3::int) i`,
	} {
		execSlow(t, r, sql, owner, from, n)
	}
}
