package webhook

import (
	"context"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/internal/db"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
)

// laneRow is a lane with its address and its cursor.
type laneRow struct {
	LaneStatus
	url    string
	cursor int64
}

// laneQuery selects lanes of all organisations.
type laneQuery struct {
	states []lane.State
	reason string
	org    id.Org
	// accounts is nil for all.
	accounts     []id.Account
	afterOrg     id.Org
	afterAccount id.Account
}

func findLanes(ctx context.Context, q db.DBTX, f laneQuery, limit int) ([]laneRow, error) {
	rows, err := db.New(q).FindLanes(ctx, db.FindLanesParams{
		AfterOrg: string(f.afterOrg), AfterAccount: string(f.afterAccount), States: id.Texts(f.states), Reason: f.reason, OnlyOrg: string(f.org),
		Among: id.Texts(f.accounts), MaxRows: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("find lanes: %w", err)
	}
	list := make([]laneRow, len(rows))
	for i, r := range rows {
		list[i] = laneRow{url: r.Url, cursor: r.Cursor, LaneStatus: LaneStatus{
			Org: r.OrgID, Account: id.Account(r.AccountID), State: lane.State(r.State), Reason: r.Reason, FailingSince: timeOf(r.FailSince),
			NextAt: timeOf(r.NextAt), FailCount: int(r.FailCount), LastStatus: int(r.LastStatus), LastError: r.LastError,
		}}
	}
	return list, nil
}

func countLanes(ctx context.Context, q db.DBTX, org id.Org) (map[lane.State]int, error) {
	counts := map[lane.State]int{}
	all, err := db.New(q).CountWebhooks(ctx, string(org))
	if err != nil {
		return nil, fmt.Errorf("count webhooks: %w", err)
	}
	rows, err := db.New(q).CountLanes(ctx, string(org))
	if err != nil {
		return nil, fmt.Errorf("count lanes: %w", err)
	}
	for _, r := range rows {
		counts[lane.State(r.State)] = int(r.Lanes)
		all -= r.Lanes
	}
	// A webhook without a row keeps up.
	counts[lane.Live] = int(max(all, 0))
	return counts, nil
}
