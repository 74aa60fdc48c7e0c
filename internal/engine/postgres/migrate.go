package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/stagedoor/stagedoor/internal/base/clock"
)

// migrationLock is the key of the advisory lock that all migrations of a database share.
const migrationLock = 7_264_001

// Migrate brings the schema to the newest version: first our own files, then those of the job queue. Any number of
// nodes may call it concurrently; one of them migrates and the others wait. It returns the names of the applied
// migrations. The pool should be Patient and needs at least two connections, one of which holds the lock.
func Migrate(ctx context.Context, db *DB, files fs.FS) ([]string, error) {
	// One lock for both: the migrations of the job queue do not lock.
	unlock, err := lockMigrations(ctx, db)
	if err != nil {
		return nil, err
	}
	defer unlock()
	applied, err := applyPending(ctx, db, files)
	if err != nil {
		return nil, err
	}

	jobs, err := rivermigrate.New(riverpgxv5.New(db.pool), nil)
	if err != nil {
		return nil, fmt.Errorf("read job queue migrations: %w", err)
	}
	result, err := jobs.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if err != nil {
		return nil, fmt.Errorf("migrate job queue: %w", err)
	}
	for _, step := range result.Versions {
		applied = append(applied, fmt.Sprintf("river %03d", step.Version))
	}
	return applied, nil
}

// MigrateSchema brings a separate schema to the newest version. The version is stored in the schema itself, because
// it may be in a database without the other tables. Any number of nodes may call it concurrently.
func MigrateSchema(ctx context.Context, db *DB, files fs.FS, schema string) ([]string, error) {
	unlock, err := lockMigrations(ctx, db)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := db.pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize()); err != nil {
		return nil, fmt.Errorf("create schema %s: %w", schema, err)
	}
	return applyPending(ctx, db, files, versionIn(schema))
}

// Current reports whether the schema has every migration of this build. It does not check those of the job queue.
func Current(ctx context.Context, db *DB, files fs.FS) (bool, error) {
	return isCurrent(ctx, db, files)
}

// CurrentSchema is Current for a schema of MigrateSchema.
func CurrentSchema(ctx context.Context, db *DB, files fs.FS, schema string) (bool, error) {
	return isCurrent(ctx, db, files, versionIn(schema))
}

// versionIn stores the version of a schema in the schema itself.
func versionIn(schema string) goose.ProviderOption {
	return goose.WithTableName(schema + ".goose_db_version")
}

// lockMigrations waits until no other process migrates this database. It holds one connection until unlock.
func lockMigrations(ctx context.Context, db *DB) (unlock func(), err error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to migrate: %w", err)
	}
	// It asks again and again. A statement that waits has a snapshot, and CREATE INDEX CONCURRENTLY waits until all older
	// snapshots are gone: it would wait for those who wait for it.
	for locked := false; !locked; {
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", migrationLock).Scan(&locked); err != nil {
			conn.Release()
			return nil, fmt.Errorf("wait for other migrations: %w", err)
		}
		if !locked && !clock.Pause(ctx, askPause) {
			conn.Release()
			return nil, fmt.Errorf("wait for other migrations: %w", context.Cause(ctx))
		}
	}
	return func() {
		// An error is ignored: the end of the session releases the lock as well.
		_, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrationLock)
		conn.Release()
	}, nil
}

const (
	// lockTries is how often a migration is tried if it does not get a lock, with a pause of lockPause.
	lockTries = 60
	lockPause = 2 * time.Second
	// askPause is the pause between two questions whether another process still migrates.
	askPause = 200 * time.Millisecond
	// lockNotAvailable is the code of the error after lock_timeout.
	lockNotAvailable = "55P03"
)

// applyPending applies the migrations that are missing, and returns their names. While a statement waits for the lock of a
// table, all later queries on the table wait for the statement. So it gives up after lockTimeout, which is shorter than the
// timeout of a node's statements, and is tried again.
func applyPending(ctx context.Context, db *DB, files fs.FS, options ...goose.ProviderOption) ([]string, error) {
	config := db.pool.Config()
	config.ConnConfig.RuntimeParams["lock_timeout"] = lockTimeout
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open pool for migrations: %w", err)
	}
	defer pool.Close()
	std := stdlib.OpenDBFromPool(pool)
	defer std.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, std, files, options...)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var applied []string
	for try := 1; ; try++ {
		done, err := provider.Up(ctx)
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			done = partial.Applied
		}
		for _, step := range done {
			applied = append(applied, step.Source.Path)
		}
		if err == nil {
			return applied, nil
		}
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != lockNotAvailable || try == lockTries {
			return applied, fmt.Errorf("migrate: %w", err)
		}
		select {
		case <-ctx.Done():
			return applied, fmt.Errorf("migrate: %w", context.Cause(ctx))
		case <-time.After(lockPause):
		}
	}
}

func isCurrent(ctx context.Context, db *DB, files fs.FS, options ...goose.ProviderOption) (bool, error) {
	std := stdlib.OpenDBFromPool(db.pool)
	defer std.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, std, files, options...)
	if err != nil {
		return false, fmt.Errorf("read migrations: %w", err)
	}
	pending, err := provider.HasPending(ctx)
	if err != nil {
		return false, fmt.Errorf("compare migrations: %w", err)
	}
	return !pending, nil
}
