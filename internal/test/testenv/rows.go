package testenv

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// FillTables adds a row to each table in which an organisation has none yet. The rows are made from the schema, so that a
// new table has one as well. Those that belong to an account belong to this one.
func FillTables(t testing.TB, db *postgres.DB, owner id.Org, account id.Account) {
	t.Helper()
	tables, err := db.TablesWith(t.Context(), "org_id")
	must.OK(t, err)
	slices.Reverse(tables) // those first that others refer to
	for _, table := range tables {
		var rows int
		must.OK(t, db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE org_id = $1", owner).Scan(&rows))
		if rows == 0 {
			AddRow(t, db, table, owner, account)
		}
	}
}

// AddRow adds a row of an organisation to a table.
func AddRow(t testing.TB, db *postgres.DB, table string, owner id.Org, account id.Account) {
	t.Helper()
	var partitioned bool
	must.OK(t, db.Pool().QueryRow(t.Context(),
		"SELECT EXISTS (SELECT FROM pg_partitioned_table WHERE partrelid = to_regclass($1))", table).Scan(&partitioned))
	if partitioned {
		today := postgres.DayOf(time.Now())
		must.OK(t, postgres.NewDays(db, table, slog.New(slog.DiscardHandler)).Make(t.Context(), today, today+1))
	}
	names, values := rowOf(t, db, table, owner, account)
	_, err := db.Pool().Exec(t.Context(),
		"INSERT INTO "+table+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(values, ", ")+")")
	if err != nil {
		t.Fatalf("add a row to %s (a new constraint needs a value in rowOf): %v", table, err)
	}
}

// rowOf returns the columns of a table that need a value or can have a secret, and values that fit their types and
// constraints.
func rowOf(t testing.TB, db *postgres.DB, table string, owner id.Org, account id.Account) (names, values []string) {
	t.Helper()
	rows, err := db.Pool().Query(t.Context(), `
		SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped AND attidentity = ''
			AND (attname = 'org_id' OR atttypid = 'bytea'::regtype OR attnotnull AND NOT atthasdef)`, table)
	must.OK(t, err)
	known := map[string]string{
		"org_id": string(owner), "account_id": string(account), "role": "owner", "state": "running",
		"status": "open", "scheme": "system", "remember": "ask",
	}
	if table == "mail" {
		known["state"] = "queued"
	}
	if table == "job_part" { // it refers to a job
		var of string
		must.OK(t, db.Pool().QueryRow(t.Context(), "SELECT id FROM job WHERE org_id = $1 LIMIT 1", owner).Scan(&of))
		known["job_id"] = of
	}
	if strings.HasPrefix(table, "webhook_endpoint_") { // they refer to an endpoint
		var of string
		must.OK(t, db.Pool().QueryRow(t.Context(), "SELECT id FROM webhook_endpoint WHERE org_id = $1 LIMIT 1", owner).Scan(&of))
		known["endpoint_id"] = of
	}
	byType := map[string]string{
		"text": "gen_random_uuid()::text", "bytea": "decode(md5(random()::text) || md5(random()::text), 'hex')",
		"boolean": "false", "timestamp with time zone": "now()", "json": "'{}'", "jsonb": "'{}'",
		"uuid": "gen_random_uuid()", "smallint": "1", "integer": "1", "bigint": "1", "double precision": "1",
		"text[]": "'{}'", "bigint[]": "'{}'", "integer[]": "'{}'",
	}
	var name, kind string
	_, err = pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		value := byType[kind]
		if text, ok := known[name]; ok && kind == "text" {
			value = "'" + text + "'"
		}
		if value == "" {
			t.Fatalf("%s.%s has the type %s, for which there is no value", table, name, kind)
		}
		names, values = append(names, name), append(values, value)
		return nil
	})
	must.OK(t, err)
	return names, values
}
