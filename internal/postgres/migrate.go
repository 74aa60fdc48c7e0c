package postgres

import (
	"context"
	"fmt"
	"io/fs"

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
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to migrate: %w", err)
	}
	defer conn.Release()
	// One lock over both: the job queue's migrations have none of their own.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", migrationLock); err != nil {
		return nil, fmt.Errorf("wait for other migrations: %w", err)
	}
	defer func() {
		// Closing the session would free it as well.
		_, _ = conn.Exec(context.WithoutCancel(ctx), "SELECT pg_advisory_unlock($1)", migrationLock)
	}()
	std := stdlib.OpenDBFromPool(db.pool)
	defer std.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, std, files)
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

// Current says whether the schema has every migration of this build.
func Current(ctx context.Context, db *DB, files fs.FS) (bool, error) {
	std := stdlib.OpenDBFromPool(db.pool)
	defer std.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, std, files)
	if err != nil {
		return false, fmt.Errorf("read migrations: %w", err)
	}
	pending, err := provider.HasPending(ctx)
	if err != nil {
		return false, fmt.Errorf("compare migrations: %w", err)
	}
	return !pending, nil
}
