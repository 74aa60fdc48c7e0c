// Package sealtest makes sealers with real keys for tests.
package sealtest

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/vault/kms"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/migrations/keyring"
)

// New makes a sealer on the database of a test, with a keyset in a temporary file. bus may be nil.
func New(t testing.TB, db *postgres.DB, bus seal.Bus) *seal.Sealer {
	t.Helper()
	Migrate(t, db)
	return seal.New(seal.Deps{
		DB: db, Separate: nil, KMS: Local(t), Bus: bus, Log: slog.New(slog.DiscardHandler), Now: clock.Now, Config: seal.Config{}, OldKMS: nil,
		Registry: nil,
	})
}

// Migrate creates the schema keyring in a database.
func Migrate(t testing.TB, db *postgres.DB) {
	t.Helper()
	if _, err := postgres.MigrateSchema(t.Context(), db, keyring.Files, keyring.Schema); err != nil {
		t.Fatal(err)
	}
}

// Local makes a local key management service with a new keyset in a temporary file.
func Local(t testing.TB) *kms.Local {
	t.Helper()
	local, err := kms.OpenLocal(kms.LocalConfig{File: filepath.Join(t.TempDir(), "keyset.json"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	return local
}
