package seal_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/migrations"
	"github.com/stagedoor/stagedoor/migrations/keyring"
)

// The keyring is migrated separately, in the main database or in its own. Concurrent nodes apply each migration once.
func TestTheKeyringIsMigratedSeparately(t *testing.T) {
	t.Parallel()
	for name, main := range map[string]bool{"main database": true, "own database": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, err := postgres.Open(t.Context(), postgres.Config{URL: testenv.EmptyDatabase(t), MaxConns: 8, Name: "test", Patient: true})
			must.OK(t, err)
			t.Cleanup(db.Close)
			if main {
				if _, err := postgres.Migrate(t.Context(), db, migrations.Files); err != nil {
					t.Fatal(err)
				}
			}
			if current, err := postgres.CurrentSchema(t.Context(), db, keyring.Files, "keyring_not_there"); err == nil && current {
				t.Error("a missing schema counts as current")
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
			must.OK(t, err)
			if int(applied.Load()) != len(files) {
				t.Errorf("%d migrations applied, want %d", applied.Load(), len(files))
			}
			if current, err := postgres.CurrentSchema(t.Context(), db, keyring.Files, keyring.Schema); err != nil || !current {
				t.Errorf("current = %v, %v", current, err)
			}
		})
	}
}
