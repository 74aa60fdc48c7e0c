package postgres

import (
	"context"
	"fmt"
	"time"
)

// unlockTimeout bounds the release of a lock.
const unlockTimeout = 3 * time.Second

// TryLock makes this process the only holder of an advisory lock, until release is called or the connection breaks. It
// does not wait: ok is false if another process holds the lock. It keeps a connection of the pool until release.
func (db *DB) TryLock(ctx context.Context, key int64) (release func(), ok bool, err error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("connect to lock %d: %w", key, err)
	}
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", key).Scan(&ok); err != nil || !ok {
		conn.Release()
		if err != nil {
			err = fmt.Errorf("lock %d: %w", key, err)
		}
		return nil, false, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
		defer cancel()
		if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", key); err != nil {
			_ = conn.Conn().Close(ctx) // the end of the session releases the lock
		}
		conn.Release()
	}, true, nil
}
