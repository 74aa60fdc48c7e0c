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
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/migrations/keyring"
)

// An operator inspects, rotates and verifies the keys without a running node.
func TestSealCommands(t *testing.T) {
	t.Parallel()
	url, file := testenv.EmptyDatabase(t), filepath.Join(t.TempDir(), "keyset.json")
	environ := []string{"STAGEDOOR_KEYRING_URL=" + url.Reveal(), "STAGEDOOR_KMS=local:" + file}
	expect := func(fails bool, want string, args ...string) string {
		t.Helper()
		code, stdout, stderr := run(t, environ, append([]string{"seal"}, args...)...)
		if (code != 0) != fails || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%v: %d\n%s%s", args, code, stdout, stderr)
		}
		return stdout
	}
	expect(true, "STAGEDOOR_KMS", "status")
	expect(false, "STAGEDOOR_KMS=local:"+file, "keygen", file)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 4, Name: "test"})
	must.OK(t, err)
	t.Cleanup(db.Close)
	if _, err := postgres.MigrateSchema(t.Context(), db, keyring.Files, keyring.Schema); err != nil {
		t.Fatal(err)
	}
	expect(false, "none yet", "status")
	local, err := kms.OpenLocal(kms.LocalConfig{File: file})
	must.OK(t, err)
	sealer := seal.New(seal.Deps{DB: db, KMS: local, Log: slog.New(slog.DiscardHandler), Now: clock.Now})
	org, holder := id.New[id.Org](), string(id.New[id.Account]())
	must.OK(t, sealer.Prepare(t.Context(), org, holder))
	expect(false, "wraps from now on", "keygen", file)
	expect(false, "(older)", "status")
	expect(false, "re-wrapped 1 org keys and 0 data keys", "rotate", "--kms-only")
	expect(false, "re-wrapped 0 org keys and 1 data keys, deleted 1 org keys", "rotate", "--org", string(org))
	expect(false, "1 orgs have a new key", "rotate")
	expect(true, "--org", "rotate", "--org", holder)
	expect(false, "1 org keys and 1 data keys", "verify")

	signed, err := sealer.SignReceipt(t.Context(), seal.Receipt{Account: id.Account(holder), Org: org, DataKey: "k", Covers: []string{"session"}, PurgedAt: time.Now()})
	must.OK(t, err)
	key := strings.TrimSpace(expect(false, "", "receipt", "key"))
	receipt := filepath.Join(t.TempDir(), "receipt.json")
	for text, fails := range map[string]bool{string(signed): false, strings.Replace(string(signed), `"dataKeyId":"k"`, `"dataKeyId":"l"`, 1): true} {
		must.OK(t, os.WriteFile(receipt, []byte(text), 0o600))
		want := holder
		if fails {
			want = "not valid"
		}
		expect(fails, want, "receipt", "verify", receipt, "--key", key)
	}
	expect(true, "--key", "receipt", "verify", receipt, "--key", "hunter")

	if _, err := db.Pool().Exec(t.Context(), "UPDATE keyring.data_key SET wrapped = '\\x00'"); err != nil {
		t.Fatal(err)
	}
	expect(true, "data key 1 of "+holder, "verify")
	environ = append(environ, "STAGEDOOR_KMS_OLD=local:"+file)
	expect(true, "same key", "status")
}
