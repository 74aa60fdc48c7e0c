package audit_test

import (
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// All returns the entries of all logs in the order of time, over several pages and with filters. Operators' own changes
// have their own chain.
func TestAllReadsEveryLogInOrder(t *testing.T) {
	t.Parallel()
	log, db, owner := newLog(t)
	write := func(to id.Org, action, actor, target string) {
		t.Helper()
		err := db.Tx(t.Context(), func(tx postgres.Tx) error {
			return log.Record(t.Context(), tx, to, audit.By{Kind: audit.ActorKey, ID: actor, Action: action}, target, audit.Changes{})
		})
		must.OK(t, err)
	}
	began := time.Now()
	for range 3 {
		write(owner, "key.mint", "key_1", "a")
		write(audit.Operators, "switches.set", "admin", "switches")
		write(owner, "org.update", "key_2", "b")
	}
	list := func(c audit.Choice, n int) []audit.Of {
		t.Helper()
		found, err := log.All(t.Context(), c, n)
		must.OK(t, err)
		return found
	}
	var seen []audit.Of
	for c := (audit.Choice{}); ; {
		page := list(c, 4)
		seen = append(seen, page...)
		if len(page) < 4 {
			break
		}
		c.Before = page[3].ID
	}
	if len(seen) != 9 || seen[0].By.Action != "org.update" || seen[8].By.Action != "key.mint" || seen[1].Org != audit.Operators || seen[0].Org != owner {
		t.Fatalf("%d: %+v", len(seen), seen)
	}
	for i := 1; i < len(seen); i++ {
		if seen[i].At.After(seen[i-1].At) {
			t.Errorf("entry %d is newer than the one before it", i)
		}
	}
	for what, c := range map[string]struct {
		audit.Choice
		n int
	}{
		"of an org":    {audit.Choice{Org: owner}, 6},
		"of operators": {audit.Choice{Org: audit.Operators}, 3},
		"by action":    {audit.Choice{Action: "key.mint"}, 3},
		"by actor":     {audit.Choice{Actor: "key_2"}, 3},
		"by kind":      {audit.Choice{Kind: audit.ActorOperator}, 0},
		"by target":    {audit.Choice{Target: "a"}, 3},
		"since":        {audit.Choice{Since: began.Add(-time.Second)}, 9},
		"later":        {audit.Choice{Since: time.Now().Add(time.Hour)}, 0},
		"until":        {audit.Choice{Until: began.Add(-time.Second)}, 0},
	} {
		if got := len(list(c.Choice, 100)); got != c.n {
			t.Errorf("%s: %d", what, got)
		}
	}
	if n, err := log.Verify(t.Context(), audit.Operators); err != nil || n != 3 {
		t.Errorf("%d %v", n, err)
	}
}
