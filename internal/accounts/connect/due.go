package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

const (
	// dueEvery is how often a worker looks for attempts whose time has come.
	dueEvery = 500 * time.Millisecond
	// cleanEvery is how often it looks for what is left over.
	cleanEvery = 15 * time.Second
	// readable is how long an attempt can be read after its end.
	readable = 7 * 24 * time.Hour
	cleaned  = 500
)

// Run does what becomes due, until the context ends. Every worker runs it; a row is dealt with by one. What is due, and whose lease has
// ended, goes by the database's clock: by their own, nodes would take each other's steps, and the platform would get a password twice.
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
			c.Log.LogAttrs(ctx, slog.LevelWarn, "attempts not looked after", slog.Any("error", err))
		}
	}
}

// Due deals with every attempt whose time has come.
func (c *Connects) Due(ctx context.Context) error {
	for ctx.Err() == nil {
		more, err := c.dueOne(ctx)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (c *Connects) dueOne(ctx context.Context) (more bool, err error) {
	var r record
	var version int64
	err = c.DB.Tx(ctx, func(tx postgres.Tx) error {
		more = false
		now, err := c.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		row, err := db.New(tx).LockDue(ctx, &now)
		if errors.Is(err, postgres.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for due attempts: %w", err)
		}
		more = true
		if r, err = read(row); err != nil {
			return err
		}
		version = r.Version
		run, err := r.Due(now)
		if err != nil {
			return fmt.Errorf("attempt %s: %w", r.ID, err)
		}
		if err := c.save(ctx, tx, &r, version); err != nil {
			return err
		}
		if run {
			return c.enqueue(ctx, tx, r)
		}
		return nil
	})
	if err == nil && more && r.Version != version {
		c.settled(ctx, r)
	}
	return more, err
}

// Clean removes what ended attempts leave: their keys, and in the end they themselves.
func (c *Connects) Clean(ctx context.Context) error {
	now, err := c.DB.Now(ctx, c.DB.Pool())
	if err != nil {
		return err
	}
	q := db.New(c.DB.Pool())
	before := now.Add(-attempt.Lease)
	rows, err := q.Unshredded(ctx, db.UnshreddedParams{Before: &before, MaxRows: cleaned})
	if err != nil {
		return fmt.Errorf("look for keys of ended attempts: %w", err)
	}
	for _, row := range rows {
		c.wipe(ctx, row.OrgID, row.ID)
	}
	old := now.Add(-readable)
	if _, err := q.Forget(ctx, db.ForgetParams{Before: &old, MaxRows: cleaned}); err != nil {
		return fmt.Errorf("forget old attempts: %w", err)
	}
	return errors.Join(q.ForgetGuards(ctx, now.Add(-2*time.Hour)), q.ForgetOutcomes(ctx, now.Add(-48*time.Hour)))
}
