package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/internal/db"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// listAccounts lists the accounts that have a webhook that matches a filter.
func listAccounts(ctx context.Context, q db.DBTX, r Reader, f ListFilter, after id.Account, limit int) ([]id.Account, error) {
	var (
		found []string
		err   error
	)
	if f.State == "" || f.State == Healthy {
		found, err = db.New(q).ListWebhooks(ctx, db.ListWebhooksParams{
			OrgID: r.Org, After: string(after), Among: id.Texts(r.Accounts), Every: f.State == "", States: f.State.lanes(), MaxRows: int32(limit),
			Url: f.URL, Query: f.Query, Named: id.Texts(f.Named),
		})
	} else {
		found, err = db.New(q).ListTroubled(ctx, db.ListTroubledParams{
			OrgID: r.Org, After: string(after), Among: id.Texts(r.Accounts), States: f.State.lanes(), MaxRows: int32(limit),
			Url: f.URL, Query: f.Query, Named: id.Texts(f.Named),
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list webhooks of %s: %w", r.Org, err)
	}
	accounts := make([]id.Account, len(found))
	for i := range found {
		accounts[i] = id.Account(found[i])
	}
	return accounts, nil
}

func countByState(ctx context.Context, q db.DBTX, r Reader) (map[State]int, error) {
	rows, err := db.New(q).CountByState(ctx, db.CountByStateParams{OrgID: r.Org, Among: id.Texts(r.Accounts)})
	if err != nil {
		return nil, fmt.Errorf("count webhooks of %s: %w", r.Org, err)
	}
	by := map[State]int{}
	for _, row := range rows {
		by[StateOf(lane.State(row.State))] += int(row.Webhooks)
		for _, also := range []State{Lagging, Attention} {
			if slices.Contains(also.lanes(), row.State) {
				by[also] += int(row.Webhooks)
			}
		}
	}
	return by, nil
}

// countByURL counts the webhooks with each URL that contains a text.
func countByURL(ctx context.Context, q db.DBTX, r Reader, query string, limit int) ([]URLCount, error) {
	rows, err := db.New(q).CountByURL(ctx, db.CountByURLParams{
		OrgID: r.Org, Among: id.Texts(r.Accounts), Attention: Attention.lanes(), Query: query, MaxRows: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("count webhooks of %s by URL: %w", r.Org, err)
	}
	counts := make([]URLCount, len(rows))
	for i, row := range rows {
		counts[i] = URLCount{URL: row.Url, Webhooks: int(row.Webhooks), Attention: int(row.Attention)}
	}
	return counts, nil
}

// laggingCursors returns how far webhooks that have not caught up have delivered.
func laggingCursors(ctx context.Context, q db.DBTX, org id.Org) (map[string]int64, error) {
	rows, err := db.New(q).LaggingCursors(ctx, org)
	if err != nil {
		return nil, fmt.Errorf("read which webhooks of %s have not caught up: %w", org, err)
	}
	cursors := make(map[string]int64, len(rows))
	for _, row := range rows {
		cursors[row.AccountID] = row.Cursor
	}
	return cursors, nil
}

// countRetries counts the events that lanes have set aside and that are tried again. since is when the first of them
// failed; zero if there are none.
func countRetries(ctx context.Context, q db.DBTX, owner id.Org) (events int64, since time.Time, err error) {
	row, err := db.New(q).CountRetries(ctx, owner)
	if err != nil {
		return 0, since, fmt.Errorf("count retries of %s: %w", owner, err)
	}
	if row.Events > 0 {
		since = row.Since
	}
	return row.Events, since, nil
}

func statesOf(ctx context.Context, q db.DBTX, org id.Org, accounts []id.Account) (map[id.Account]string, error) {
	rows, err := db.New(q).States(ctx, db.StatesParams{OrgID: org, Accounts: id.Texts(accounts)})
	if err != nil {
		return nil, fmt.Errorf("read the states of webhooks of %s: %w", org, err)
	}
	by := make(map[id.Account]string, len(rows))
	for _, row := range rows {
		by[id.Account(row.AccountID)] = string(StateOf(lane.State(row.State)))
	}
	return by, nil
}

func findDelivery(ctx context.Context, q db.DBTX, org id.Org, one id.Delivery, since time.Time) (Delivery, error) {
	made := id.MadeAt(one)
	from := made.Add(-idSpread)
	if from.Before(since) {
		from = since
	}
	row, err := db.New(q).FindDelivery(ctx, db.FindDeliveryParams{OrgID: org, ID: string(one), Since: from, Until: made.Add(idSpread)})
	if errors.Is(err, postgres.ErrNoRows) {
		return Delivery{}, errNoDelivery()
	}
	if err != nil {
		return Delivery{}, fmt.Errorf("read a delivery of %s: %w", org, err)
	}
	return deliveryOf(&row), nil
}

type eventDeliveries struct {
	accounts, events []string
	since            time.Time
	after            Position
}

func listDeliveriesOfEvents(ctx context.Context, q db.DBTX, org id.Org, of eventDeliveries, limit int) ([]Delivery, error) {
	rows, err := db.New(q).DeliveriesOfEvents(ctx, db.DeliveriesOfEventsParams{
		OrgID: org, Accounts: of.accounts, Since: of.since, BeforeAt: of.after.At, BeforeID: string(of.after.ID), Events: of.events, MaxRows: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("read deliveries of events of %s: %w", org, err)
	}
	list := make([]Delivery, len(rows))
	for i := range rows {
		list[i] = deliveryOf(&rows[i])
	}
	return list, nil
}

// secretsEndingIn reads webhooks whose secret ends in the same characters, except that of one account.
func secretsEndingIn(ctx context.Context, q db.DBTX, org id.Org, last4 string, but id.Account) ([]record, error) {
	rows, err := db.New(q).SecretsEndingIn(ctx, db.SecretsEndingInParams{OrgID: org, Last4: last4, But: string(but)})
	if err != nil {
		return nil, fmt.Errorf("find secrets of %s: %w", org, err)
	}
	list := make([]record, len(rows))
	for i := range rows {
		list[i] = recordOf(&rows[i])
	}
	return list, nil
}
