package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// hotQuery returns a query of a package, as sqlc reads it.
func hotQuery(b *testing.B, dir, name string) string {
	b.Helper()
	text, err := os.ReadFile("../../" + dir + "/queries.sql")
	must.OK(b, err)
	_, query, found := strings.Cut(string(text), "-- name: "+name+" :")
	if !found {
		b.Fatalf("%s has no query %s", dir, name)
	}
	_, query, _ = strings.Cut(query, "\n")
	query, _, _ = strings.Cut(query, ";")
	return regexp.MustCompile(`sqlc\.embed\((\w+)\)`).ReplaceAllString(query, "$1.*")
}

// hotSide is one way to query, on a connection of its own.
type hotSide struct {
	db interface {
		Query(context.Context, string, ...any) (pgx.Rows, error)
	}
	pid int // of the server process of the connection
}

// processorTime returns for how many nanoseconds a process has had a processor.
func processorTime(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	must.OK(b, err)
	first, _, _ := strings.Cut(string(text), " ")
	ns, err := strconv.ParseFloat(first, 64)
	must.OK(b, err)
	return ns
}

// BenchmarkHotQueries compares the queries that calls and readers of events make most often, with and without
// row-level security: as the owner without the setting, as the owner with it, and as a node, to which the policies apply.
// The three take turns. What counts is the processor time of PostgreSQL, which does not depend on how busy the machine is.
func BenchmarkHotQueries(b *testing.B) {
	const (
		org, others   = "org_7", 30
		account       = "acct_1"
		accounts      = 20 // of each organisation
		eventsPerUnit = 200
	)
	owner := testenv.Postgres(b)
	exec := func(sql string) {
		b.Helper()
		_, err := owner.Pool().Exec(b.Context(), "BEGIN; SET LOCAL statement_timeout = 0; "+sql+"; COMMIT", pgx.QueryExecModeSimpleProtocol)
		must.OK(b, err)
	}
	template := string(testenv.AddOrg(b, owner))
	exec(fmt.Sprintf("INSERT INTO org SELECT (jsonb_populate_record(t, jsonb_build_object('id', 'org_' || o))).* FROM org t, generate_series(1, %d) o WHERE t.id = '%s'", others, template))
	// Each table gets a row that is made from the schema, which is then multiplied.
	for _, table := range []string{"account", "account_health", "account_secret", "event"} {
		if table == "event" {
			today := postgres.DayOf(time.Now())
			must.OK(b, postgres.NewDays(owner, table, slog.New(slog.DiscardHandler)).Make(b.Context(), today, today+1))
		}
		testenv.AddRow(b, owner, table, id.Org(template), account)
		if table == "account" {
			exec("UPDATE account SET id = '" + account + "'")
		}
	}
	ids := fmt.Sprintf("(SELECT 'org_' || o AS org, 'acct_' || a AS account FROM generate_series(1, %d) o, generate_series(1, %d) a) n", others, accounts)
	for _, c := range []struct{ table, set string }{
		{"account", "'id', n.account, 'upstream_id', n.account"},
		{"account_health", "'account_id', n.account"},
		{"account_secret", "'account_id', n.account, 'purpose', 'session', 'sealed', '\\x" + strings.Repeat("ab", 2048) + "'"},
	} {
		table, set := c.table, c.set
		exec("INSERT INTO " + table + " SELECT (jsonb_populate_record(t, jsonb_build_object('org_id', n.org, " + set + "))).* FROM " + table + " t, " + ids +
			" WHERE t.org_id = '" + template + "'")
	}
	exec(fmt.Sprintf(`INSERT INTO event SELECT (jsonb_populate_record(t, jsonb_build_object('org_id', 'org_' || o, 'source', 'acct_' || o, 'id', 'evt_' || o || '_' || s,
		'seq', s, 'at', now(), 'body', '\x%s'))).* FROM event t, generate_series(1, %d) o, generate_series(1, %d) s WHERE t.org_id = '%s'`,
		strings.Repeat("ab", 512), others, eventsPerUnit, template))
	exec("ANALYZE account, account_health, account_secret, event")

	ctx := postgres.WithOrg(b.Context(), org)
	alone := func(url secret.String) *postgres.DB {
		db, err := postgres.Open(b.Context(), postgres.Config{URL: url, MaxConns: 1, Name: "hot"})
		must.OK(b, err)
		b.Cleanup(db.Close)
		return db
	}
	url := secret.New(owner.Pool().Config().ConnString())
	sides := []hotSide{{db: alone(url).Pool()}, {db: alone(url)}, {db: alone(testenv.AsService(url))}}
	for i, side := range sides {
		rows, err := side.db.Query(ctx, "SELECT pg_backend_pid()")
		must.OK(b, err)
		sides[i].pid, err = pgx.CollectOneRow(rows, pgx.RowTo[int])
		must.OK(b, err)
	}
	since := time.Now().Add(-time.Hour)
	for _, q := range []struct {
		name, sql string
		args      pgx.NamedArgs
		rows      int
	}{
		{"account-of-a-call", hotQuery(b, "accounts/account", "WithSession"), pgx.NamedArgs{"org_id": org, "id": account}, 1},
		{"page-of-accounts", hotQuery(b, "accounts/account", "Labels"), pgx.NamedArgs{"org_id": org, "ids": []string{"acct_1", "acct_2", "acct_3"}}, 3},
		{"next-event", hotQuery(b, "events/event", "Next"), pgx.NamedArgs{"org_id": org, "source": "acct_7", "after": 50, "until": 51, "since": since}, 1},
		{"page-of-events", hotQuery(b, "events/event", "After"), pgx.NamedArgs{"org_id": org, "source": "acct_7", "after": 50, "since": since, "max_rows": 100}, 100},
	} {
		b.Run(q.name, func(b *testing.B) {
			const queries = 20 // of each side in one turn
			used := make([]float64, len(sides))
			for b.Loop() {
				for i, side := range sides {
					before := processorTime(b, side.pid)
					for range queries {
						rows, err := side.db.Query(ctx, q.sql, q.args)
						must.OK(b, err)
						n := 0
						for rows.Next() {
							n++
						}
						must.OK(b, rows.Err())
						if n != q.rows {
							b.Fatalf("%d rows; want %d", n, q.rows)
						}
					}
					used[i] += processorTime(b, side.pid) - before
				}
			}
			b.ReportMetric(used[0]/float64(b.N*queries), "bare-cpu-ns")
			b.ReportMetric(used[1]/used[0], "setting/bare")
			b.ReportMetric(used[2]/used[0], "node/bare")
			b.ReportMetric(0, "ns/op")
		})
	}
}
