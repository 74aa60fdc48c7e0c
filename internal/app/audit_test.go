package app_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// An operator verifies the audit log without a running node. The command fails and names the entries if one is missing,
// and after a rotation of the wrapping key everything still verifies.
func TestVerifyAudit(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	keyset, anchors := filepath.Join(dir, "keyset.json"), filepath.Join(dir, "anchors")
	main, keys := testenv.DatabaseURL(t), testenv.DatabaseURL(t)
	environ := []string{"DATABASE_URL=" + main.Reveal(), "STAGEDOOR_KEYRING_URL=" + keys.Reveal(), "STAGEDOOR_KMS=local:" + keyset}
	local, err := kms.OpenLocal(kms.LocalConfig{File: keyset, Create: true})
	must.OK(t, err)
	db, err := postgres.Open(ctx, postgres.Config{URL: main, MaxConns: 4, Name: "test"})
	must.OK(t, err)
	t.Cleanup(db.Close)
	keyring, err := postgres.Open(ctx, postgres.Config{URL: keys, MaxConns: 4, Name: "test"})
	must.OK(t, err)
	t.Cleanup(keyring.Close)
	sealer := seal.New(seal.Deps{DB: keyring, KMS: local, Log: slog.New(slog.DiscardHandler), Now: clock.Now})
	log := audit.New(db, sealer, clock.Now)
	owner := id.New[id.Org]()
	expect := func(fails bool, want string, args ...string) {
		t.Helper()
		code, stdout, stderr := run(t, environ, append([]string{"admin", "verify-audit"}, args...)...)
		if (code != 0) != fails || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%v: %d\n%s%s", args, code, stdout, stderr)
		}
	}
	expect(true, "the keyring is empty")
	for range 3 {
		must.OK(t, db.Tx(ctx, func(tx postgres.Tx) error {
			return log.Record(ctx, tx, owner, audit.By{Kind: audit.ActorKey, ID: "key_1", Action: "key.mint"}, "x", audit.Changes{})
		}))
	}
	expect(true, "0 entries have a hash without a key, and such entries are still accepted")
	must.OK(t, audit.NewKeeper(audit.KeeperDeps{
		DB: db, Audit: log, File: anchors, CanKey: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
	}).Round(ctx))
	expect(false, "checked 3 entries of 1 logs and 0 anchors; newest anchor: -")
	_, err = local.Rotate()
	must.OK(t, err)
	expect(false, "checked 3 entries of 1 logs and 1 anchors; newest anchor: 2", "--anchors", anchors, "--org", string(owner))
	expect(true, "--org", "--org", "x")
	expect(true, "no such file", "--anchors", anchors+"2")
	for _, sql := range []string{
		"DELETE FROM audit_entry WHERE seq = 3",
		"UPDATE audit_head SET seq = 2, hash = (SELECT hash FROM audit_entry WHERE seq = 2)",
	} {
		_, err = db.Pool().Exec(ctx, sql)
		must.OK(t, err)
	}
	expect(false, "checked 2 entries")
	expect(true, string(owner)+": entry 3 is missing, although entry 3 was anchored at 2", "--anchors", anchors)
	expect(true, "1 finding; see docs/runbooks/audit-finding.md", "--anchors", anchors)
	expect(true, keyset+" has no anchors of this service", "--anchors", keyset)
	text, err := os.ReadFile(anchors)
	must.OK(t, err)
	must.OK(t, os.WriteFile(anchors, append(text, strings.Replace(string(text), `"seq":3`, `"seq":2`, 1)...), 0o600))
	expect(true, anchors+":2: the line is damaged, or not an anchor of this service", "--anchors", anchors)
	later := audit.New(db, sealer, func() time.Time { return clock.Now().Add(11 * time.Minute) })
	must.OK(t, db.Tx(ctx, func(tx postgres.Tx) error {
		return later.Record(ctx, tx, id.New[id.Org](), audit.By{Kind: audit.ActorKey, ID: "key_1", Action: "key.mint"}, "x", audit.Changes{})
	}))
	expect(true, "is not anchored: the files are not the newest ones, or anchors are suppressed", "--anchors", anchors)
	environ = environ[1:]
	expect(true, "DATABASE_URL")
}
