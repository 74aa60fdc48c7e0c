package dev

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// database is a PostgreSQL cluster that only stagedoor dev uses.
type database struct {
	// bin is the directory of PostgreSQL's programs, data the directory of the cluster.
	bin, data string
	// as is the user to run it as if this process is root, because PostgreSQL refuses to run as root. Otherwise nil.
	as *osUser
}

// osUser is a user of the operating system and its group.
type osUser struct{ uid, gid uint32 }

// openDatabase chooses the user and the directory of the cluster. The user postgres usually cannot enter the
// directories of root; in that case the cluster is in /var/tmp.
func openDatabase(bin, dir string) (*database, error) {
	db := &database{bin: bin, data: filepath.Join(dir, "postgres")}
	if os.Geteuid() != 0 {
		return db, nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		return nil, &core.Fault{
			Code: core.ExitOther, Text: "PostgreSQL does not run as root, and there is no user postgres to run it as",
			Hint: "Create the user: adduser --system --group postgres",
		}
	}
	uid, err := strconv.ParseUint(postgres.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the id of user postgres: %w", err)
	}
	gid, err := strconv.ParseUint(postgres.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the group of user postgres: %w", err)
	}
	db.as = &osUser{uint32(uid), uint32(gid)}
	if !canOthersEnter(filepath.Dir(dir)) {
		sum := sha256.Sum256([]byte(dir))
		db.data = filepath.Join("/var/tmp", "stagedoor-dev-"+hex.EncodeToString(sum[:5]))
	}
	return db, nil
}

// canOthersEnter reports whether all users can traverse dir and its parents.
func canOthersEnter(dir string) bool {
	for {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}

// command returns one of PostgreSQL's programs, to run as the right user.
func (db *database) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(db.bin, name), args...)
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C", "PATH=" + db.bin + ":/usr/bin:/bin"}
	if db.as != nil {
		runAs(cmd, *db.as)
	}
	return cmd
}

// prepare creates the cluster, a role and a database on the first run. The file stagedoor-ready marks a complete
// cluster; an interrupted first run is started over.
func (db *database) prepare(ctx context.Context) error {
	made, err := os.ReadFile(filepath.Join(db.data, "PG_VERSION"))
	switch {
	case err == nil:
		if _, err := os.Stat(filepath.Join(db.data, "stagedoor-ready")); err == nil {
			return db.sameVersion(ctx, strings.TrimSpace(string(made)))
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the database's files: %w", err)
	}
	if err := db.remove(); err != nil { // left by an interrupted first run
		return err
	}
	if err := os.MkdirAll(db.data, 0o700); err != nil {
		return fmt.Errorf("create %s: %w", db.data, err)
	}
	if db.as != nil {
		if dir := filepath.Dir(db.data); dir != "/var/tmp" {
			if err := os.Chmod(dir, 0o711); err != nil { // other users may traverse it, but not list it
				return fmt.Errorf("make the database's directory accessible: %w", err)
			}
		}
		if err := os.Chown(db.data, int(db.as.uid), int(db.as.gid)); err != nil {
			return fmt.Errorf("change the owner of the database's directory: %w", err)
		}
	}
	if text, err := db.command(ctx, "initdb", "-D", db.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C").CombinedOutput(); err != nil {
		return &core.Fault{Code: core.ExitOther, Text: "initdb failed:\n" + strings.TrimSpace(string(text)), Err: err}
	}
	// Single-user mode needs no port, so role and database exist before the first connection.
	first := db.command(ctx, "postgres", "--single", "-D", db.data, "postgres")
	first.Stdin = strings.NewReader("CREATE ROLE stagedoor LOGIN;\nCREATE DATABASE stagedoor OWNER stagedoor;\n")
	if text, err := first.CombinedOutput(); err != nil || strings.Contains(string(text), "ERROR:") {
		return &core.Fault{Code: core.ExitOther, Text: "cannot create the database:\n" + strings.TrimSpace(string(text)),
			Err: err}
	}
	return os.WriteFile(filepath.Join(db.data, "stagedoor-ready"), nil, 0o600)
}

// sameVersion returns a fault if another major version created the cluster, because PostgreSQL cannot open it then.
func (db *database) sameVersion(ctx context.Context, made string) error {
	text, err := db.command(ctx, "postgres", "--version").Output()
	if err != nil {
		return fmt.Errorf("get the version of PostgreSQL: %w", err)
	}
	if fields := strings.Fields(string(text)); len(fields) < 3 || strings.Split(fields[2], ".")[0] != made {
		return &core.Fault{
			Code: core.ExitOther,
			Text: fmt.Sprintf("the data was created by PostgreSQL %s, but the installed version is %s", made,
				strings.TrimSpace(string(text))),
			Hint: "Install that version, or delete the data: stagedoor dev --reset",
		}
	}
	return nil
}

// server returns the command that serves the cluster on a port of the loopback interface.
func (db *database) server(ctx context.Context, port int) *exec.Cmd {
	return db.command(context.WithoutCancel(ctx), "postgres", "-D", db.data, "-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(port),
		"-c", "unix_socket_directories=", "-c", "max_connections=100", "-c", "shared_buffers=128MB", "-c", "timezone=UTC", "-c", "logging_collector=off")
}

// remove deletes the cluster.
func (db *database) remove() error {
	if err := os.RemoveAll(db.data); err != nil {
		return fmt.Errorf("delete %s: %w", db.data, err)
	}
	return nil
}
