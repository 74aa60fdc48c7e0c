package seal_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/migrations"
	"github.com/stagedoor/stagedoor/migrations/keyring"
)

// The keyring is migrated by itself, next to the main schema or without it, once, by however many nodes.
func TestTheKeyringIsMigratedByItself(t *testing.T) {
	t.Parallel()
	for name, beside := range map[string]bool{"next to the main schema": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := postgres.Open(t.Context(), postgres.Config{URL: testenv.EmptyDatabase(t), MaxConns: 8, Name: "test", Patient: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			if beside {
				if _, err := postgres.Migrate(t.Context(), db, migrations.Files); err != nil {
					t.Fatal(err)
				}
			}
			if current, err := postgres.CurrentSchema(t.Context(), db, keyring.Files, "keyring_not_there"); err == nil && current {
				t.Error("a schema that is not there is current")
			}
			var (
				group   sync.WaitGroup
				applied atomic.Int64
			)
			for range 3 {
				group.Go(func() {
					names, err := postgres.MigrateSchema(t.Context(), db, keyring.Files, keyring.Schema)
					if err != nil {
						t.Error(err)
					}
					applied.Add(int64(len(names)))
				})
			}
			group.Wait()
			files, err := keyring.Files.ReadDir(".")
			if err != nil {
				t.Fatal(err)
			}
			if int(applied.Load()) != len(files) {
				t.Errorf("%d migrations were applied, there are %d", applied.Load(), len(files))
			}
			if current, err := postgres.CurrentSchema(t.Context(), db, keyring.Files, keyring.Schema); err != nil || !current {
				t.Errorf("current = %v, %v", current, err)
			}
		})
	}
}
