// Package testenv gives tests real engines: a separate database per test, and a shared or private Redis and NATS. A
// missing engine is a failure, not a skip: scripts/engines installs and starts what is needed. Package testnode
// starts nodes of the product. Start with Postgres, Redis and NATS.
package testenv

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/migrations"
	"github.com/stagedoor/stagedoor/migrations/keyring"
)

// engines holds the addresses of the shared test engines.
type engines struct{ database, redis, nats string }

// shared starts the engines once per test process. Engines that already run are reused.
var shared = sync.OnceValues(startEngines)

// startEngines runs scripts/engines, and reads the addresses that it wrote.
func startEngines() (engines, error) {
	root, err := Root()
	if err != nil {
		return engines{}, err
	}
	dir := filepath.Join(root, ".dev", "test")
	out, err := exec.Command(filepath.Join(root, "scripts", "engines"), "up", dir).CombinedOutput()
	if err != nil {
		return engines{}, fmt.Errorf("scripts/engines up %s: %w\n%s", dir, err, out)
	}
	f, err := os.Open(filepath.Join(dir, "engines.env"))
	if err != nil {
		return engines{}, err
	}
	defer f.Close()
	vars := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "export "), "=")
		vars[name] = strings.Trim(value, `'"`)
	}
	return engines{vars["DATABASE_URL"], vars["REDIS_URL"], vars["NATS_URL"]}, nil
}

// Root returns the top folder of the repository.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = filepath.Dir(dir)
	}
}

// requireEngines returns the shared engines, and fails the test if they cannot be started.
func requireEngines(t testing.TB) engines {
	t.Helper()
	e, err := shared()
	if err != nil {
		t.Fatalf("the test engines are not available: %v", err)
	}
	return e
}

// Redis returns the address of a Redis that all tests share. Keys contain org ids, so tests do not collide.
func Redis(t testing.TB) secret.String {
	t.Helper()
	return secret.New(requireEngines(t).redis)
}

// NATS returns the address of a NATS server that all tests share.
func NATS(t testing.TB) secret.String {
	t.Helper()
	return secret.New(requireEngines(t).nats)
}

// DatabaseURL creates a database with the current schema for this test only. When the test ends, the events that were
// written to its outbox are validated against the OpenAPI document.
func DatabaseURL(t testing.TB) secret.String {
	t.Helper()
	url := testDatabase(t, requireEngines(t))
	t.Cleanup(func() { checkEmitted(t, url) })
	return secret.New(url)
}

func testDatabase(t testing.TB, e engines) (url string) {
	t.Helper()
	template, err := schemaTemplate()
	if err != nil {
		t.Fatalf("prepare template database: %v", err)
	}
	name := "t_" + random()
	execAdmin(t, e, "CREATE DATABASE "+name+" TEMPLATE "+template)
	t.Cleanup(func() { execAdmin(t, e, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	return onDatabase(e.database, name)
}

// Postgres creates a database with the current schema for this test only, and opens it.
func Postgres(t testing.TB) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: DatabaseURL(t), MaxConns: 8, Name: "test"})
	must.OK(t, err)
	t.Cleanup(db.Close)
	return db
}

// EmptyDatabase creates a database without a schema.
func EmptyDatabase(t testing.TB) secret.String {
	t.Helper()
	e := requireEngines(t)
	name := "e_" + random()
	execAdmin(t, e, "CREATE DATABASE "+name)
	t.Cleanup(func() { execAdmin(t, e, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	return secret.New(onDatabase(e.database, name))
}

// execAdmin runs a statement on the server's default database.
func execAdmin(t testing.TB, e engines, sql string) {
	t.Helper()
	// The context of a test has ended when its cleanup runs.
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, e.database)
	if err != nil {
		t.Fatalf("connect to the test database server: %v", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// schemaTemplate creates the database that the databases of tests are copied from, once per version of the schema.
var schemaTemplate = sync.OnceValues(func() (string, error) {
	ctx := context.Background()
	e, err := shared()
	if err != nil {
		return "", err
	}
	name := "template_" + schemaHash()
	conn, err := pgx.Connect(ctx, e.database)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	// Packages are tested in separate processes: one creates the template, the others wait. The lock ends with the
	// session.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(7264)"); err != nil {
		return "", err
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)", name).Scan(&exists); err != nil || exists {
		return name, err
	}
	// The template gets its final name only when it is complete.
	draft := "draft_" + random()
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+draft); err != nil {
		return "", err
	}
	db, err := postgres.Open(ctx, postgres.Config{URL: secret.New(onDatabase(e.database, draft)), MaxConns: 4, Name: "template", Patient: true})
	if err != nil {
		return "", err
	}
	if _, err = postgres.Migrate(ctx, db, migrations.Files); err == nil {
		_, err = postgres.MigrateSchema(ctx, db, keyring.Files, keyring.Schema)
	}
	if err == nil {
		_, err = db.Pool().Exec(ctx, recordEvents)
	}
	if err == nil {
		err = grantService(ctx, db)
	}
	db.Close()
	if err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+draft+" RENAME TO "+name)
	return name, err
})

// serviceRole is the role of the product's nodes. It owns nothing, so row-level security applies to it. Tests connect as
// the owner, to whom it does not apply.
const serviceRole = "stagedoor_app"

// grantService creates serviceRole and lets it use a database.
func grantService(ctx context.Context, db *postgres.DB) error {
	// Databases of one server share their roles.
	_, err := db.Pool().Exec(ctx, `DO $$ BEGIN CREATE ROLE `+serviceRole+` LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$`)
	for _, schema := range []string{"public", keyring.Schema} {
		if err == nil {
			err = postgres.Grant(ctx, db, schema, serviceRole)
		}
	}
	return err
}

// AsService returns the URL with which a node connects to a database of DatabaseURL or PrivatePostgres.
func AsService(owner secret.String) secret.String {
	return secret.New(strings.Replace(owner.Reveal(), "://stagedoor@", "://"+serviceRole+"@", 1))
}

// schemaHash identifies the version of the schema by the text of all migrations, and of what tests add to them.
func schemaHash() string {
	h := sha256.New()
	h.Write([]byte(recordEvents))
	for _, files := range []fs.FS{migrations.Files, keyring.Files} {
		names, err := fs.Glob(files, "*.sql")
		if err != nil {
			panic(err)
		}
		for _, name := range names {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				panic(err)
			}
			h.Write(text)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// onDatabase returns the URL of another database on the same server.
func onDatabase(url, name string) string {
	base, query, _ := strings.Cut(url, "?")
	base = base[:strings.LastIndexByte(base, '/')+1] + name
	if query != "" {
		return base + "?" + query
	}
	return base
}

func random() string {
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err)
	}
	return hex.EncodeToString(b[:])
}

// Path returns the path of a file in the repository. Without parts, it is the top folder.
func Path(t testing.TB, parts ...string) string {
	t.Helper()
	root, err := Root()
	must.OK(t, err)
	return filepath.Join(append([]string{root}, parts...)...)
}
