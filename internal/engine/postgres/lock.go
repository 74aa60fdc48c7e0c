package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// unlockTimeout bounds the release of a lock.
const unlockTimeout = 3 * time.Second

// lockQuery begins the transaction that holds a lock. It is idle for as long as the lock is held, holds no snapshot, and
// has no number, so it keeps neither vacuum nor readers of events waiting.
const lockQuery = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0"

// TryLock makes this process the only holder of an advisory lock, until release is called or the connection breaks. It
// does not wait: ok is false if another process holds the lock. It keeps a connection of the pool until release.
func (db *DB) TryLock(ctx context.Context, key int64) (release func(), ok bool, err error) {
	// A transaction holds the lock, not the session, which PgBouncer gives to others.
	tx, err := db.pool.BeginTx(ctx, pgx.TxOptions{BeginQuery: lockQuery})
	if err != nil {
		return nil, false, fmt.Errorf("connect to lock %d: %w", key, err)
	}
	release = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // if it fails, the pool closes the connection, which releases the lock
	}
	if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", key).Scan(&ok); err != nil || !ok {
		release()
		if err != nil {
			err = fmt.Errorf("lock %d: %w", key, err)
		}
		return nil, false, err
	}
	return release, true, nil
}
