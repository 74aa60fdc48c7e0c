package testenv

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// PgBouncer starts PgBouncer in transaction mode in front of the server of a database, with fewer sessions of the server
// than any node has connections. It returns the address of the database through it.
func PgBouncer(t testing.TB, database secret.String) (*Process, secret.String) {
	t.Helper()
	target, err := url.Parse(database.Reveal())
	must.OK(t, err)
	address := FreePort(t)
	_, port, err := net.SplitHostPort(address)
	must.OK(t, err)
	// PgBouncer does not run as root, and its other user must be able to read the files.
	dir, err := os.MkdirTemp("", "stagedoor-pgbouncer-") //nolint:usetesting // only root can enter the folders of t.TempDir
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.OK(t, os.Chmod(dir, 0o755))
	users, config := filepath.Join(dir, "users.txt"), filepath.Join(dir, "pgbouncer.ini")
	must.OK(t, os.WriteFile(users, fmt.Appendf(nil, "%q \"\"\n%q \"\"\n", target.User.Username(), serviceRole), 0o644))
	must.OK(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
`, target.Hostname(), target.Port(), port, users), 0o644))
	args := []string{config}
	if os.Getuid() == 0 {
		args = append(args, "-u", "nobody")
	}
	p := StartProcess(t, address, func() *exec.Cmd { return exec.Command(pgBouncerBinary(), args...) })
	target.Host = address
	return p, secret.New(target.String())
}

// pgBouncerBinary returns the name of PgBouncer, which Debian installs where only root looks for programs.
func pgBouncerBinary() string {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path
	}
	return "/usr/sbin/pgbouncer"
}
