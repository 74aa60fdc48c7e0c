package survey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/survey/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// list finds webhooks in the order of their accounts, behind one of them.
func list(ctx context.Context, q db.DBTX, r Reader, state State, after id.Account, limit int) ([]id.Account, error) {
	var (
		found []string
		err   error
	)
	if state == "" || state == Healthy {
		found, err = db.New(q).All(ctx, db.AllParams{
			OrgID: r.Org, After: string(after), Among: id.Texts(r.Accounts), Every: state == "", States: state.lanes(), MaxRows: int32(limit),
		})
	} else {
		found, err = db.New(q).Troubled(ctx, db.TroubledParams{
			OrgID: r.Org, After: string(after), Among: id.Texts(r.Accounts), States: state.lanes(), MaxRows: int32(limit),
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

func counts(ctx context.Context, q db.DBTX, r Reader) (map[State]int, error) {
	rows, err := db.New(q).Counts(ctx, db.CountsParams{OrgID: r.Org, Among: id.Texts(r.Accounts)})
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

// behind is up to where webhooks have delivered that have not caught up.
func behind(ctx context.Context, q db.DBTX, org id.Org) (map[string]int64, error) {
	rows, err := db.New(q).Behind(ctx, org)
	if err != nil {
		return nil, fmt.Errorf("read which webhooks of %s have not caught up: %w", org, err)
	}
	cursors := make(map[string]int64, len(rows))
	for _, row := range rows {
		cursors[row.AccountID] = row.Cursor
	}
	return cursors, nil
}

func states(ctx context.Context, q db.DBTX, org id.Org, accounts []id.Account) (map[id.Account]string, error) {
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

// idSpread is how far the time in a delivery's id may be from when it was tried.
const idSpread = time.Minute

func delivery(ctx context.Context, q db.DBTX, org id.Org, one id.Delivery, since time.Time) (webhook.Delivery, error) {
	made := id.MadeAt(one)
	from := made.Add(-idSpread)
	if from.Before(since) {
		from = since
	}
	row, err := db.New(q).Delivery(ctx, db.DeliveryParams{OrgID: org, ID: string(one), Since: from, Until: made.Add(idSpread)})
	if errors.Is(err, postgres.ErrNoRows) {
		return webhook.Delivery{}, errNoDelivery()
	}
	if err != nil {
		return webhook.Delivery{}, fmt.Errorf("read a delivery of %s: %w", org, err)
	}
	return deliveryOf(&row), nil
}

// ofEvents chooses deliveries.
type ofEvents struct {
	accounts, events []string
	since            time.Time
	behind           webhook.Position
}

func deliveries(ctx context.Context, q db.DBTX, org id.Org, of ofEvents, limit int) ([]webhook.Delivery, error) {
	rows, err := db.New(q).OfEvents(ctx, db.OfEventsParams{
		OrgID: org, Accounts: of.accounts, Since: of.since, BeforeAt: of.behind.At, BeforeID: string(of.behind.ID), Events: of.events, MaxRows: int32(limit),
	})
	if err != nil {
		return nil, fmt.Errorf("read deliveries of events of %s: %w", org, err)
	}
	list := make([]webhook.Delivery, len(rows))
	for i := range rows {
		list[i] = deliveryOf(&rows[i])
	}
	return list, nil
}

func deliveryOf(r *db.WebhookDelivery) webhook.Delivery {
	return webhook.Delivery{
		ID: id.Delivery(r.ID), Org: r.OrgID, Account: id.Account(r.AccountID), At: r.At, Event: id.Event(r.EventID), Kind: r.Kind, Seq: r.Seq,
		Attempt: int(r.Attempt), Status: int(r.Status), Took: time.Duration(r.TookUs) * time.Microsecond, Error: r.Error, Cause: r.Cause,
		Delivered: r.Delivered, Snippet: r.Snippet,
	}
}

// sealed are the secrets of a webhook.
type sealed struct {
	account                  id.Account
	version, previousVersion int64
	secret, previous         []byte
}

// secrets reads those of an account's webhook; nil if it has none.
func secrets(ctx context.Context, q db.DBTX, org id.Org, account id.Account) (*sealed, error) {
	row, err := db.New(q).Secrets(ctx, db.SecretsParams{OrgID: org, AccountID: string(account)})
	if errors.Is(err, postgres.ErrNoRows) {
		return nil, nil //nolint:nilnil // an account needs no webhook
	}
	if err != nil {
		return nil, fmt.Errorf("read the secrets of %s: %w", account, err)
	}
	return &sealed{account, row.SecretVersion, row.PreviousVersion, row.Secret, row.Previous}, nil
}

func secretsLike(ctx context.Context, q db.DBTX, org id.Org, last4 string, but id.Account) ([]sealed, error) {
	rows, err := db.New(q).SecretsLike(ctx, db.SecretsLikeParams{OrgID: org, Last4: last4, But: string(but)})
	if err != nil {
		return nil, fmt.Errorf("find secrets of %s: %w", org, err)
	}
	list := make([]sealed, len(rows))
	for i, row := range rows {
		list[i] = sealed{account: id.Account(row.AccountID), version: row.SecretVersion, secret: row.Secret}
	}
	return list, nil
}
