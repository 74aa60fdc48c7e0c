package test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stagedoor/stagedoor/internal/app"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

// A backup of the main database has the session of an account that was deleted afterwards. If the keyring is in another
// database, the session cannot be opened any more, and the receipt says so. If it is in the same one, the backup brings
// the key back, which is why live organisations need a separate keyring.
func TestABackupDoesNotBringBackADeletedAccount(t *testing.T) {
	t.Parallel()
	for name, separate := range map[string]bool{"separate": true, "shared": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			main, keyset := testenv.DatabaseURL(t), filepath.Join(t.TempDir(), "keyset.json")
			proxy, platform := testenv.NewProxy(t, "127.0.0.1"), sandboxtest.New(t, nil)
			setup := testnode.Setup{Database: main, Keyset: keyset, Sandbox: platform.URL, Egress: secret.New("us=" + proxy.URL())}
			keys := main
			if separate {
				keys = testenv.DatabaseURL(t)
				setup.Env = []string{"STAGEDOOR_KEYRING_URL=" + testenv.AsService(keys).Reveal()}
			}
			node := testnode.Processes(t, 1, setup)[0]
			org := node.NewOrg(t, nil)
			account := node.ConnectLogin(t, org.Key, "ok@sandbox.test", "us")
			backup := filepath.Join(t.TempDir(), "main.dump")
			run(t, "pg_dump", "--format=custom", "--dbname="+main.Reveal(), "--file="+backup)
			if reply := node.Call(t, http.MethodDelete, "/v1/accounts/"+account, org.Key, nil); reply.Status != http.StatusOK {
				t.Fatalf("delete: %d %s", reply.Status, reply.Body)
			}
			receipt := node.Call(t, http.MethodGet, "/v1/accounts/"+account+"/purge-receipt", org.Key, nil).JSON()["receipt"].(map[string]any)
			if receipt["keyring"] != name {
				t.Errorf("the receipt says that the keyring is %v", receipt["keyring"])
			}
			restored := testenv.EmptyDatabase(t)
			run(t, "pg_restore", "--dbname="+restored.Reveal(), "--exit-on-error", "--no-owner", "--no-acl", backup)
			if !separate {
				keys = restored
			}
			err := openSession(t, restored, keys, keyset, account)
			if separate && !errors.Is(err, seal.ErrShredded) || !separate && err != nil {
				t.Errorf("the restored session opens with: %v", err)
			}
		})
	}
}

// openSession opens the session of an account in one database with the keys in another.
func openSession(t *testing.T, main, keys secret.String, keyset, account string) error {
	t.Helper()
	open := func(url secret.String) *postgres.DB {
		db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2, Name: "backup"})
		must.OK(t, err)
		t.Cleanup(db.Close)
		return db
	}
	local, err := kms.OpenLocal(kms.LocalConfig{File: keyset})
	must.OK(t, err)
	at := seal.Address{Holder: account, Purpose: seal.PurposeSession}
	var sealed []byte
	row := open(main).Pool().QueryRow(t.Context(), "SELECT org_id, version, sealed FROM account_secret WHERE account_id = $1 AND purpose = 'session'", account)
	must.OK(t, row.Scan(&at.Org, &at.Version, &sealed))
	_, err = seal.New(seal.Deps{DB: open(keys), KMS: local, Log: slog.New(slog.DiscardHandler), Now: clock.Now}).Open(t.Context(), at, sealed)
	return err
}

func run(t *testing.T, program string, args ...string) {
	t.Helper()
	if out, err := exec.Command(filepath.Join(testenv.PostgresPrograms(t), program), args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// A backup that is restored as operations/backup-and-restore.md says confines the nodes to the rows of an organisation,
// as before: they own nothing and have their grants. The role of the nodes cannot make a backup.
func TestARestoreKeepsRowSecurity(t *testing.T) {
	t.Parallel()
	owner := testenv.DatabaseURL(t)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: owner, MaxConns: 2, Name: "owner"})
	must.OK(t, err)
	t.Cleanup(db.Close)
	one := testenv.AddOrg(t, db)
	testenv.AddOrg(t, db)
	backup := filepath.Join(t.TempDir(), "main.dump")
	dump := exec.Command(filepath.Join(testenv.PostgresPrograms(t), "pg_dump"), "--format=custom", "--dbname="+testenv.AsService(owner).Reveal(), "--file="+backup)
	if text, err := dump.CombinedOutput(); err == nil {
		t.Errorf("the role of the nodes made a backup\n%s", text)
	}
	run(t, "pg_dump", "--format=custom", "--dbname="+owner.Reveal(), "--file="+backup)
	restored := testenv.EmptyDatabase(t)
	run(t, "pg_restore", "--dbname="+restored.Reveal(), "--exit-on-error", "--no-owner", backup)
	var out bytes.Buffer
	environ := []string{"STAGEDOOR_MIGRATION_URL=" + restored.Reveal(), "DATABASE_URL=" + testenv.AsService(restored).Reveal()}
	if code := app.Main(t.Context(), []string{"migrate"}, environ, &out, &out); code != 0 {
		t.Fatalf("migrate: %d\n%s", code, out.String())
	}
	node, err := postgres.Open(t.Context(), postgres.Config{URL: testenv.AsService(restored), MaxConns: 2, Name: "node", RequireOrg: true})
	must.OK(t, err)
	t.Cleanup(node.Close)
	var seen, all int
	must.OK(t, node.QueryRow(postgres.WithOrg(t.Context(), one), "SELECT count(*) FROM org").Scan(&seen))
	must.OK(t, node.QueryRow(postgres.WithAllOrgs(t.Context()), "SELECT count(*) FROM org").Scan(&all))
	if seen != 1 || all != 2 {
		t.Errorf("a node sees %d rows of one organisation, and %d of all; want 1 and 2", seen, all)
	}
	_, err = node.Exec(postgres.WithAllOrgs(t.Context()), "SELECT add_day('event', '2030-01-01 00:00Z')")
	must.OK(t, err)
	var public bool
	must.OK(t, node.QueryRow(postgres.WithAllOrgs(t.Context()), "SELECT has_function_privilege('public', 'drop_day(text, timestamptz)', 'EXECUTE')").Scan(&public))
	if public {
		t.Error("every role may drop days of the restored database")
	}
}
