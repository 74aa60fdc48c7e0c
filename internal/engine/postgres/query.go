package postgres

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Exec, Query and QueryRow let a generated query run outside a transaction. As in a transaction of Tx, an error names
// the query that failed ("account.Get: no rows in result set"), so callers wrap it only to add what the name lacks.

func (db *DB) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	results, err := db.send(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, nameQuery(sql, err)
	}
	tag, err := results.Exec()
	if end := results.Close(); err == nil {
		err = end
	}
	return tag, nameQuery(sql, err)
}

func (db *DB) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	results, err := db.send(ctx, sql, args)
	if err != nil {
		return nil, nameQuery(sql, err)
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return nil, nameQuery(sql, err)
	}
	return &tenantRows{Rows: rows, results: results, sql: sql}, nil
}

func (db *DB) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	results, err := db.send(ctx, sql, args)
	return tenantRow{results, sql, err}
}

// namedTx, namedRows and namedRow add the name of the query to errors.
type (
	namedTx   struct{ pgx.Tx }
	namedRows struct {
		pgx.Rows
		sql string
	}
	namedRow struct {
		row pgx.Row
		sql string
	}
)

func (t namedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := t.Tx.Exec(ctx, sql, args...)
	return tag, nameQuery(sql, err)
}

func (t namedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := t.Tx.Query(ctx, sql, args...)
	return namedRows{rows, sql}, nameQuery(sql, err)
}

func (t namedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return namedRow{t.Tx.QueryRow(ctx, sql, args...), sql}
}

func (r namedRows) Err() error             { return nameQuery(r.sql, r.Rows.Err()) }
func (r namedRows) Scan(into ...any) error { return nameQuery(r.sql, r.Rows.Scan(into...)) }
func (r namedRow) Scan(into ...any) error  { return nameQuery(r.sql, r.row.Scan(into...)) }

// nameQuery adds the name of a generated query to its error: the package of the generated method, which is the caller
// of the caller, and the name in the comment with which sqlc begins the statement.
func nameQuery(sql string, err error) error {
	name, generated := strings.CutPrefix(sql, "-- name: ")
	if err == nil || !generated {
		return err
	}
	name, _, _ = strings.Cut(name, " ")
	var caller [1]uintptr
	runtime.Callers(3, caller[:])
	frame, _ := runtime.CallersFrames(caller[:]).Next()
	if owner, _, found := strings.Cut(frame.Function, "/internal/db."); found {
		name = path.Base(owner) + "." + name
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Convert converts the rows of a query. The result is never nil.
func Convert[R, T any](rows []R, convert func(R) T) []T {
	list := make([]T, len(rows))
	for i, row := range rows {
		list[i] = convert(row)
	}
	return list
}

// OrEmpty returns an empty map for nil, which would be stored as NULL instead of {}.
func OrEmpty[M ~map[string]V, V any](m M) M {
	if m == nil {
		return M{}
	}
	return m
}
