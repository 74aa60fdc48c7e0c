package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/admission/internal/db"
)

// thresholds are shares of a month's calls that an org is told of, in percent.
var thresholds = []int64{50, 80, 100}

// Threshold is a share of a month's calls that an org has used.
type Threshold struct {
	Org     id.Org
	Percent int64
	Limit   int64
	Used    int64
}

// crossed is the highest threshold that is reached; 0 for none.
func crossed(used, limit int64) int64 {
	reached := int64(0)
	for _, percent := range thresholds {
		if limit > 0 && used >= (limit*percent+99)/100 {
			reached = percent
		}
	}
	return reached
}

// thresholdPage is how many orgs are looked at at a time.
const thresholdPage = 1000

// Thresholds looks whether orgs have used much of their month. tell is called once for each new threshold of an org and month, in the
// transaction that writes down that it was; most is the org's limit of calls per month, negative for none.
func (l *Limiter) Thresholds(ctx context.Context, now time.Time, most func(context.Context, id.Org) (int64, error), tell func(context.Context, postgres.Tx, Threshold) error) error {
	month, after := int32(monthOf(now)), id.Org("")
	for {
		rows, err := db.New(l.DB.Pool()).Months(ctx, db.MonthsParams{Month: month, After: after, MaxRows: thresholdPage})
		if err != nil {
			return fmt.Errorf("read what orgs have used: %w", err)
		}
		for _, r := range rows {
			after = r.OrgID
			limit, err := most(ctx, r.OrgID)
			if err != nil {
				return err
			}
			percent := crossed(r.Used, limit)
			if percent <= int64(r.Told) {
				continue
			}
			if err := l.cross(ctx, month, Threshold{r.OrgID, percent, limit, r.Used}, tell); err != nil {
				return err
			}
		}
		if len(rows) < thresholdPage {
			return nil
		}
	}
}

func (l *Limiter) cross(ctx context.Context, month int32, t Threshold, tell func(context.Context, postgres.Tx, Threshold) error) error {
	return l.DB.Tx(ctx, func(tx postgres.Tx) error {
		n, err := db.New(tx).Told(ctx, db.ToldParams{OrgID: t.Org, Month: month, Percent: int16(t.Percent)})
		if err != nil {
			return fmt.Errorf("note a threshold: %w", err)
		}
		if n == 0 {
			return nil // another node was first
		}
		return tell(ctx, tx, t)
	})
}
