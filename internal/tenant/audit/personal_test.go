package audit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// Personal data of an account is never stored in the clear. The customer can read it until the account is deleted,
// operators never. The chain stays intact.
func TestPersonalDataIsGoneWithItsAccount(t *testing.T) {
	t.Parallel()
	ctx, db, keys := t.Context(), testenv.Postgres(t), sealtest.NewMemory()
	owner, deleted, other := testenv.AddOrg(t, db), string(id.New[id.Account]()), string(id.New[id.Account]())
	log := audit.New(db, keys, func() time.Time { return time.Now().UTC() })
	write := func(target string) {
		must.OK(t, db.Tx(ctx, func(tx postgres.Tx) error {
			return log.Record(ctx, tx, owner, audit.By{Kind: audit.ActorKey, ID: "key_1", Action: "account.update"}, target, audit.Changes{
				"label": audit.Personal("Luna", "Maya"), "region": {From: "us", To: "uk"},
			})
		}))
	}
	read := func(target string) string {
		list, err := log.Choose(ctx, owner, audit.Filter{Target: target}, 0, 10)
		must.OK(t, err)
		return string(list[0].Changes)
	}
	const open, gone = `{"label":{"from":"Luna","to":"Maya"},"region":{"from":"us","to":"uk"}}`, `{"label":{"purged":true},"region":{"from":"us","to":"uk"}}`
	write(deleted)
	write(other)
	if got := read(deleted); got != open {
		t.Errorf("before the deletion: %s", got)
	}
	keys.Shred(deleted)
	write(deleted) // an operation that was under way
	for target, want := range map[string]string{deleted: gone, other: open} {
		if got := read(target); got != want {
			t.Errorf("after the deletion: %s, want %s", got, want)
		}
	}
	var stored string
	must.OK(t, db.Pool().QueryRow(ctx, "SELECT string_agg(changes::text, ' ') FROM audit_entry WHERE org_id = $1", owner).Scan(&stored))
	all, err := log.All(ctx, audit.Choice{Org: owner}, 10)
	must.OK(t, err)
	for _, e := range all {
		stored += string(e.Changes)
	}
	if len(all) != 3 || strings.Contains(stored, "Luna") || strings.Contains(stored, "Maya") || !strings.Contains(stored, `"hidden":true`) {
		t.Errorf("stored, and what operators see: %s", stored)
	}
	if n, err := log.Verify(ctx, owner); err != nil || n != 3 {
		t.Errorf("%d entries, %v", n, err)
	}
}
