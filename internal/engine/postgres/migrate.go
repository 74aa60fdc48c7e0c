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

// migrationLock is the name of the lock, as a number.
const migrationLock = 7_264_001

// Migrate brings the schema to the newest version: our own files, then the job queue's. Any number of nodes may
// call it at once; one does the work and the others wait. It reports the names of what it applied.
func Migrate(ctx context.Context, db *DB, files fs.FS) ([]string, error) {
	// One lock over both: the job queue's migrations have none of their own.
	unlock, err := lockMigrations(ctx, db)
	if err != nil {
		return nil, err
	}
	defer unlock()
	applied, err := up(ctx, db, files)
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

// MigrateSchema brings one schema of its own to the newest version, which it keeps in that schema: it may be in a database
// without the other tables. Any number of nodes may call it at once.
func MigrateSchema(ctx context.Context, db *DB, files fs.FS, schema string) ([]string, error) {
	unlock, err := lockMigrations(ctx, db)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := db.pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize()); err != nil {
		return nil, fmt.Errorf("make schema %s: %w", schema, err)
	}
	return up(ctx, db, files, versionIn(schema))
}

// Current says whether the schema has every migration of this build.
func Current(ctx context.Context, db *DB, files fs.FS) (bool, error) { return current(ctx, db, files) }

// CurrentSchema is Current for a schema of its own.
func CurrentSchema(ctx context.Context, db *DB, files fs.FS, schema string) (bool, error) {
	return current(ctx, db, files, versionIn(schema))
}

// versionIn keeps the version of a schema in itself.
func versionIn(schema string) goose.ProviderOption {
	return goose.WithTableName(schema + ".goose_db_version")
}

// lockMigrations waits until nobody else migrates this database.
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
		// Closing the session would free it as well.
		_, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrationLock)
		conn.Release()
	}, nil
}

// up applies what is missing.
func up(ctx context.Context, db *DB, files fs.FS, options ...goose.ProviderOption) ([]string, error) {
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

func current(ctx context.Context, db *DB, files fs.FS, options ...goose.ProviderOption) (bool, error) {
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
