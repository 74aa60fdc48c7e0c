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
)

// Day counts days since 1970, in UTC. A table that is kept by days has a partition for each.
type Day int64

const secondsPerDay = 24 * 60 * 60

// DayOf is the day of a time after 1970.
func DayOf(at time.Time) Day { return Day(at.Unix() / secondsPerDay) }

// Start is the first moment of the day.
func (d Day) Start() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

const dayLayout = "20060102"

// Days makes and drops the partitions of a table that is partitioned by range of a time. Any number of nodes may do so at once.
type Days struct {
	db    *DB
	table string
	log   *slog.Logger
}

// NewDays keeps the days of a table: its partitions are called <table>_YYYYMMDD.
func NewDays(db *DB, table string, log *slog.Logger) *Days { return &Days{db, table, log} }

// Upkeep makes the days from back days ago until ahead days from today, and drops those more than keep days ago. Today is what the
// database's clock says: a node whose own clock is wrong must not drop the data of all nodes. It returns today.
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
	return today, d.drop(ctx, today-Day(keep))
}

const (
	// daysLock is the name of the lock on making and dropping days, as a number. Each table has a lock of its own under it.
	daysLock      = 7_264_003
	daysLockQuery = "SELECT pg_advisory_xact_lock($1::integer, hashtext($2))"
	// dropPatience is how long dropping a day waits for those who use the table, because all others wait behind it meanwhile.
	dropPatience = "200ms"
)

// Make makes those of the days that are not there.
func (d *Days) Make(ctx context.Context, wanted ...Day) error {
	found, err := d.list(ctx, d.db.pool)
	if err != nil || !lacks(found, wanted) {
		return err
	}
	err = d.db.Tx(ctx, func(tx Tx) error {
		if _, err := tx.Exec(ctx, daysLockQuery, daysLock, d.table); err != nil {
			return err
		}
		// Another node may have been first.
		found, err := d.list(ctx, tx)
		if err != nil {
			return err
		}
		for _, day := range wanted {
			if slices.Contains(found, day) {
				continue
			}
			if err := d.makeOne(ctx, tx, day); err != nil {
				return err
			}
			found = append(found, day)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make days of %s: %w", d.table, err)
	}
	return nil
}

func lacks(found, wanted []Day) bool {
	return slices.ContainsFunc(wanted, func(d Day) bool { return !slices.Contains(found, d) })
}

// makeOne makes a table and then attaches it: unlike PARTITION OF, that stops neither readers nor writers.
func (d *Days) makeOne(ctx context.Context, tx Tx, day Day) error {
	whole, part := pgx.Identifier{d.table}.Sanitize(), d.partition(day)
	from, to := day.Start().Format(time.RFC3339), (day + 1).Start().Format(time.RFC3339)
	for _, statement := range []string{
		"CREATE TABLE " + part + " (LIKE " + whole + " INCLUDING ALL)",
		"ALTER TABLE " + whole + " ATTACH PARTITION " + part + " FOR VALUES FROM ('" + from + "') TO ('" + to + "')",
	} {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// dropShare is the largest part of the existing days that one run drops: one in so many. Days pass one at a time; that many have passed at
// once shows that something is wrong with the clock, or that nothing ran for a week or more.
const dropShare = 4

// drop drops the days before one. If those are too many, it drops none and logs an error: an operator has to look.
func (d *Days) drop(ctx context.Context, before Day) error {
	found, err := d.list(ctx, d.db.pool)
	if err != nil {
		return err
	}
	old := slices.DeleteFunc(slices.Clone(found), func(day Day) bool { return day >= before })
	if len(old) > max(1, len(found)/dropShare) {
		d.log.LogAttrs(ctx, slog.LevelError, "too many days have expired at once; none is dropped", slog.String("table", d.table),
			slog.Int("expired", len(old)), slog.Int("days", len(found)), slog.Time("before", before.Start()))
		return nil
	}
	for _, day := range old {
		err := d.db.Tx(ctx, func(tx Tx) error {
			if _, err := tx.Exec(ctx, daysLockQuery, daysLock, d.table); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+dropPatience+"'"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "DROP TABLE IF EXISTS "+d.partition(day))
			return err
		})
		if err != nil {
			return fmt.Errorf("drop a day of %s: %w", d.table, err)
		}
	}
	return nil
}

// partition is the quoted name of the day's table.
func (d *Days) partition(day Day) string {
	return pgx.Identifier{d.table + "_" + day.Start().Format(dayLayout)}.Sanitize()
}

// querier is a pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// list lists the days that are there.
func (d *Days) list(ctx context.Context, q querier) ([]Day, error) {
	rows, err := q.Query(ctx, "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass($1)", d.table)
	if err != nil {
		return nil, fmt.Errorf("list days of %s: %w", d.table, err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list days of %s: %w", d.table, err)
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

// MissingDay says whether an error is a row of a day that has no partition.
func MissingDay(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "23514" && pg.ConstraintName == ""
}
