package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

const (
	// dueEvery is how often a worker looks for attempts that are due.
	dueEvery = 500 * time.Millisecond
	// cleanEvery is how often a worker runs Clean.
	cleanEvery = 15 * time.Second
	// retention is how long an attempt is kept after its end.
	retention = 7 * 24 * time.Hour
	// cleanRows bounds the rows per run of Clean.
	cleanRows = 500
)

// Run handles due attempts and cleans up until ctx ends. Every worker runs it, and each row is handled by one of them.
// Timers and leases use the database's clock: with their own clocks, nodes could take each other's steps, and the
// platform would get a password twice.
func (c *Connects) Run(ctx context.Context) error {
	due, clean := time.NewTicker(dueEvery), time.NewTicker(cleanEvery)
	defer due.Stop()
	defer clean.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-due.C:
			err = c.Due(ctx)
		case <-clean.C:
			err = c.Clean(ctx)
		}
		if err != nil && ctx.Err() == nil {
			c.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot handle due attempts", slog.Any(logkey.Error, err))
		}
	}
}

// Due handles every attempt that is due now.
func (c *Connects) Due(ctx context.Context) error {
	for ctx.Err() == nil {
		more, err := c.runOneDue(ctx)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// runOneDue handles one due attempt; more is false if there was none.
func (c *Connects) runOneDue(ctx context.Context) (more bool, err error) {
	var r record
	var version int64
	err = c.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		more = false
		now, err := c.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		row, err := db.New(tx).LockDue(ctx, &now)
		if errors.Is(err, postgres.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("find due attempts: %w", err)
		}
		more = true
		if r, err = decodeRow(row); err != nil {
			return err
		}
		version = r.Version
		run, err := r.Due(now)
		if err != nil {
			return fmt.Errorf("attempt %s: %w", r.ID, err)
		}
		if err := c.saveChange(ctx, tx, &r, version); err != nil {
			return err
		}
		if run {
			return c.enqueue(ctx, tx, r)
		}
		return nil
	})
	if err == nil && more && r.Version != version {
		c.afterCommit(ctx, r)
	}
	return more, err
}

// Clean destroys data keys of ended attempts that remained, and deletes old attempts, guards and outcomes.
func (c *Connects) Clean(ctx context.Context) error {
	now, err := c.deps.DB.Now(ctx, c.deps.DB)
	if err != nil {
		return err
	}
	q := db.New(c.deps.DB)
	before := now.Add(-attempt.Lease)
	rows, err := q.Unshredded(ctx, db.UnshreddedParams{Before: &before, MaxRows: cleanRows})
	if err != nil {
		return fmt.Errorf("find keys of ended attempts: %w", err)
	}
	for _, row := range rows {
		c.destroyKey(ctx, row.OrgID, row.ID)
	}
	old := now.Add(-retention)
	if _, err := q.Forget(ctx, db.ForgetParams{Before: &old, MaxRows: cleanRows}); err != nil {
		return fmt.Errorf("delete old attempts: %w", err)
	}
	return errors.Join(q.ForgetGuards(ctx, now.Add(-2*time.Hour)), q.ForgetOutcomes(ctx, now.Add(-48*time.Hour)))
}
