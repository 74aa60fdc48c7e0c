package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/usage/internal/db"
)

// HourDays is how many days usage is kept by hour. Older usage is kept by day.
const HourDays = 31

// RollUp adds the hours of days that are older than keep days to one row per day. Sums over whole days stay the same. It
// also deletes minutes that are no longer kept. It goes by the database's clock, and returns how many rows it wrote.
func (u *Usage) RollUp(ctx context.Context, orgs []string, keep int) (written int64, err error) {
	now, err := u.deps.DB.Now(ctx, u.deps.DB)
	if err != nil {
		return 0, err
	}
	before := (postgres.DayOf(now) - postgres.Day(keep)).Start()
	q := db.New(u.deps.DB)
	minutes := now.AddDate(0, 0, -MinuteDays)
	if _, err := q.DropMinutes(ctx, db.DropMinutesParams{OrgIds: orgs, Before: minutes}); err != nil {
		return 0, fmt.Errorf("drop minutes of usage: %w", err)
	}
	if _, err := q.DropEventMinutes(ctx, db.DropEventMinutesParams{OrgIds: orgs, Before: minutes}); err != nil {
		return 0, fmt.Errorf("drop minutes of events: %w", err)
	}
	for _, roll := range []func(context.Context, []string, time.Time) (int64, error){
		func(ctx context.Context, orgs []string, before time.Time) (int64, error) {
			return q.RollUpCalls(ctx, db.RollUpCallsParams{OrgIds: orgs, Before: before})
		},
		func(ctx context.Context, orgs []string, before time.Time) (int64, error) {
			return q.RollUpBytes(ctx, db.RollUpBytesParams{OrgIds: orgs, Before: before})
		},
		func(ctx context.Context, orgs []string, before time.Time) (int64, error) {
			return q.RollUpEvents(ctx, db.RollUpEventsParams{OrgIds: orgs, Before: before})
		},
		func(ctx context.Context, orgs []string, before time.Time) (int64, error) {
			return q.RollUpSeries(ctx, db.RollUpSeriesParams{OrgIds: orgs, Before: before})
		},
		func(ctx context.Context, orgs []string, before time.Time) (int64, error) {
			return q.RollUpSlices(ctx, db.RollUpSlicesParams{OrgIds: orgs, Before: before})
		},
	} {
		rows, err := roll(ctx, orgs, before)
		if written += rows; err != nil {
			return written, fmt.Errorf("roll up usage: %w", err)
		}
	}
	return written, nil
}
