package retention_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/retention"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// Each organisation keeps the days of its plan or of its own limit, and one more. All of more than a page are trimmed,
// an organisation without a limit is not, and a table that fails does not keep the others from being trimmed.
func TestOrganisationsKeepTheDaysOfTheirPlan(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	orgs := org.New(org.Deps{DB: db, Audit: audit.New(db, sealtest.NewMemory(), time.Now), Now: time.Now})
	want := map[string]int{}
	create := func(plan org.Plan, own org.Override, keep int) {
		must.OK(t, db.Tx(t.Context(), func(tx postgres.Tx) error {
			o, err := orgs.Create(t.Context(), tx, audit.By{Kind: audit.ActorOperator, ID: "admin"}, org.Draft{
				Name: "Acme", Plan: plan, Environment: environment.Sandbox, ContactEmail: "ops@acme.test", Override: own,
			})
			if keep > 0 {
				want[string(o.ID)] = keep
			}
			return err
		}))
	}
	create(org.Sandbox, nil, 4)
	create("scale", nil, 31)
	create("scale", org.Override{"eventRetentionDays": 2}, 3)
	create("scale", org.Override{"eventRetentionDays": org.Unlimited}, 0)
	for range 500 {
		create("starter", nil, 8)
	}
	got := map[string]int{}
	broken := errors.New("the table is locked")
	sweeper := retention.New(retention.Deps{Orgs: orgs, Log: slog.New(slog.DiscardHandler), Tables: []retention.Table{
		{Name: "broken", Days: func(org.Limits) int { return 1 }, Trim: func(context.Context, []string, int) (int64, error) { return 0, broken }},
		{Name: "event", Days: func(l org.Limits) int { return l.EventRetentionDays }, Trim: func(_ context.Context, list []string, keep int) (int64, error) {
			for _, one := range list {
				got[one] = keep
			}
			return int64(len(list)), nil
		}},
	}})
	if err := sweeper.Sweep(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Sweep returned %v", err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s; want %s", summary(got), summary(want))
	}
}

func summary(days map[string]int) string {
	counts := map[int]int{}
	for _, d := range days {
		counts[d]++
	}
	text := ""
	for _, d := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf("%d keep %d days, ", counts[d], d)
	}
	return text
}
