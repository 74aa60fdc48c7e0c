package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

// dropInterrupted makes a pool drop a connection if a context was cancelled while it was in use, even if the query
// succeeded. pgx interrupts such a connection by a deadline in the past. Its background reader, which starts when a
// write is slow, can keep the timeout that results and return it to the next query.
func dropInterrupted(c *pgxpool.Config) {
	c.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
		return interruption{&pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn()}, conn}
	}
	c.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
		return conn.PgConn().CustomData()[interrupted] == nil, nil
	}
}

// interrupted is the key in the custom data of a connection that was interrupted.
const interrupted = "stagedoor.interrupted"

// interruption is the handler of pgx, and records that a connection was interrupted.
type interruption struct {
	*pgconn.DeadlineContextWatcherHandler
	conn *pgconn.PgConn
}

func (i interruption) HandleUnwatchAfterCancel() {
	i.DeadlineContextWatcherHandler.HandleUnwatchAfterCancel()
	i.conn.CustomData()[interrupted] = true
}
