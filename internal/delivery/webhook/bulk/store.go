package bulk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/bulk/internal/db"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// row is a lane, where it delivers, and how far it is.
type row struct {
	Standing
	url    string
	cursor int64
}

// filter chooses lanes of all orgs.
type filter struct {
	states []lane.State
	reason string
	org    id.Org
	// accounts are nil for all.
	accounts     []id.Account
	afterOrg     id.Org
	afterAccount id.Account
}

func find(ctx context.Context, q db.DBTX, f filter, most int) ([]row, error) {
	rows, err := db.New(q).FindLanes(ctx, db.FindLanesParams{
		AfterOrg: string(f.afterOrg), AfterAccount: string(f.afterAccount), States: id.Texts(f.states), Reason: f.reason, OnlyOrg: string(f.org),
		Among: id.Texts(f.accounts), MaxRows: int32(most),
	})
	if err != nil {
		return nil, fmt.Errorf("find lanes: %w", err)
	}
	list := make([]row, len(rows))
	for i, r := range rows {
		list[i] = row{url: r.Url, cursor: r.Cursor, Standing: Standing{
			Org: r.OrgID, Account: id.Account(r.AccountID), State: lane.State(r.State), Reason: r.Reason, FailingSince: timeOf(r.FailSince),
			NextAt: timeOf(r.NextAt), FailCount: int(r.FailCount), LastStatus: int(r.LastStatus), LastError: r.LastError,
		}}
	}
	return list, nil
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func count(ctx context.Context, q db.DBTX, org id.Org) (map[lane.State]int, error) {
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
	// What has no row keeps up.
	counts[lane.Live] = int(max(all, 0))
	return counts, nil
}

// hold locks a webhook if its lane is still as it was found.
func hold(ctx context.Context, tx postgres.Tx, f filter, org id.Org, account id.Account) (bool, error) {
	q := db.New(tx)
	if err := q.Serialize(ctx, string(account)); err != nil {
		return false, fmt.Errorf("lock the webhook of %s: %w", account, err)
	}
	_, err := q.Hold(ctx, db.HoldParams{OrgID: org, AccountID: string(account), States: id.Texts(f.states), Reason: f.reason})
	if errors.Is(err, postgres.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock the webhook of %s: %w", account, err)
	}
	return true, nil
}

// order writes what is wanted of a lane. The new gen makes whoever delivers it follow.
func order(ctx context.Context, tx postgres.Tx, e effect, org id.Org, account id.Account, now time.Time) error {
	q := db.New(tx)
	gen, err := q.Renew(ctx, db.RenewParams{OrgID: org, AccountID: string(account), Now: now})
	if err == nil {
		err = q.Order(ctx, db.OrderParams{
			OrgID: org, AccountID: string(account), Gen: gen, State: string(e.to), SetsReason: e.setsReason, Reason: e.afterwards, Now: now,
		})
	}
	if err != nil {
		return fmt.Errorf("order the lane of %s: %w", account, err)
	}
	return nil
}
