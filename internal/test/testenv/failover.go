package testenv

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Replica is a streaming replica of a private PostgreSQL.
type Replica struct {
	*Store
	t  testing.TB
	db *postgres.DB
	of *postgres.DB
}

// NewReplica copies a private PostgreSQL and starts a replica that follows it.
func NewReplica(t testing.TB, primary *Store) *Replica {
	t.Helper()
	s := startPostgres(t, BaseBackup(t, primary, "--write-recovery-conf"), io.Discard)
	r := &Replica{Store: s, t: t, db: s.open(t), of: primary.open(t)}
	t.Cleanup(func() { r.db.Close(); r.of.Close() })
	return r
}

// Catch waits until the replica has everything that the primary has written.
func (r *Replica) Catch() {
	r.t.Helper()
	var position string
	// A restore point is written to disk immediately, unlike commits with synchronous_commit=off.
	must.OK(r.t, r.of.Pool().QueryRow(r.t.Context(), "SELECT pg_create_restore_point('catch')::text").Scan(&position))
	r.await("SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn", position)
}

// Lag makes the replica lag: from now on it receives nothing. Call it before Promote to lose what the primary commits
// in between.
func (r *Replica) Lag() {
	r.t.Helper()
	r.Catch()
	for _, sql := range []string{"ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()"} {
		_, err := r.db.Pool().Exec(r.t.Context(), sql)
		must.OK(r.t, err)
	}
	r.await("SELECT NOT EXISTS (SELECT FROM pg_stat_wal_receiver)")
}

// Promote makes the replica a primary, with the transactions that it has received. Stop or kill the primary before.
func (r *Replica) Promote() {
	r.t.Helper()
	r.await("SELECT pg_promote()")
}

func (r *Replica) await(sql string, args ...any) {
	r.t.Helper()
	awaitTrue(r.t, r.db, sql, args...)
}

// awaitTrue repeats a query until it returns true.
func awaitTrue(t testing.TB, db *postgres.DB, sql string, args ...any) {
	t.Helper()
	for range 1200 {
		var done bool
		must.OK(t, db.Pool().QueryRow(t.Context(), sql, args...).Scan(&done))
		if done {
			return
		}
		<-time.After(25 * time.Millisecond)
	}
	t.Fatalf("%s does not become true", sql)
}

// BaseBackup copies the files of a running private PostgreSQL and returns the folder of the copy.
func BaseBackup(t testing.TB, of *Store, options ...string) (dir string) {
	t.Helper()
	dir = postgresDir(t)
	runPostgres(t, "pg_basebackup", append([]string{"-d", of.URL.Reveal(), "-D", dir, "--checkpoint=fast", "--no-sync", "-X", "stream"}, options...)...)
	return dir
}

// RestorePoint names the current point in the history of a private PostgreSQL, for RecoverTo.
func RestorePoint(t testing.TB, in *Store, name string) {
	t.Helper()
	db := in.open(t)
	defer db.Close()
	_, err := db.Pool().Exec(t.Context(), "SELECT pg_create_restore_point($1)", name)
	must.OK(t, err)
}

// RecoverTo starts a PostgreSQL from a base backup and recovers it up to a restore point, with the write-ahead log of
// the PostgreSQL that the backup is of, which must have been stopped. This is what point-in-time recovery does with an
// archive.
func RecoverTo(t testing.TB, of *Store, backup, point string) *Store {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(backup, "recovery.signal"), nil, 0o600))
	if os.Getuid() == 0 {
		chownTo(t, filepath.Join(backup, "recovery.signal"), "postgres")
	}
	s := startPostgres(t, backup, io.Discard, "restore_command=cp "+filepath.Join(of.Dir, "pg_wal")+"/%f %p",
		"recovery_target_name="+point, "recovery_target_action=promote")
	db := s.open(t)
	defer db.Close()
	awaitTrue(t, db, "SELECT NOT pg_is_in_recovery()")
	return s
}

// Dump dumps the database of a PostgreSQL, as the documentation describes it, and returns the file.
func Dump(t testing.TB, from *Store) (file string) {
	t.Helper()
	file = filepath.Join(postgresDir(t), "stagedoor.dump")
	runPostgres(t, "pg_dump", "--format=custom", "--dbname="+from.URL.Reveal(), "--file="+file)
	return file
}

// RestoreDump restores a dump into a fresh cluster, as the documentation describes it.
func RestoreDump(t testing.TB, file string) *Store {
	t.Helper()
	s := startPostgres(t, initPostgres(t), io.Discard)
	runPostgres(t, "pg_restore", "--dbname="+s.URL.Reveal(), "--exit-on-error", "--no-owner", "--no-acl", file)
	s.migrate(t)
	return s
}

// Switch forwards TCP connections to a private PostgreSQL, and can be switched to another one, like the address of a
// database that fails over.
type Switch struct {
	// URL is the URL of the switch, which leads to the database.
	URL secret.String

	mu    sync.Mutex
	to    string
	conns []net.Conn
}

// NewSwitch starts a switch to a PostgreSQL. It stops when the test ends.
func NewSwitch(t testing.TB, to *Store) *Switch {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	s := &Switch{URL: secret.New(strings.Replace(to.URL.Reveal(), to.address, listener.Addr().String(), 1)), to: to.address}
	t.Cleanup(func() {
		listener.Close()
		s.switchTo("")
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			s.connect(near)
		}
	}()
	return s
}

// To closes all connections and forwards new ones to another PostgreSQL.
func (s *Switch) To(other *Store) { s.switchTo(other.address) }

// Cut closes all connections and refuses new ones until To.
func (s *Switch) Cut() { s.switchTo("") }

func (s *Switch) switchTo(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		conn.Close()
	}
	s.to, s.conns = address, nil
}

func (s *Switch) connect(near net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	far, err := net.Dial("tcp", s.to)
	if err != nil {
		near.Close()
		return
	}
	s.conns = append(s.conns, near, far)
	for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
		go func() {
			_, _ = io.Copy(to, from)
			from.Close()
			to.Close()
		}()
	}
}

// EndGeneration makes a database believe that it was restored or failed over, without any loss.
func EndGeneration(t testing.TB, db *postgres.DB) {
	t.Helper()
	_, err := db.Pool().Exec(t.Context(), "UPDATE database_generation SET cluster = 'another'")
	must.OK(t, err)
}

// BeginGeneration does what the first beat of a lease does after a restore or a failover. It returns the first epoch of
// the leases that follow.
func BeginGeneration(t testing.TB, db *postgres.DB) (firstEpoch int64) {
	t.Helper()
	must.OK(t, db.Pool().QueryRow(t.Context(), "SELECT begin_generation()").Scan(&firstEpoch))
	return firstEpoch
}
