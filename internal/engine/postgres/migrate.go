package postgres

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
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
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", migrationLock); err != nil {
		conn.Release()
		return nil, fmt.Errorf("wait for other migrations: %w", err)
	}
	return func() {
		// An error is ignored: the end of the session releases the lock as well.
		_, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrationLock)
		conn.Release()
	}, nil
}

// applyPending applies the migrations that are missing, and returns their names.
func applyPending(ctx context.Context, db *DB, files fs.FS, options ...goose.ProviderOption) ([]string, error) {
	std := stdlib.OpenDBFromPool(db.pool)
	defer std.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, std, files, options...)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	done, err := provider.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	applied := make([]string, 0, len(done))
	for _, step := range done {
		applied = append(applied, step.Source.Path)
	}
	return applied, nil
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
