package postgres_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// asNode opens a database of testenv with the role of a node.
func asNode(t testing.TB, owner *postgres.DB) *postgres.DB {
	t.Helper()
	url := testenv.AsService(secret.New(owner.Pool().Config().ConnString()))
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2, Name: "node", RequireOrg: true})
	must.OK(t, err)
	t.Cleanup(db.Close)
	return db
}

// Whatever a statement asks for, it sees and changes the rows of its organisation only: outside a transaction, within
// one and in a snapshot. The setting does not outlive its transaction.
func TestAStatementSeesTheRowsOfItsOrganisation(t *testing.T) {
	t.Parallel()
	owner := testenv.Postgres(t)
	for _, org := range []string{"org_a", "org_b"} {
		_, err := owner.Exec(t.Context(), "INSERT INTO audit_head (org_id, seq, hash) VALUES ($1, 7, '')", org)
		must.OK(t, err)
	}
	node := asNode(t, owner)
	const list = "SELECT org_id FROM audit_head ORDER BY 1"
	read := func(ctx context.Context, q interface {
		Query(context.Context, string, ...any) (pgx.Rows, error)
	}) string {
		t.Helper()
		rows, err := q.Query(ctx, list)
		must.OK(t, err)
		orgs, err := pgx.CollectRows(rows, pgx.RowTo[string])
		must.OK(t, err)
		return strings.Join(orgs, " ")
	}
	for org, want := range map[string]string{"org_a": "org_a", "org_b": "org_b", "org_c": "", "*": "org_a org_b"} {
		ctx := postgres.WithOrg(t.Context(), org)
		if org == "*" {
			ctx = postgres.WithAllOrgs(postgres.WithOrg(t.Context(), "org_a"))
		}
		got := []string{read(ctx, node)}
		inTx := func(tx postgres.Tx) error {
			got = append(got, read(ctx, tx))
			return nil
		}
		must.OK(t, node.Tx(ctx, inTx))
		must.OK(t, node.Snapshot(ctx, inTx))
		must.OK(t, node.SnapshotWithin(ctx, time.Minute, func(_ context.Context, tx postgres.Tx) error { return inTx(tx) }))
		if slices.ContainsFunc(got, func(seen string) bool { return seen != want }) {
			t.Errorf("%s sees %q; want %q each time", org, got, want)
		}
		if left := read(t.Context(), node.Pool()); left != "" {
			t.Errorf("%s: after the transaction, the connection sees %q", org, left)
		}
	}

	one := postgres.WithOrg(t.Context(), "org_a")
	tag, err := node.Exec(one, "UPDATE audit_head SET seq = 8")
	if err != nil || tag.RowsAffected() != 1 {
		t.Errorf("an update without a condition changed %d rows, %v", tag.RowsAffected(), err)
	}
	if _, err := node.Exec(one, "INSERT INTO audit_head (org_id, seq, hash) VALUES ('org_d', 1, '')"); err == nil {
		t.Error("a row of another organisation was inserted")
	}
	if _, err := node.Exec(one, "UPDATE audit_head SET org_id = 'org_d'"); err == nil {
		t.Error("a row was moved to another organisation")
	}
	if tag, err = node.Exec(one, "DELETE FROM audit_head"); err != nil || tag.RowsAffected() != 1 {
		t.Errorf("a deletion without a condition deleted %d rows, %v", tag.RowsAffected(), err)
	}
}

// A statement fails if its context names no organisation, or what cannot be one.
func TestAStatementNeedsAnOrganisation(t *testing.T) {
	t.Parallel()
	node := asNode(t, testenv.Postgres(t))
	for name, ctx := range map[string]context.Context{
		"none": t.Context(), "empty": postgres.WithOrg(t.Context(), ""), "quoted": postgres.WithOrg(t.Context(), "a'; SELECT '"),
	} {
		var one int
		_, exec := node.Exec(ctx, "SELECT 1")
		rows, query := node.Query(ctx, "SELECT 1")
		if query == nil {
			rows.Close()
		}
		nothing := func(postgres.Tx) error { return nil }
		for _, err := range []error{exec, query, node.QueryRow(ctx, "SELECT 1").Scan(&one), node.Tx(ctx, nothing), node.Snapshot(ctx, nothing)} {
			if err == nil {
				t.Errorf("%s: a statement was carried out", name)
			}
		}
		must.OK(t, node.ForAllOrgs().QueryRow(t.Context(), "SELECT 1").Scan(&one))
	}
}

// An error that occurs when the transaction of a single statement ends is the statement's error.
func TestASingleStatementReportsTheEndOfItsTransaction(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	_, err := db.Exec(t.Context(), "CREATE TABLE promise (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	must.OK(t, err)
	const twice = "INSERT INTO promise VALUES (1), (1) RETURNING n"
	_, exec := db.Exec(t.Context(), twice)
	rows, query := db.Query(t.Context(), twice)
	if query == nil {
		_, query = pgx.CollectRows(rows, pgx.RowTo[int])
	}
	var n int
	for _, err := range []error{exec, query, db.QueryRow(t.Context(), twice).Scan(&n)} {
		if !postgres.IsUnique(err, "promise_n_key") {
			t.Errorf("the error is %v", err)
		}
	}
	if stat := db.Pool().Stat(); stat.AcquiredConns() != 0 {
		t.Errorf("%d connections are still in use", stat.AcquiredConns())
	}
}

// notTenants are the tables without rows of organisations, each with what it holds.
var notTenants = map[string]string{
	"account_shard":         "leases of shards of accounts",
	"browser_session":       "sessions of persons, found by the hash of their cookie",
	"control":               "operators' decisions",
	"database_generation":   "the number of the database's generation",
	"event_bucket":          "progress of ingest per bucket",
	"device_grant":          "tools that ask to be signed in, found by the hashes of their codes",
	"eventlog_bucket":       "progress of the event log per bucket",
	"eventlog_entry":        "the event log in PostgreSQL; its frames are sealed",
	"goose_db_version":      "the version of the schema",
	"lease_node":            "nodes",
	"lease_slot":            "leases of nodes",
	"login_guard":           "tries per hashed login, across organisations",
	"month_flush":           "progress of the counters' flush",
	"node":                  "nodes",
	"operator_session":      "browsers of operators",
	"org_suspension_reader": "nodes that have read the suspensions",
	"person":                "persons, who may belong to several organisations",
	"person_identity":       "persons' identities at the identity provider",
	"pulse_day":             "how the service worked on a day",
	"pulse_minute":          "what nodes counted in a minute",
	"usage_webhook":         "the position of the usage webhook",
	"root_key":              "the keyring's root, which wraps the keys of organisations",
	"webhook_bucket":        "progress of deliveries per bucket",
}

// Every table has row-level security and a policy, or is known to hold no rows of organisations. A node's role owns
// nothing, bypasses nothing, and cannot read a partition.
func TestEveryTableOfTenantsHasRowSecurity(t *testing.T) {
	t.Parallel()
	owner := testenv.Postgres(t)
	rows, err := owner.Query(t.Context(), `SELECT c.relname::text, c.relrowsecurity AND EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid),
			c.relispartition, has_table_privilege('stagedoor_app', c.oid, 'SELECT'), pg_has_role('stagedoor_app', c.relowner, 'MEMBER')
		FROM pg_class c WHERE c.relnamespace IN ('public'::regnamespace, 'keyring'::regnamespace) AND c.relkind IN ('r', 'p') AND c.relname NOT LIKE 'river_%'`)
	must.OK(t, err)
	var (
		table                        string
		secured, part, reads, member bool
		count                        int
	)
	_, err = pgx.ForEachRow(rows, []any{&table, &secured, &part, &reads, &member}, func() error {
		count++
		switch _, exempt := notTenants[table]; {
		case member:
			t.Errorf("a node's role owns %s", table)
		case part && reads:
			t.Errorf("a node's role may read the partition %s", table)
		case !part && !secured && !exempt:
			t.Errorf("%s has no row-level security", table)
		case secured && exempt:
			t.Errorf("%s has row-level security and is listed as a table without rows of organisations", table)
		}
		return nil
	})
	must.OK(t, err)
	t.Logf("%d tables", count)
	if confined, err := asNode(t, owner).Confined(t.Context()); err != nil || !confined {
		t.Errorf("row-level security applies to a node's role: %v, %v", confined, err)
	}
	if confined, err := owner.Confined(t.Context()); err != nil || confined {
		t.Errorf("row-level security applies to the owner: %v, %v", confined, err)
	}
}

// Grant refuses a role to which row-level security does not apply.
func TestGrantRefusesRolesThatSeeEverything(t *testing.T) {
	t.Parallel()
	owner := testenv.Postgres(t)
	for role, want := range map[string]string{"stagedoor": "superuser", "missing_role": "no such role"} {
		if err := postgres.Grant(t.Context(), owner, "public", role); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error that contains %q", role, err, want)
		}
	}
}
