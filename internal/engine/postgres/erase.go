package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// TablesWith returns the tables of the current schema that have a column of this name. A table comes before the tables
// that its foreign keys refer to, so rows can be deleted in this order. Partitions are not listed: their parent is.
func (db *DB) TablesWith(ctx context.Context, column string) ([]string, error) {
	rows, err := db.pool.Query(ctx, `
		SELECT c.oid::regclass::text, ARRAY(
			SELECT f.confrelid::regclass::text FROM pg_constraint f
			WHERE f.conrelid = c.oid AND f.contype = 'f' AND f.confrelid <> c.oid
		)
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE a.attname = $1 AND NOT a.attisdropped AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND c.relnamespace = current_schema()::regnamespace
		ORDER BY 1`, column)
	if err != nil {
		return nil, fmt.Errorf("list the tables with a column %s: %w", column, err)
	}
	refersTo := map[string][]string{}
	var (
		waiting []string
		name    string
		others  []string
	)
	_, err = pgx.ForEachRow(rows, []any{&name, &others}, func() error {
		waiting, refersTo[name] = append(waiting, name), slices.Clone(others)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the tables with a column %s: %w", column, err)
	}
	ordered := make([]string, 0, len(waiting))
	for len(waiting) > 0 {
		next := slices.IndexFunc(waiting, func(table string) bool {
			refers := func(other string) bool { return slices.Contains(refersTo[other], table) }
			return !slices.ContainsFunc(waiting, refers)
		})
		if next < 0 {
			return nil, fmt.Errorf("the tables %v refer to each other in a circle", waiting)
		}
		ordered = append(ordered, waiting[next])
		waiting = slices.Delete(waiting, next, next+1)
	}
	return ordered, nil
}

// eraseBatch is about how many rows one statement of DeleteRows deletes, so that it ends long before its deadline.
const eraseBatch = 5000

// DeleteRows deletes the rows of a table whose column has a value, in batches, until none is left or ctx ends. The table
// is one of TablesWith.
func (db *DB) DeleteRows(ctx context.Context, table, column, value string) (deleted int64, err error) {
	// The positions in a partition are those of other rows in the other partitions, so the outer condition is needed.
	quoted := pgx.Identifier{column}.Sanitize()
	statement := fmt.Sprintf(`DELETE FROM %[1]s WHERE %[2]s = $1
		AND ctid = ANY (ARRAY(SELECT ctid FROM %[1]s WHERE %[2]s = $1 LIMIT %[3]d))`, table, quoted, eraseBatch)
	for {
		tag, err := db.Exec(ctx, statement, value)
		if err != nil {
			return deleted, fmt.Errorf("delete rows of %s: %w", table, err)
		}
		if tag.RowsAffected() == 0 {
			return deleted, nil
		}
		deleted += tag.RowsAffected()
	}
}
