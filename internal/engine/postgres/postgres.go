// Package postgres is the system of record: the pool, transactions, migrations, and what its failures mean.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Tx is a transaction.
type Tx = pgx.Tx

// ErrNoRows is what a query of one row returns when there is none.
var ErrNoRows = pgx.ErrNoRows

// Config says where the database is and how much of it a node may take.
type Config struct {
	URL      secret.String
	MaxConns int
	// Name shows up in pg_stat_activity.
	Name string
	// Tracer sees every query, without its arguments; nil for none.
	Tracer pgx.QueryTracer
	// Patient lifts the limits on how long a statement may take, for migrations.
	Patient bool
}

// DB is a pool of connections.
type DB struct {
	pool *pgxpool.Pool
	// clock replaces the server's; nil for the server's own.
	clock func() time.Time
}

// How long the server lets one thing take before it gives up on it, in milliseconds.
const (
	statementTimeout = "5000"
	lockTimeout      = "2000"
	idleInTxTimeout  = "10000"
	connectTimeout   = 3 * time.Second
)

// Open prepares the pool. It does not wait for the server: a node starts, and reports itself not ready,
// while the database is away.
func Open(ctx context.Context, c Config) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(c.URL.Reveal())
	if err != nil {
		// The parser's error quotes the URL, password and all.
		return nil, errors.New("DATABASE_URL is not a PostgreSQL URL; it looks like postgres://user:password@host:5432/name")
	}
	cfg.MaxConns = int32(c.MaxConns)
	cfg.MaxConnIdleTime = 5 * time.Minute
	cfg.MaxConnLifetime = time.Hour
	cfg.MaxConnLifetimeJitter = 10 * time.Minute
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	cfg.ConnConfig.Tracer = c.Tracer
	settings := map[string]string{"application_name": c.Name, "timezone": "UTC"}
	if !c.Patient {
		settings["statement_timeout"] = statementTimeout
		settings["lock_timeout"] = lockTimeout
		settings["idle_in_transaction_session_timeout"] = idleInTxTimeout
	}
	for name, value := range settings {
		if _, given := cfg.ConnConfig.RuntimeParams[name]; !given {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		// Times are in UTC whatever the machine thinks, so that every answer shows them alike.
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		return nil
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open postgres pool: %w", err)
	}
	return &DB{pool: pool}, nil
}

// Close gives the connections back. Queries under way finish first.
func (db *DB) Close() { db.pool.Close() }

// Pool is for stores and for the job queue.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// rowQuerier is a pool or a transaction.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Now reads the server's clock. All nodes share it, so it decides what is due, how long a lease holds and what is old, however wrong a
// node's own clock is.
func (db *DB) Now(ctx context.Context, q rowQuerier) (time.Time, error) {
	if db.clock != nil {
		return db.clock().UTC().Truncate(time.Microsecond), nil
	}
	var now time.Time
	if err := q.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return now, nil
}

// WithClock is the same database with another clock for Now, so that a test can move time.
func (db *DB) WithClock(now func() time.Time) *DB { return &DB{pool: db.pool, clock: now} }

// Ping says whether the database answers.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.pool.Ping(ctx); err != nil {
		return fmt.Errorf("ping postgres: %w", err)
	}
	return nil
}

// txTries is how often a transaction is run that the database broke off to let another one pass.
const txTries = 3

// Tx runs do in a transaction and commits it. do may run more than once, so it must change nothing outside tx.
func (db *DB) Tx(ctx context.Context, do func(tx Tx) error) error {
	var err error
	for range txTries {
		if err = db.try(ctx, do); !isConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("transaction: %w", err)
	}
	return nil
}

// ErrOutcomeUnknown means that the connection broke while a transaction was being committed: it may have been.
var ErrOutcomeUnknown = errors.New("it is not known whether the transaction was committed")

func (db *DB) try(ctx context.Context, do func(tx Tx) error) error {
	tx, err := db.pool.Begin(ctx)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		// The connection is closed if the rollback fails, which rolls back as well.
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return err
	}
	err = tx.Commit(ctx)
	if _, answered := errors.AsType[*pgconn.PgError](err); err != nil && !answered && !errors.Is(err, pgx.ErrTxCommitRollback) {
		return errors.Join(ErrOutcomeUnknown, err)
	}
	return err
}

// Snapshot runs do on one consistent state of the database.
func (db *DB) Snapshot(ctx context.Context, do func(tx Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	if err := pgx.BeginTxFunc(ctx, db.pool, options, do); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// SnapshotWithin is Snapshot for a caller that gives the database only so long to answer. The time counts from when there is a connection:
// a wait for one of a few busy connections says nothing about the database, and is bounded by the context alone.
func (db *DB) SnapshotWithin(ctx context.Context, atMost time.Duration, do func(ctx context.Context, tx Tx) error) error {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	if err := pgx.BeginTxFunc(ctx, conn, options, func(tx Tx) error { return do(ctx, tx) }); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// IsUnique says whether an error is a row that a unique index refused.
func IsUnique(err error, index string) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "23505" && pg.ConstraintName == index
}

// isConflict recognises serialization failures and deadlocks.
func isConflict(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "40001" || pg.Code == "40P01")
}

// Unavailable says whether an error means that the database cannot be used right now, rather than that
// a query is wrong. The caller may try again later; nothing was committed unless the error came from a commit.
func Unavailable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code[:2] {
		case "08", "53", "57", "58": // connection, resources, operator intervention (timeouts and shutdown too), system
			return true
		}
		return pg.Code == "55P03" || isConflict(err) // lock_timeout
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}
