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

// database is a PostgreSQL of our own.
type database struct {
	// bin is where its programs are, data where its files are.
	bin, data string
	// as is who runs it if we are root, which it refuses to be.
	as *account
}

// account is a user of this machine and its group.
type account struct{ uid, gid uint32 }

// openDatabase finds where the files are. User postgres cannot enter the directories of root, so then they are in /var/tmp.
func openDatabase(bin, dir string) (*database, error) {
	db := &database{bin: bin, data: filepath.Join(dir, "postgres")}
	if os.Geteuid() != 0 {
		return db, nil
	}
	postgres, err := user.Lookup("postgres")
	if err != nil {
		return nil, &core.Fault{Code: core.ExitOther, Text: "PostgreSQL does not run as root, and there is no user postgres to run it as", Hint: "Make one: adduser --system --group postgres"}
	}
	uid, err := strconv.ParseUint(postgres.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the id of user postgres: %w", err)
	}
	gid, err := strconv.ParseUint(postgres.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read the group of user postgres: %w", err)
	}
	db.as = &account{uint32(uid), uint32(gid)}
	if !open(filepath.Dir(dir)) {
		sum := sha256.Sum256([]byte(dir))
		db.data = filepath.Join("/var/tmp", "stagedoor-dev-"+hex.EncodeToString(sum[:5]))
	}
	return db, nil
}

// open says whether everybody can pass through a directory and those above it.
func open(dir string) bool {
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

// command is one of its programs.
func (db *database) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(db.bin, name), args...)
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C", "PATH=" + db.bin + ":/usr/bin:/bin"}
	if db.as != nil {
		runAs(cmd, *db.as)
	}
	return cmd
}

// prepare makes the files on the first run, with a role and a database in them.
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
	if err := db.forget(); err != nil { // what an interrupted first run left
		return err
	}
	if err := os.MkdirAll(db.data, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", db.data, err)
	}
	if db.as != nil {
		if dir := filepath.Dir(db.data); dir != "/var/tmp" {
			if err := os.Chmod(dir, 0o711); err != nil { // ours; others may pass through it, and see nothing
				return fmt.Errorf("let the database into its directory: %w", err)
			}
		}
		if err := os.Chown(db.data, int(db.as.uid), int(db.as.gid)); err != nil {
			return fmt.Errorf("give the database its directory: %w", err)
		}
	}
	if text, err := db.command(ctx, "initdb", "-D", db.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C").CombinedOutput(); err != nil {
		return &core.Fault{Code: core.ExitOther, Text: "initdb failed:\n" + strings.TrimSpace(string(text)), Err: err}
	}
	// Alone on its files it needs no port: role and database are there before the first connection.
	first := db.command(ctx, "postgres", "--single", "-D", db.data, "postgres")
	first.Stdin = strings.NewReader("CREATE ROLE stagedoor LOGIN;\nCREATE DATABASE stagedoor OWNER stagedoor;\n")
	if text, err := first.CombinedOutput(); err != nil || strings.Contains(string(text), "ERROR:") {
		return &core.Fault{Code: core.ExitOther, Text: "the database could not be made:\n" + strings.TrimSpace(string(text)), Err: err}
	}
	return os.WriteFile(filepath.Join(db.data, "stagedoor-ready"), nil, 0o600)
}

// sameVersion refuses files that another version made.
func (db *database) sameVersion(ctx context.Context, made string) error {
	text, err := db.command(ctx, "postgres", "--version").Output()
	if err != nil {
		return fmt.Errorf("ask PostgreSQL for its version: %w", err)
	}
	if fields := strings.Fields(string(text)); len(fields) < 3 || strings.Split(fields[2], ".")[0] != made {
		return &core.Fault{Code: core.ExitOther, Text: fmt.Sprintf("the data were made by PostgreSQL %s, and here is %s", made, strings.TrimSpace(string(text))), Hint: "Install that version, or forget the data: stagedoor dev --reset"}
	}
	return nil
}

// server is the program that serves the files on a port.
func (db *database) server(ctx context.Context, port int) *exec.Cmd {
	return db.command(context.WithoutCancel(ctx), "postgres", "-D", db.data, "-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(port),
		"-c", "unix_socket_directories=", "-c", "max_connections=100", "-c", "shared_buffers=128MB", "-c", "timezone=UTC", "-c", "logging_collector=off")
}

// forget deletes the files.
func (db *database) forget() error {
	if err := os.RemoveAll(db.data); err != nil {
		return fmt.Errorf("delete %s: %w", db.data, err)
	}
	return nil
}
