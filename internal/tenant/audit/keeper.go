package audit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

const (
	// roundLock is the key of the advisory lock of Round.
	roundLock = 7_264_051
	// roundEvery is the pause between two rounds. Entries that are removed before they were anchored are not missed.
	roundEvery = time.Minute
	// loadRetry is the pause after a failure to read the key.
	loadRetry = time.Second
	// busyRounds is after how many rounds Round fails because another session has the lock. Other workers have it for
	// moments, except once after an upgrade. Anyone who can connect to the database can take it.
	busyRounds = 5
)

// KeeperDeps are the dependencies of a Keeper.
type KeeperDeps struct {
	DB *postgres.DB
	// Audit is the log that is kept.
	Audit *Log
	// File gets the anchors, one per line; empty for none. They are log lines as well.
	File string
	// CanKey reports whether no node of a version that writes entries without keyed hashes is alive.
	CanKey func() bool
	Log    *slog.Logger
}

// Keeper anchors the heads of all logs outside the database. Once, after an upgrade, it gives all entries keyed hashes.
type Keeper struct {
	deps KeeperDeps
	log  *Log
	// busy counts the rounds in a row in which another session had the lock.
	busy int
}

// NewKeeper returns a Keeper that does nothing until Run.
func NewKeeper(d KeeperDeps) *Keeper { return &Keeper{deps: d, log: d.Audit} }

// Run works in rounds until ctx ends. Any number of nodes may run it: one at a time works.
func (k *Keeper) Run(ctx context.Context) error {
	for range clock.Ticks(ctx, roundEvery) {
		if err := k.Round(ctx); err != nil && ctx.Err() == nil {
			k.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot anchor the audit log", slog.Any(logkey.Error, err))
		}
	}
	return nil
}

// Round anchors the heads that have changed, once all entries are keyed. It does nothing while another process is in a
// round, and fails if that takes minutes.
func (k *Keeper) Round(ctx context.Context) error {
	release, ok, err := k.deps.DB.TryLock(ctx, roundLock)
	if err != nil {
		return err
	}
	if !ok {
		if k.busy++; k.busy >= busyRounds {
			return fmt.Errorf("another session has had the advisory lock %d for %d rounds", roundLock, k.busy)
		}
		return nil
	}
	k.busy = 0
	defer release()
	keyed, err := k.log.isKeyed(ctx)
	if err != nil {
		return err
	}
	if !keyed {
		if !k.deps.CanKey() {
			return nil
		}
		if err := k.keyLogs(ctx); err != nil {
			return err
		}
		if keyed, err = k.log.isKeyed(ctx); err != nil || !keyed {
			return err
		}
	}
	return k.anchorHeads(ctx)
}
