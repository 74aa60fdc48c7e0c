package admission_test

import (
	"context"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// An org is told once for each share of its month that it has used, and a jump over several tells the highest.
func TestAnOrgIsToldOnceOfEachThreshold(t *testing.T) {
	t.Parallel()
	n := newNodes(t, testenv.Redis(t), time.Now, false)
	owner := n.newOrg(t)
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	use := func(used int64) {
		t.Helper()
		if _, err := n.db.Pool().Exec(t.Context(), `INSERT INTO month_total (org_id, month, used) VALUES ($1, 202611, $2)
			ON CONFLICT (org_id, month) DO UPDATE SET used = excluded.used`, string(owner), used); err != nil {
			t.Fatal(err)
		}
	}
	var told []admission.Threshold
	look := func() {
		t.Helper()
		err := n.limiters[0].Thresholds(t.Context(), now, func(context.Context, id.Org) (int64, error) { return 1000, nil },
			func(_ context.Context, _ postgres.Tx, th admission.Threshold) error {
				told = append(told, th)
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, used := range []int64{10, 499, 500, 501, 1000, 2000} {
		use(used)
		look()
		look()
	}
	want := []admission.Threshold{{owner, 50, 1000, 500}, {owner, 100, 1000, 1000}}
	if len(told) != 2 || told[0] != want[0] || told[1] != want[1] {
		t.Fatalf("told %+v, wanted %+v", told, want)
	}
}
