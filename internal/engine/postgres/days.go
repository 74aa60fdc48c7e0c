package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
)

// Day is a day in UTC, counted from 1970-01-01. A table with daily partitions has one partition for each.
type Day int64

const secondsPerDay = 24 * 60 * 60

// DayOf returns the day of a time, which must not be before 1970.
func DayOf(at time.Time) Day { return Day(at.Unix() / secondsPerDay) }

// Start returns midnight UTC at the start of the day.
func (d Day) Start() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

const dayLayout = "20060102"

// Days creates and drops the daily partitions of a table that is partitioned by range of a timestamp. Any number of
// nodes may do so concurrently: an advisory lock per table serialises them.
type Days struct {
	db    *DB
	table string
	log   *slog.Logger
}

// NewDays makes the Days of a table. The partitions are named <table>_YYYYMMDD.
func NewDays(db *DB, table string, log *slog.Logger) *Days { return &Days{db, table, log} }

// Upkeep creates the partitions from back days ago to ahead days from today, and drops those older than keep days.
// Today is the day of the database's clock: a node whose own clock is wrong must not drop the data of all nodes. It
// returns today.
func (d *Days) Upkeep(ctx context.Context, back, ahead, keep int) (today Day, err error) {
	now, err := d.db.Now(ctx, d.db.pool)
	if err != nil {
		return 0, err
	}
	today = DayOf(now)
	wanted := make([]Day, 0, back+ahead+1)
	for n := -back; n <= ahead; n++ {
		wanted = append(wanted, today+Day(n))
	}
	if err := d.Make(ctx, wanted...); err != nil {
		return 0, err
	}
	return today, d.dropBefore(ctx, today-Day(keep))
}

const (
	// daysLock is the first half of the key of the advisory lock; the second half is a hash of the table's name.
	daysLock      = 7_264_003
	daysLockQuery = "SELECT pg_advisory_xact_lock($1::integer, hashtext($2))"
	// dropLockTimeout bounds how long a drop waits for its lock on the table. While it waits, all later queries on the
	// table wait for it.
	dropLockTimeout = "200ms"
)

// Make creates the partitions of the given days that do not exist.
func (d *Days) Make(ctx context.Context, wanted ...Day) error {
	found, err := d.list(ctx, d.db.pool) // usually all exist, and no lock is needed
	if err != nil || !lacks(found, wanted) {
		return err
	}
	err = d.db.Tx(ctx, func(tx Tx) error {
		if _, err := tx.Exec(ctx, daysLockQuery, daysLock, d.table); err != nil {
			return err
		}
		// Another node may have created them while this one waited for the lock.
		found, err := d.list(ctx, tx)
		if err != nil {
			return err
		}
		for _, day := range wanted {
			if slices.Contains(found, day) {
				continue
			}
			// The service's role does not own the table, so functions create and drop partitions.
			if _, err := tx.Exec(ctx, "SELECT add_day($1, $2)", d.table, day.Start()); err != nil {
				return err
			}
			found = append(found, day)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("create partitions of %s: %w", d.table, err)
	}
	return nil
}

// lacks reports whether any of the wanted days was not found.
func lacks(found, wanted []Day) bool {
	return slices.ContainsFunc(wanted, func(d Day) bool { return !slices.Contains(found, d) })
}

// dropShare limits one run to dropping 1/dropShare of the existing days. Normally one day expires at a time. If many
// expire at once, the clock is wrong or nothing ran for a week or more.
const dropShare = 4

// dropBefore drops the partitions of days before one. If there are too many, it drops none and logs an error, so that
// an operator can check the clock before data is lost.
func (d *Days) dropBefore(ctx context.Context, before Day) error {
	found, err := d.list(ctx, d.db.pool)
	if err != nil {
		return err
	}
	old := slices.DeleteFunc(slices.Clone(found), func(day Day) bool { return day >= before })
	if len(old) > max(1, len(found)/dropShare) {
		d.log.LogAttrs(ctx, slog.LevelError, "too many days have expired at once; none is dropped", slog.String(logkey.Table, d.table),
			slog.Int(logkey.Expired, len(old)), slog.Int(logkey.Days, len(found)), slog.Time(logkey.Before, before.Start()))
		return nil
	}
	for _, day := range old {
		err := d.db.Tx(ctx, func(tx Tx) error {
			if _, err := tx.Exec(ctx, daysLockQuery, daysLock, d.table); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+dropLockTimeout+"'"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "SELECT drop_day($1, $2)", d.table, day.Start())
			return err
		})
		if err != nil {
			return fmt.Errorf("drop a partition of %s: %w", d.table, err)
		}
	}
	return nil
}

// trimBatch is how many rows Trim deletes with one statement.
const trimBatch = 10_000

// Trim deletes the rows of these orgs from the days that are older than keep days, for orgs whose rows are kept for a
// shorter time than the table's days. Like Upkeep it goes by the database's clock. It returns how many rows it deleted.
func (d *Days) Trim(ctx context.Context, orgs []string, keep int) (deleted int64, err error) {
	now, err := d.db.Now(ctx, d.db.pool)
	if err != nil {
		return 0, err
	}
	found, err := d.list(ctx, d.db.pool)
	if err != nil {
		return 0, err
	}
	slices.Sort(found)
	// The positions in a day are those of other rows in other days, so both conditions name the day.
	statement := fmt.Sprintf(`DELETE FROM %[1]s WHERE at >= $3 AND at < $4 AND org_id = ANY ($1)
		AND ctid = ANY (ARRAY(SELECT ctid FROM %[1]s WHERE at >= $3 AND at < $4 AND org_id = ANY ($1) LIMIT $2))`, pgx.Identifier{d.table}.Sanitize())
	for _, day := range found {
		if day >= DayOf(now)-Day(keep) {
			break
		}
		for {
			tag, err := d.db.Exec(ctx, statement, orgs, trimBatch, day.Start(), (day + 1).Start())
			if err != nil {
				return deleted, fmt.Errorf("trim a day of %s: %w", d.table, err)
			}
			if deleted += tag.RowsAffected(); tag.RowsAffected() < trimBatch {
				break
			}
		}
	}
	return deleted, nil
}

// partition returns the quoted name of a day's partition.
func partition(table string, day Day) string {
	return pgx.Identifier{table + "_" + day.Start().Format(dayLayout)}.Sanitize()
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (d *Days) list(ctx context.Context, q querier) ([]Day, error) {
	rows, err := q.Query(ctx, "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass($1)", d.table)
	if err != nil {
		return nil, fmt.Errorf("list partitions of %s: %w", d.table, err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list partitions of %s: %w", d.table, err)
	}
	var days []Day
	for _, name := range names {
		text, ok := strings.CutPrefix(name, d.table+"_")
		if at, err := time.Parse(dayLayout, text); ok && err == nil {
			days = append(days, DayOf(at))
		}
	}
	return days, nil
}

// MissingDay reports whether err, an error of Rows.Send, means that a row belongs to a day without a partition.
func MissingDay(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "42P01" // undefined_table
}
