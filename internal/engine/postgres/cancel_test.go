package postgres_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// slowConn is a connection whose next write, if slow is set, ends when its response has been read in the background and
// then cancels the query.
type slowConn struct {
	net.Conn
	reads  atomic.Int64
	slow   atomic.Bool
	cancel func()
	past   chan struct{}
}

func (c *slowConn) Read(b []byte) (int, error) {
	c.reads.Add(1)
	return c.Conn.Read(b)
}

func (c *slowConn) SetDeadline(at time.Time) error {
	err := c.Conn.SetDeadline(at)
	if !at.IsZero() && c.cancel != nil {
		close(c.past)
		c.cancel = nil
	}
	return err
}

func (c *slowConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.slow.CompareAndSwap(true, false) {
		before := c.reads.Load()
		for c.reads.Load() < before+2 { // the first read got the response, the second one waits
			<-time.After(time.Millisecond)
		}
		c.cancel()
		<-c.past
	}
	return n, err
}

// A query may succeed although its context is cancelled at the end. The next query on the pool must not get the timeout
// by which pgx interrupts the first one.
func TestQueryAfterCancelledOneSucceeds(t *testing.T) {
	t.Parallel()
	cfg, err := pgxpool.ParseConfig(testenv.EmptyDatabase(t).Reveal())
	must.OK(t, err)
	cfg.MaxConns = 1
	var conn *slowConn
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := (&net.Dialer{}).DialContext(ctx, network, address)
		conn = &slowConn{Conn: inner, past: make(chan struct{})}
		return conn, err
	}
	postgres.DropInterrupted(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must.OK(t, err)
	defer pool.Close()
	var n int
	must.OK(t, pool.QueryRow(t.Context(), "SELECT 1").Scan(&n))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	conn.cancel = cancel
	conn.slow.Store(true)
	if err := pool.QueryRow(ctx, "SELECT 1").Scan(&n); err != nil {
		t.Fatalf("the query whose context is cancelled at its end: %v", err)
	}
	must.OK(t, pool.QueryRow(t.Context(), "SELECT 1").Scan(&n))
}
