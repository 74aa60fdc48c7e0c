package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/admission/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// thresholds are the shares of a month's calls, in percent, at which an org gets an event.
var thresholds = []int64{50, 80, 100}

// Threshold reports that an org has used a share of its month's calls.
type Threshold struct {
	Org     id.Org
	Percent int64
	Limit   int64
	Used    int64
}

// reachedThreshold returns the highest threshold that is reached; 0 for none.
func reachedThreshold(used, limit int64) int64 {
	reached := int64(0)
	for _, percent := range thresholds {
		if limit > 0 && used >= (limit*percent+99)/100 {
			reached = percent
		}
	}
	return reached
}

// AnnounceThresholds writes an event to the outbox for each threshold that an org newly reaches this month.
func (l *Limiter) AnnounceThresholds(ctx context.Context, orgs *org.Orgs, events *outbox.Outbox) error {
	limitOf := func(ctx context.Context, of id.Org) (int64, error) {
		o, err := orgs.Get(ctx, of)
		return int64(o.Limits.CallsPerMonth), err
	}
	return l.Thresholds(ctx, l.deps.Now(), limitOf, func(ctx context.Context, tx postgres.Tx, t Threshold) error {
		return events.Add(ctx, tx, outbox.Event{Org: t.Org, Data: contract.UsageThreshold{
			Metric: "calls_per_month", Percent: int(t.Percent), Limit: t.Limit, Used: t.Used,
		}})
	})
}

// thresholdPage is how many orgs Thresholds reads per query.
const thresholdPage = 1000

// Thresholds checks how much of their month all orgs have used. It calls notify once for each threshold that an org
// newly reaches in a month, in the transaction that records it; an org that passes several at a time gets only the
// highest. limitOf returns an org's calls per month, negative for no limit. Any number of nodes may run it
// concurrently.
func (l *Limiter) Thresholds(ctx context.Context, now time.Time, limitOf func(context.Context, id.Org) (int64, error), notify func(context.Context, postgres.Tx, Threshold) error) error {
	month, after := int32(monthOf(now)), id.Org("")
	for {
		rows, err := db.New(l.deps.DB).Months(ctx, db.MonthsParams{Month: month, After: after, MaxRows: thresholdPage})
		if err != nil {
			return fmt.Errorf("read month totals: %w", err)
		}
		for _, r := range rows {
			after = r.OrgID
			limit, err := limitOf(ctx, r.OrgID)
			if err != nil {
				return err
			}
			percent := reachedThreshold(r.Used, limit)
			if percent <= int64(r.Told) {
				continue
			}
			if err := l.recordThreshold(ctx, month, Threshold{r.OrgID, percent, limit, r.Used}, notify); err != nil {
				return err
			}
		}
		if len(rows) < thresholdPage {
			return nil
		}
	}
}

// recordThreshold records that an org has reached a threshold, and calls notify unless another node did so before.
func (l *Limiter) recordThreshold(ctx context.Context, month int32, t Threshold, notify func(context.Context, postgres.Tx, Threshold) error) error {
	return l.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		n, err := db.New(tx).Told(ctx, db.ToldParams{OrgID: t.Org, Month: month, Percent: int16(t.Percent)})
		if err != nil {
			return fmt.Errorf("record threshold of %s: %w", t.Org, err)
		}
		if n == 0 {
			return nil // another node has recorded it
		}
		return notify(ctx, tx, t)
	})
}
