// Package postgres connects to PostgreSQL, the system of record: the connection pool, transactions (DB.Tx), migrations
// (Migrate), daily partitions (Days), bulk inserts (Rows), deletions in all tables (TablesWith, DeleteRows), locks
// (TryLock), and what errors mean (Unavailable, ErrOutcomeUnknown). It knows no tables of the product; each package has
// its own generated queries, which run on a DB or a Tx (query.go).
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// Tx is a transaction.
type Tx = pgx.Tx

// ErrNoRows is returned by a query for one row if there is none.
var ErrNoRows = pgx.ErrNoRows

// Config names the database and sets the limits of the pool.
type Config struct {
	URL      secret.String
	MaxConns int
	// Name is the application_name in pg_stat_activity.
	Name string
	// Tracer is called for every query; nil for none. It must not record the arguments, which may contain secrets.
	Tracer pgx.QueryTracer
	// Patient removes the timeouts of statements, locks and idle transactions, for migrations.
	Patient bool
	// RequireOrg makes a statement fail whose context names no organisation. Without it, the statement sees the rows of
	// all organisations, for commands and tests.
	RequireOrg bool
	// PgBouncer says that the URL leads to PgBouncer in transaction mode, where each transaction may get another session
	// of the server: statements are not prepared, and timeouts are set in each transaction.
	PgBouncer bool
	// Deadline is how long a statement may take as seen from here. Default: the server's statement timeout and a few
	// seconds more; none if Patient.
	Deadline time.Duration
}

// DB is a pool of connections. It is safe for concurrent use.
type DB struct {
	pool       *pgxpool.Pool
	requireOrg bool
	// setOrg is the statement before each single one, and setInTx is set in each transaction after the organisation.
	setOrg, setInTx string
	// clock replaces the server's clock in tests; nil otherwise.
	clock func() time.Time
}

// statementTimeout and lockTimeout are timeouts of the server, in milliseconds, and connectTimeout is that of a connect.
const (
	statementTimeout = "5000"
	lockTimeout      = "2000"
	connectTimeout   = 3 * time.Second
)

// timeouts are the server's. The URL can override them.
var timeouts = [][2]string{
	{"statement_timeout", statementTimeout}, {"lock_timeout", lockTimeout}, {"idle_in_transaction_session_timeout", "10000"},
}

// Open prepares the pool. It does not wait for the server, so a node can start, and report that it is not ready, while
// the database is down.
func Open(ctx context.Context, c Config) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(c.URL.Reveal())
	if err != nil {
		if file, ok := errors.AsType[*fs.PathError](err); ok { // sslrootcert, sslcert or sslkey
			return nil, fmt.Errorf("DATABASE_URL names a file that cannot be read: %w", file)
		}
		// The parser's error contains the URL, including the password.
		return nil, errors.New("DATABASE_URL is not a PostgreSQL URL; it looks like postgres://user:password@host:5432/name")
	}
	cfg.MaxConns = int32(c.MaxConns)
	cfg.MaxConnIdleTime = 5 * time.Minute
	cfg.MaxConnLifetime = time.Hour
	cfg.MaxConnLifetimeJitter = 10 * time.Minute
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	cfg.ConnConfig.DialFunc = newDialer().DialContext
	params := cfg.ConnConfig.RuntimeParams
	settings := map[string]string{"application_name": c.Name, "timezone": "UTC"}
	if !c.Patient {
		for _, timeout := range timeouts {
			settings[timeout[0]] = timeout[1]
		}
	}
	// A setting in the URL takes precedence.
	for name, value := range settings {
		if _, given := params[name]; !given {
			params[name] = value
		}
	}
	limit := cmp.Or(c.Deadline, statementDeadline(params["statement_timeout"]))
	db := &DB{requireOrg: c.RequireOrg, setOrg: "SELECT " + setting(orgSetting, "$1")}
	if c.PgBouncer {
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		for _, timeout := range timeouts {
			name := timeout[0]
			if value, ok := params[name]; ok { // PgBouncer refuses a connection with this parameter
				delete(params, name)
				value = "'" + strings.ReplaceAll(value, "'", "''") + "'"
				db.setOrg += ", " + setting(name, value)
				db.setInTx += "; SET LOCAL " + name + " = " + value
			}
		}
	}
	switch {
	case c.Patient || limit == 0:
		cfg.ConnConfig.Tracer = c.Tracer
	case c.Tracer == nil:
		cfg.ConnConfig.Tracer = deadlines{limit}
	default:
		cfg.ConnConfig.Tracer = multitracer.New(deadlines{limit}, c.Tracer)
	}
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		// Times are scanned in UTC, whatever the time zone of the machine.
		conn.TypeMap().RegisterType(&pgtype.Type{
			Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
		})
		return nil
	}
	dropInterrupted(cfg)
	if db.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("open postgres pool: %w", err)
	}
	return db, nil
}

// ClearText returns the hosts of the URL to which connections may be unencrypted. With sslmode=prefer, the default, they
// may: an attacker on the way can refuse encryption.
func ClearText(u secret.String) (hosts []string) {
	cfg, err := pgconn.ParseConfig(u.Reveal())
	if err != nil {
		return nil // Open reports it
	}
	tries := append([]*pgconn.FallbackConfig{{Host: cfg.Host, TLSConfig: cfg.TLSConfig}}, cfg.Fallbacks...)
	for _, one := range tries {
		if one.TLSConfig == nil && !slices.Contains(hosts, one.Host) {
			hosts = append(hosts, one.Host)
		}
	}
	return hosts
}

// Close closes the pool. It waits for running queries.
func (db *DB) Close() { db.pool.Close() }

// Pool returns the pool, for the job queue and for what needs a connection of its own. Queries run on the DB itself: on
// the pool they see no rows of an organisation, unless the role owns the tables.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// rowQuerier is a pool or a transaction.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Now reads the server's clock, which all nodes share. It decides what is due, when leases expire and what is old, so
// that a node whose own clock is wrong does no harm.
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

// Identity returns a text that is the same for all connections to one database, whatever their address, and different
// for any other database.
func (db *DB) Identity(ctx context.Context) (string, error) {
	var name string
	err := db.pool.QueryRow(ctx, `SELECT (pg_control_system()).system_identifier::text || '/' || oid::text
		FROM pg_database WHERE datname = current_database()`).Scan(&name)
	if err != nil {
		return "", fmt.Errorf("read the identity of the database: %w", err)
	}
	return name, nil
}

// WithClock returns the same database with another clock for Now, so that a test can move time. SQL functions such as
// now() still use the server's clock.
func (db *DB) WithClock(now func() time.Time) *DB {
	other := *db
	other.clock = now
	return &other
}

// Ping returns an error unless the database answers.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.pool.Ping(ctx); err != nil {
		return fmt.Errorf("ping postgres: %w", err)
	}
	return nil
}

// txTries is how often Tx runs a transaction that fails with a deadlock or a serialization failure.
const txTries = 3

// Tx runs do in a transaction and commits it, or rolls it back if do returns an error. After a deadlock or a
// serialization failure it retries, so do may run more than once and must change nothing outside tx. If the error wraps
// ErrOutcomeUnknown, the transaction may have been committed.
func (db *DB) Tx(ctx context.Context, do func(tx Tx) error) error {
	var err error
	for range txTries {
		if err = db.tryTx(ctx, do); !isConflict(err) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("transaction: %w", err)
	}
	return nil
}

// ErrOutcomeUnknown means that the connection broke during a commit, so the transaction may have been committed.
var ErrOutcomeUnknown = errors.New("the transaction may have been committed")

func (db *DB) tryTx(ctx context.Context, do func(tx Tx) error) error {
	options, err := db.begin(ctx, "")
	if err != nil {
		return err
	}
	tx, err := db.pool.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	if err := do(namedTx{tx}); err != nil {
		// If the rollback fails, the pool closes the connection, which rolls back as well.
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return err
	}
	err = tx.Commit(ctx)
	// An error of the server is an answer: the commit failed. Any other error means that the answer was lost.
	if _, answered := errors.AsType[*pgconn.PgError](err); err != nil && !answered && !errors.Is(err, pgx.ErrTxCommitRollback) {
		return errors.Join(ErrOutcomeUnknown, err)
	}
	return err
}

// snapshot is how the transaction of a snapshot begins.
const snapshot = "ISOLATION LEVEL REPEATABLE READ READ ONLY"

// Snapshot runs do in a read-only transaction that sees one consistent state of the database.
func (db *DB) Snapshot(ctx context.Context, do func(tx Tx) error) error {
	options, err := db.begin(ctx, snapshot)
	if err == nil {
		err = pgx.BeginTxFunc(ctx, db.pool, options, func(tx Tx) error { return do(namedTx{tx}) })
	}
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// SnapshotWithin is Snapshot with a time limit. The time starts when a connection is available: waiting for one of a
// few busy connections says nothing about the health of the database. Only ctx bounds that wait.
func (db *DB) SnapshotWithin(ctx context.Context, atMost time.Duration, do func(ctx context.Context, tx Tx) error) error {
	options, err := db.begin(ctx, snapshot)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	if err := pgx.BeginTxFunc(ctx, conn, options, func(tx Tx) error { return do(ctx, namedTx{tx}) }); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// IsUnique reports whether err is a violation of the named unique index.
func IsUnique(err error, index string) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == uniqueViolation && pg.ConstraintName == index
}

// isConflict reports whether err is a serialization failure or a deadlock, after which a transaction can be retried.
func isConflict(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pg.Code == "40001" || pg.Code == "40P01")
}

const uniqueViolation = "23505"

// RefusesData reports whether err means that the database refuses the values of a statement, whenever it is tried: they
// are malformed, too long, or violate a constraint other than uniqueness.
func RefusesData(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code == uniqueViolation {
		return false
	}
	class := pg.Code[:2]
	return class == "22" || class == "23" || class == "54"
}

// Unavailable reports whether err means that the database cannot be used at the moment, rather than that a query is
// wrong. Timeouts and lost conflicts count as well. The caller may retry later. Nothing was committed, unless the error
// came from a commit.
func Unavailable(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code[:2] {
		case "08", "53", "57", "58": // connection, resources, operator intervention (also timeouts and shutdown), system
			return true
		}
		return pg.Code == lockNotAvailable || isConflict(err)
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
