package connect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// Month counts an org's attempts in a calendar month, without reauths.
type Month struct{ Started, Succeeded, Failed int64 }

// Month reads the counts of the month that begins at start. The end of an attempt counts when its data key is
// destroyed.
func (c *Connects) Month(ctx context.Context, org id.Org, start time.Time) (Month, error) {
	row, err := db.New(c.deps.DB).Month(ctx, db.MonthParams{OrgID: org, Month: start})
	if err != nil && !errors.Is(err, postgres.ErrNoRows) {
		return Month{}, fmt.Errorf("read the month's attempts of %s: %w", org, err)
	}
	return Month(row), nil
}

func countStarted(ctx context.Context, tx postgres.Tx, r record) error {
	if r.Kind == attempt.Reauth {
		return nil
	}
	return db.New(tx).CountStarted(ctx, db.CountStartedParams{OrgID: r.Org, Month: admission.MonthStart(r.CreatedAt)})
}
