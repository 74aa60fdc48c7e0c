package lease_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// All nodes get about the same number of slots, and when one leaves, only its own slots move.
func TestPreferredNodesAreFairAndStable(t *testing.T) {
	t.Parallel()
	all := []string{"node-1", "node-2", "node-3", "node-4", "node-5"}
	shares := map[string]int{}
	for slot := range 256 {
		had := lease.PreferredNode("ingest", slot, all)
		shares[had]++
		if got := lease.PreferredNode("ingest", slot, []string{"node-5", "node-2", "node-3", "node-4"}); had != "node-1" && got != had {
			t.Errorf("slot %d moves from %s to %s", slot, had, got)
		}
	}
	for _, n := range all {
		if shares[n] < 30 || shares[n] > 75 {
			t.Errorf("%s has %d of 256 slots", n, shares[n])
		}
	}
}

func exec(t *testing.T, l *link, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), l.url.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}
