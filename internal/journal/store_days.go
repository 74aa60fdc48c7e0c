package journal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/postgres"
)

// These statements name tables that are made as they are needed, so they are not in queries.sql.

// daysLock is the name of the lock on making and dropping days, as a number.
const daysLock = 7_264_003

// dropPatience is how long dropping a day waits for those who use the table, because all others wait behind it meanwhile.
const dropPatience = "200ms"

// makeDays makes the partitions of days that have none.
func makeDays(ctx context.Context, db *postgres.DB, wanted []day) error {
	found, err := listDays(ctx, db.Pool())
	if err != nil || !lacks(found, wanted) {
		return err
	}
	err = db.Tx(ctx, func(tx postgres.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", daysLock); err != nil {
			return err
		}
		// Another node may have been first.
		found, err := listDays(ctx, tx)
		if err != nil {
			return err
		}
		for _, d := range wanted {
			if slices.Contains(found, d) {
				continue
			}
			if err := makeDay(ctx, tx, d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make days of the request log: %w", err)
	}
	return nil
}

func lacks(found, wanted []day) bool {
	return slices.ContainsFunc(wanted, func(d day) bool { return !slices.Contains(found, d) })
}

// makeDay makes a table and then attaches it: unlike PARTITION OF, that stops neither readers nor writers.
func makeDay(ctx context.Context, tx postgres.Tx, d day) error {
	name := pgx.Identifier{d.partition()}.Sanitize()
	from, to := d.start().Format(time.RFC3339), (d + 1).start().Format(time.RFC3339)
	for _, statement := range []string{
		"CREATE TABLE " + name + " (LIKE request_log INCLUDING ALL)",
		"ALTER TABLE request_log ATTACH PARTITION " + name + " FOR VALUES FROM ('" + from + "') TO ('" + to + "')",
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// dropDays drops the partitions of days before one.
func dropDays(ctx context.Context, db *postgres.DB, before day) error {
	found, err := listDays(ctx, db.Pool())
	if err != nil {
		return err
	}
	for _, d := range found {
		if d >= before {
			continue
		}
		err := db.Tx(ctx, func(tx postgres.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", daysLock); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+dropPatience+"'"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "DROP TABLE IF EXISTS "+pgx.Identifier{d.partition()}.Sanitize())
			return err
		})
		if err != nil {
			return fmt.Errorf("drop a day of the request log: %w", err)
		}
	}
	return nil
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// listDays lists the days that have a partition.
func listDays(ctx context.Context, q querier) ([]day, error) {
	rows, err := q.Query(ctx, `SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'request_log'::regclass`)
	if err != nil {
		return nil, fmt.Errorf("list days of the request log: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list days of the request log: %w", err)
	}
	var days []day
	for _, name := range names {
		if d, ok := parsePartition(name); ok {
			days = append(days, d)
		}
	}
	return days, nil
}
