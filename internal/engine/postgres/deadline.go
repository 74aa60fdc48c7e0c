package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// deadlineGrace is how much longer this side waits than the server's statement timeout, which usually ends a statement
// first. It is long enough for a machine that is very busy.
const deadlineGrace = 10 * time.Second

// deadlines gives every statement, batch, copy and wait for a connection a deadline on this side. The server's own
// timeouts do not help if the server hangs or the network swallows packets. It works as a tracer, because a tracer sees
// every use of a connection, also by the job queue.
type deadlines struct{ limit time.Duration }

// statementDeadline returns the deadline for a value of statement_timeout: milliseconds, or a text such as 30s. It
// returns 0, for none, if the server has none.
func statementDeadline(timeout string) time.Duration {
	ms, err := strconv.Atoi(timeout)
	limit := time.Duration(ms) * time.Millisecond
	if err != nil {
		if limit, err = time.ParseDuration(timeout); err != nil {
			return statementDeadline(statementTimeout)
		}
	}
	if limit <= 0 {
		return 0
	}
	return limit + deadlineGrace
}

type cancelKey struct{}

func (d deadlines) start(ctx context.Context) context.Context {
	if end, ok := ctx.Deadline(); ok && time.Until(end) <= d.limit {
		return context.WithValue(ctx, cancelKey{}, nil) // hides that of an outer operation
	}
	ctx, cancel := context.WithTimeout(ctx, d.limit)
	return context.WithValue(ctx, cancelKey{}, cancel)
}

func (deadlines) end(ctx context.Context) {
	if cancel, ok := ctx.Value(cancelKey{}).(context.CancelFunc); ok && cancel != nil {
		cancel()
	}
}

func (d deadlines) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return d.start(ctx)
}

func (d deadlines) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	d.end(ctx)
}

func (d deadlines) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return d.start(ctx)
}

func (deadlines) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (d deadlines) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) {
	d.end(ctx)
}

func (d deadlines) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return d.start(ctx)
}

func (d deadlines) TraceCopyFromEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromEndData) {
	d.end(ctx)
}

func (d deadlines) TracePrepareStart(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareStartData) context.Context {
	return d.start(ctx)
}

func (d deadlines) TracePrepareEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TracePrepareEndData) {
	d.end(ctx)
}

func (d deadlines) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return d.start(ctx)
}

func (d deadlines) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireEndData) {
	d.end(ctx)
}
