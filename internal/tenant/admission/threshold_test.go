package admission_test

import (
	"context"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Each threshold of an org is reported once. If the org passes several at a time, only the highest is reported.
func TestEachThresholdIsReportedOnce(t *testing.T) {
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
	var reported []admission.Threshold
	checkThresholds := func() {
		t.Helper()
		err := n.limiters[0].Thresholds(t.Context(), now, func(context.Context, id.Org) (int64, error) { return 1000, nil },
			func(_ context.Context, _ postgres.Tx, th admission.Threshold) error {
				reported = append(reported, th)
				return nil
			})
		must.OK(t, err)
	}
	for _, used := range []int64{10, 499, 500, 501, 1000, 2000} {
		use(used)
		checkThresholds()
		checkThresholds()
	}
	want := []admission.Threshold{{owner, 50, 1000, 500}, {owner, 100, 1000, 1000}}
	if len(reported) != 2 || reported[0] != want[0] || reported[1] != want[1] {
		t.Fatalf("reported %+v, want %+v", reported, want)
	}
}
