package postgres_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/migrations"
)

// Any number of nodes may migrate concurrently: each migration is applied exactly once.
func TestMigrateFromManyNodes(t *testing.T) {
	t.Parallel()
	url := testenv.EmptyDatabase(t)
	var (
		wait    sync.WaitGroup
		mu      sync.Mutex
		applied int
	)
	for range 3 {
		wait.Go(func() {
			db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 4, Name: "test", Patient: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			names, err := postgres.Migrate(t.Context(), db, migrations.Files)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, name := range names {
				if strings.HasSuffix(name, ".sql") {
					applied++
				}
			}
		})
	}
	wait.Wait()
	files, err := migrations.Files.ReadDir(".")
	must.OK(t, err)
	if applied != len(files) {
		t.Errorf("%d migrations applied, want %d", applied, len(files))
	}
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2, Name: "test"})
	must.OK(t, err)
	defer db.Close()
	if current, err := postgres.Current(t.Context(), db, migrations.Files); err != nil || !current {
		t.Errorf("Current = %v, %v", current, err)
	}
}

// A migration that waits for the lock of a table gives up before the queries of nodes that wait for it do, and is tried again.
func TestMigrationsDoNotBlockNodes(t *testing.T) {
	t.Parallel()
	url := testenv.EmptyDatabase(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 4, Name: "test", Patient: true})
	must.OK(t, err)
	defer db.Close()
	files := fstest.MapFS{"0001_first.sql": {Data: []byte("-- +goose Up\nCREATE TABLE busy (n integer);\n")}}
	_, err = postgres.Migrate(t.Context(), db, files)
	must.OK(t, err)
	files["0002_second.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE other (n integer);\n")}
	files["0003_third.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nALTER TABLE busy ADD COLUMN m integer;\n")}

	reader, err := db.Pool().Begin(t.Context())
	must.OK(t, err)
	_, err = reader.Exec(t.Context(), "SELECT FROM busy") // keeps a lock until it ends
	must.OK(t, err)
	type result struct {
		names []string
		err   error
	}
	migrated := make(chan result, 1)
	go func() {
		names, err := postgres.Migrate(t.Context(), db, files)
		migrated <- result{names, err}
	}()
	node, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 1, Name: "test"})
	must.OK(t, err)
	defer node.Close()
	for waits := false; !waits; {
		err := node.Pool().QueryRow(t.Context(),
			"SELECT EXISTS (SELECT FROM pg_locks WHERE relation = to_regclass('busy') AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))",
		).Scan(&waits)
		must.OK(t, err)
		select {
		case r := <-migrated:
			t.Fatalf("migrated while the table was locked: %v, %v", r.names, r.err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	// It waits for the migration, which waits for the reader.
	_, err = node.Pool().Exec(t.Context(), "SET lock_timeout = 0; SET statement_timeout = '1min'; SELECT FROM busy", pgx.QueryExecModeSimpleProtocol)
	must.OK(t, err)
	must.OK(t, reader.Rollback(t.Context()))
	r := <-migrated
	if want := []string{"0002_second.sql", "0003_third.sql"}; r.err != nil || !slices.Equal(r.names, want) {
		t.Errorf("%v, %v; want %v", r.names, r.err, want)
	}
}

// Unavailable distinguishes a database that is down, or that cancels a query, from a wrong query.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	unreachable, err := postgres.Open(t.Context(), postgres.Config{URL: secret.New("postgres://127.0.0.1:1/none"), MaxConns: 2, Name: "test"})
	must.OK(t, err)
	defer unreachable.Close()
	run := func(db *postgres.DB, sql string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return db.Tx(ctx, func(tx postgres.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
	}
	for sql, want := range map[string]bool{
		"SELECT 1/0": false, "SELECT nothing": false, "SET statement_timeout = 10; SELECT pg_sleep(5)": true,
		"SELECT pg_terminate_backend(pg_backend_pid())": true,
	} {
		if err := run(db, sql); err == nil || postgres.Unavailable(err) != want {
			t.Errorf("%s: Unavailable(%v) = %v", sql, err, !want)
		}
	}
	if err := run(unreachable, "SELECT 1"); !postgres.Unavailable(err) {
		t.Errorf("no server: %v", err)
	}
	if postgres.Unavailable(errors.New("anything")) {
		t.Error("an unrelated error counts as unavailable")
	}
}

// The error for an invalid URL does not contain the URL, which may include a password.
func TestOpenHidesTheURL(t *testing.T) {
	t.Parallel()
	_, err := postgres.Open(t.Context(), postgres.Config{URL: secret.New("postgres://u:hunter2@[bad/x"), MaxConns: 2, Name: "test"})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

// The time limit of a snapshot does not include the wait for a connection, but it ends a query that hangs.
func TestSnapshotWithinCountsFromTheConnection(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: testenv.DatabaseURL(t), MaxConns: 1, Name: "test"})
	must.OK(t, err)
	t.Cleanup(db.Close)
	const atMost = time.Second
	held, err := db.Pool().Acquire(t.Context())
	must.OK(t, err)
	done := make(chan error, 1)
	go func() {
		done <- db.SnapshotWithin(t.Context(), atMost, func(ctx context.Context, tx postgres.Tx) error {
			_, err := tx.Exec(ctx, "SELECT 1")
			return err
		})
	}()
	select {
	case err := <-done:
		t.Fatalf("SnapshotWithin did not wait for a connection: %v", err)
	case <-time.After(atMost + atMost/5):
	}
	held.Release()
	if err := <-done; err != nil {
		t.Errorf("after a wait longer than the time limit: %v", err)
	}
	err = db.SnapshotWithin(t.Context(), 50*time.Millisecond, func(ctx context.Context, tx postgres.Tx) error {
		_, err := tx.Exec(ctx, "SELECT pg_sleep(60)")
		return err
	})
	if err == nil || !postgres.Unavailable(err) {
		t.Errorf("hanging statement: %v", err)
	}
}
