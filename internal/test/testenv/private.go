package testenv

import (
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/migrations"
	"github.com/stagedoor/stagedoor/migrations/keyring"
)

// Store is an engine for one test, with access to its files.
type Store struct {
	*Process
	URL secret.String
	// Dir is the folder with all data of the engine.
	Dir string
}

// PrivatePostgres starts a PostgreSQL with the current schema for this test only. It keeps its whole write-ahead log,
// uncompressed, and writes each statement with its parameters to log, so that a test can search both. Without a log, the
// last lines explain why it did not start.
func PrivatePostgres(t testing.TB, log io.Writer) *Store {
	t.Helper()
	s := startPostgres(t, initPostgres(t), log)
	s.migrate(t)
	return s
}

// PrivatePostgresIn is PrivatePostgres in an empty folder, with settings that replace the defaults, such as fsync=on.
func PrivatePostgresIn(t testing.TB, log io.Writer, dir string, settings ...string) *Store {
	t.Helper()
	requireEngines(t)
	if os.Getuid() == 0 {
		chownTo(t, dir, "postgres")
	}
	initPostgresIn(t, dir)
	s := startPostgres(t, dir, log, settings...)
	s.migrate(t)
	return s
}

// postgresDir creates a folder that the server of startPostgres can use.
func postgresDir(t testing.TB) string {
	t.Helper()
	requireEngines(t)
	dir, err := os.MkdirTemp("", "stagedoor-pg-") //nolint:usetesting // user postgres has no access to t.TempDir
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Getuid() == 0 {
		chownTo(t, dir, "postgres")
	}
	return dir
}

// postgresCommand returns a command that runs a program of PostgreSQL. The programs refuse to run as root.
func postgresCommand(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	all := []string{filepath.Join(PostgresPrograms(t), name)}
	if os.Getuid() == 0 {
		all = append([]string{"setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig=KILL", "--"}, all...)
	}
	all = append(all, args...)
	cmd := exec.Command(all[0], all[1:]...)
	cmd.Dir = "/"
	return cmd
}

// runPostgres runs a program of PostgreSQL and fails the test if it fails.
func runPostgres(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := postgresCommand(t, name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// initPostgres creates the files of an empty cluster.
func initPostgres(t testing.TB) (dir string) {
	t.Helper()
	dir = postgresDir(t)
	initPostgresIn(t, dir)
	return dir
}

func initPostgresIn(t testing.TB, dir string) {
	t.Helper()
	runPostgres(t, "initdb", "-D", dir, "-U", "stagedoor", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
}

// startPostgres starts a server on the files of a cluster and waits until it answers queries.
func startPostgres(t testing.TB, dir string, log io.Writer, settings ...string) *Store {
	t.Helper()
	address := FreePort(t)
	_, port, err := net.SplitHostPort(address)
	must.OK(t, err)
	statements := "none"
	if log != nil {
		statements = "all"
	}
	settings = append([]string{
		"listen_addresses=127.0.0.1", "port=" + port, "unix_socket_directories=", "fsync=off", "synchronous_commit=off", "shared_buffers=64MB",
		"wal_compression=off", "wal_keep_size=2GB", "max_wal_size=2GB", "checkpoint_timeout=1h", "log_statement=" + statements, "max_connections=100",
	}, settings...)
	p := StartProcess(t, address, func() *exec.Cmd {
		args := []string{"-D", dir}
		for _, setting := range settings {
			args = append(args, "-c", setting)
		}
		cmd := postgresCommand(t, "postgres", args...)
		cmd.Stdout, cmd.Stderr = log, log
		return cmd
	})
	s := &Store{p, secret.New("postgres://stagedoor@" + address + "/postgres?sslmode=disable"), dir}
	t.Cleanup(s.Stop) // a kill would leave its shared memory behind
	db := s.open(t)
	defer db.Close()
	for tries := 0; db.Ping(t.Context()) != nil; tries++ { // PostgreSQL listens before it accepts queries
		if tries == 200 {
			t.Fatal("the private PostgreSQL does not answer")
		}
		<-time.After(50 * time.Millisecond)
	}
	return s
}

func (s *Store) open(t testing.TB) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: s.URL, MaxConns: 2, Name: "testenv", Patient: true})
	must.OK(t, err)
	return db
}

// PostgresPrograms returns the folder of initdb, pg_dump and the other programs of PostgreSQL.
func PostgresPrograms(t testing.TB) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	must.OK(t, err)
	if len(found) > 0 {
		return filepath.Dir(slices.Max(found))
	}
	path, err := exec.LookPath("initdb")
	must.OK(t, err)
	return filepath.Dir(path)
}

func chownTo(t testing.TB, dir, name string) {
	t.Helper()
	who, err := user.Lookup(name)
	must.OK(t, err)
	uid, err := strconv.Atoi(who.Uid)
	must.OK(t, err)
	gid, err := strconv.Atoi(who.Gid)
	must.OK(t, err)
	must.OK(t, os.Chown(dir, uid, gid))
}

func (s *Store) migrate(t testing.TB) {
	t.Helper()
	db := s.open(t)
	defer db.Close()
	_, err := postgres.Migrate(t.Context(), db, migrations.Files)
	if err == nil {
		_, err = postgres.MigrateSchema(t.Context(), db, keyring.Files, keyring.Schema)
	}
	must.OK(t, err)
	must.OK(t, grantService(t.Context(), db))
}

// Stop shuts the engine down cleanly, so that its files are complete. It may be called twice.
func (s *Store) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	<-s.exited
}

// PrivateJetStream starts a NATS server with JetStream for this test only.
func PrivateJetStream(t testing.TB) *Store {
	t.Helper()
	requireEngines(t)
	address, dir := FreePort(t), t.TempDir()
	_, port, err := net.SplitHostPort(address)
	must.OK(t, err)
	binary := Path(t, ".dev", "bin", "nats-server")
	p := StartProcess(t, address, func() *exec.Cmd {
		return exec.Command(binary, "-a", "127.0.0.1", "-p", port, "-js", "-sd", dir)
	})
	return &Store{p, secret.New("nats://" + address), dir}
}
