package postgres_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"golang.org/x/sys/unix"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// silentServer accepts connections like PostgreSQL and never answers a statement.
func silentServer(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			go func() {
				b := pgproto3.NewBackend(conn, conn)
				if _, err := b.ReceiveStartupMessage(); err != nil {
					return
				}
				b.Send(&pgproto3.AuthenticationOk{})
				b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
				b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
				_ = b.Flush()
				for {
					if _, err := b.Receive(); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// Every use of a server that has stopped to answer ends, although the caller set no deadline.
func TestNothingWaitsForAServerThatIsSilent(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: secret.New("postgres://x@" + silentServer(t) + "/x?sslmode=disable"), MaxConns: 1, Deadline: 20 * time.Millisecond,
	})
	must.OK(t, err)
	t.Cleanup(db.Close)
	never := context.WithoutCancel(t.Context())
	for name, use := range map[string]func() error{
		"query":       func() error { var n int; return db.QueryRow(never, "SELECT 1").Scan(&n) },
		"statement":   func() error { _, err := db.Exec(never, "SELECT 1"); return err },
		"transaction": func() error { return db.Tx(never, func(postgres.Tx) error { return nil }) },
		"batch": func() error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			return db.Pool().SendBatch(never, b).Close()
		},
		"copy": func() error {
			_, err := db.Pool().CopyFrom(never, pgx.Identifier{"x"}, []string{"a"}, pgx.CopyFromRows([][]any{{1}}))
			return err
		},
		"clock": func() error { _, err := db.Now(never, db); return err },
	} {
		if err := use(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A caller that waits for a connection does not wait for ever either.
func TestNothingWaitsForAPoolThatIsInUse(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{
		URL: secret.New("postgres://x@" + silentServer(t) + "/x?sslmode=disable"), MaxConns: 1, Deadline: 5 * time.Second,
	})
	must.OK(t, err)
	t.Cleanup(db.Close)
	held, err := db.Pool().Acquire(t.Context())
	must.OK(t, err)
	defer held.Release()
	if _, err := db.Exec(context.WithoutCancel(t.Context()), "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// The deadline follows the server's statement timeout, which an operator can set in the URL.
func TestDeadlinesFollowTheStatementTimeout(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[string]time.Duration{
		"5000": 15 * time.Second, "30s": 40 * time.Second, "0": 0, "soon": 15 * time.Second, "": 15 * time.Second,
	} {
		if got := postgres.StatementDeadline(timeout); got != want {
			t.Errorf("%q: %v, want %v", timeout, got, want)
		}
	}
}

// The kernel closes a connection whose data is not confirmed.
func TestConnectionsNoticeASilentNetwork(t *testing.T) {
	t.Parallel()
	conn, err := postgres.NewDialer().DialContext(t.Context(), "tcp", silentServer(t))
	must.OK(t, err)
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	must.OK(t, err)
	must.OK(t, raw.Control(func(fd uintptr) {
		for option, want := range map[int]int{unix.TCP_USER_TIMEOUT: 10_000, unix.TCP_KEEPIDLE: 5, unix.TCP_KEEPINTVL: 2, unix.TCP_KEEPCNT: 3} {
			if got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option); err != nil || got != want {
				t.Errorf("option %d: %d, want %d, %v", option, got, want, err)
			}
		}
	}))
}
