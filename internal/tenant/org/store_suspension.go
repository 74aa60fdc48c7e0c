package org

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/org/internal/db"
)

func announceReader(ctx context.Context, q db.DBTX, process string, trusted time.Duration) error {
	err := db.New(q).AnnounceReader(ctx, db.AnnounceReaderParams{
		Process: process, Trusted: pgtype.Interval{Microseconds: trusted.Microseconds(), Valid: true},
	})
	if err != nil {
		return fmt.Errorf("announce a reader of suspensions: %w", err)
	}
	return nil
}

// readSuspended reads the suspended orgs, and a time: every suspension that was committed before it is among them.
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
		return time.Time{}, fmt.Errorf("ask the database for its time: %w", err)
	}
	return at, nil
}

func confirmReader(ctx context.Context, q db.DBTX, process string, at time.Time) error {
	if err := db.New(q).ConfirmReader(ctx, db.ConfirmReaderParams{Process: process, ObeyedAt: at}); err != nil {
		return fmt.Errorf("confirm that suspensions are obeyed: %w", err)
	}
	return nil
}

func removeReader(ctx context.Context, q db.DBTX, process string) error {
	if err := db.New(q).RemoveReader(ctx, process); err != nil {
		return fmt.Errorf("remove a reader of suspensions: %w", err)
	}
	return nil
}

func allObey(ctx context.Context, q db.DBTX, since time.Time) (bool, error) {
	obeyed, err := db.New(q).AllObey(ctx, since)
	if err != nil {
		return false, fmt.Errorf("ask whether all processes obey a suspension: %w", err)
	}
	return obeyed, nil
}
