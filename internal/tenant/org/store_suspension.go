package org

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/org/internal/db"
)

// announceReader records, by the database's clock, until when this process may act on what it is about to read.
func announceReader(ctx context.Context, q db.DBTX, process string, trusted time.Duration) error {
	err := db.New(q).AnnounceReader(ctx, db.AnnounceReaderParams{
		Process: process, Trusted: pgtype.Interval{Microseconds: trusted.Microseconds(), Valid: true},
	})
	if err != nil {
		return fmt.Errorf("announce suspension reader: %w", err)
	}
	return nil
}

// readSuspended returns the suspended orgs and a time of the database's clock. The set includes every suspension that
// was committed before that time, because the time is taken before the orgs are read.
func readSuspended(ctx context.Context, q db.DBTX) (map[id.Org]struct{}, time.Time, error) {
	at, err := databaseTime(ctx, q)
	if err != nil {
		return nil, time.Time{}, err
	}
	rows, err := db.New(q).Suspended(ctx)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read suspended orgs: %w", err)
	}
	orgs := make(map[id.Org]struct{}, len(rows))
	for _, one := range rows {
		orgs[one] = struct{}{}
	}
	return orgs, at, nil
}

func databaseTime(ctx context.Context, q db.DBTX) (time.Time, error) {
	at, err := db.New(q).StatementTime(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("read database time: %w", err)
	}
	return at, nil
}

// confirmReader records that this process obeys every suspension committed before at.
func confirmReader(ctx context.Context, q db.DBTX, process string, at time.Time) error {
	if err := db.New(q).ConfirmReader(ctx, db.ConfirmReaderParams{Process: process, ObeyedAt: at}); err != nil {
		return fmt.Errorf("confirm suspension reader: %w", err)
	}
	return nil
}

// removeReader deletes this process's row, and rows of other processes whose trust ended more than an hour ago.
func removeReader(ctx context.Context, q db.DBTX, process string) error {
	if err := db.New(q).RemoveReader(ctx, process); err != nil {
		return fmt.Errorf("remove suspension reader: %w", err)
	}
	return nil
}

// allObey reports whether every process has either confirmed a read after since or lost its trust.
func allObey(ctx context.Context, q db.DBTX, since time.Time) (bool, error) {
	obeyed, err := db.New(q).AllObey(ctx, since)
	if err != nil {
		return false, fmt.Errorf("check whether all processes obey a suspension: %w", err)
	}
	return obeyed, nil
}
