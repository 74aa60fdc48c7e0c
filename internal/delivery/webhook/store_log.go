package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/internal/db"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

const (
	copyColumns     = "(at, seq, took_us, attempt, status, delivered, org_id, account_id, id, event_id, kind, cause, error, snippet, source)"
	copyColumnCount = 15
)

// copyDeliveries writes deliveries with COPY. It uses the memory of rows.
func copyDeliveries(ctx context.Context, tx postgres.Tx, list []Delivery, rows *postgres.Rows) error {
	rows.Reset()
	for i := range list {
		d := &list[i]
		rows.Row(d.At, copyColumnCount)
		rows.Int64(d.Seq)
		rows.Int64(d.Took.Microseconds())
		rows.Int32(int32(d.Attempt))
		rows.Int16(int16(d.Status))
		rows.Bool(d.Delivered)
		for _, text := range [...]string{string(d.Org), d.hook(), string(d.ID), string(d.Event), d.Kind, d.Cause, d.Error, d.Snippet, d.source()} {
			rows.Text(text)
		}
	}
	return rows.Send(ctx, tx, "webhook_delivery", copyColumns)
}

// clearDeletedResponses clears the responses of deliveries whose account was deleted while they were in flight. It
// locks the webhooks that exist: deleting an account removes its webhook first and purges the log afterwards, so the
// purge also finds what this transaction writes.
func clearDeletedResponses(ctx context.Context, tx postgres.Tx, list []Delivery) error {
	var accounts []string
	for i := range list {
		if list[i].Snippet != "" && list[i].Endpoint == "" {
			accounts = append(accounts, string(list[i].Account))
		}
	}
	if len(accounts) == 0 {
		return nil
	}
	slices.Sort(accounts)
	held, err := db.New(tx).HoldWebhooks(ctx, slices.Compact(accounts))
	if err != nil {
		return fmt.Errorf("find deleted webhooks: %w", err)
	}
	for i := range list {
		if list[i].Endpoint == "" && !slices.Contains(held, string(list[i].Account)) {
			list[i].Snippet = ""
		}
	}
	return nil
}

// purgeBatch is how many deliveries one statement purges.
const purgeBatch = 500

// purgeDeliveries clears the responses of about most deliveries of an account, and reports whether that was all.
func purgeDeliveries(ctx context.Context, q db.DBTX, of ref, most int) (done bool, err error) {
	next := db.ToPurgeParams{OrgID: of.Org, AccountID: string(of.Account), AfterAt: time.Unix(0, 0), MaxRows: purgeBatch}
	for purged := 0; purged < most; {
		rows, err := db.New(q).ToPurge(ctx, next)
		if err != nil {
			return false, fmt.Errorf("read the deliveries of %s to purge: %w", of.Account, err)
		}
		if len(rows) == 0 {
			return true, nil
		}
		p := db.PurgeDeliveriesParams{OrgID: of.Org, AccountID: string(of.Account)}
		for _, row := range rows {
			p.Ats, p.Ids = append(p.Ats, row.At), append(p.Ids, row.ID)
		}
		if err := db.New(q).PurgeDeliveries(ctx, p); err != nil {
			return false, fmt.Errorf("purge deliveries of %s: %w", of.Account, err)
		}
		next.AfterAt, next.AfterID = rows[len(rows)-1].At, rows[len(rows)-1].ID
		purged += len(rows)
	}
	return false, nil
}

func listDeliveries(ctx context.Context, q db.DBTX, at ref, f LogFilter, since time.Time, limit int) ([]Delivery, error) {
	p := db.DeliveriesParams{
		OrgID: at.Org, AccountID: string(at.Account), Since: since, BeforeAt: f.Behind.At, BeforeID: string(f.Behind.ID), Every: f.Delivered == nil,
		Kind: f.Kind, EventID: string(f.Event), MaxRows: int32(limit),
	}
	if f.Delivered != nil {
		p.Delivered = *f.Delivered
	}
	rows, err := db.New(q).Deliveries(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read deliveries of %s: %w", at.Account, err)
	}
	list := make([]Delivery, len(rows))
	for i := range rows {
		list[i] = deliveryOf(&rows[i])
	}
	return list, nil
}

// idSpread is how far the time in a delivery's id may be from the time of the delivery.
const idSpread = time.Minute

func getDelivery(ctx context.Context, q db.DBTX, at ref, one id.Delivery, since time.Time) (Delivery, error) {
	made := id.MadeAt(one)
	from := made.Add(-idSpread)
	if from.Before(since) {
		from = since
	}
	row, err := db.New(q).Delivery(ctx, db.DeliveryParams{OrgID: at.Org, AccountID: string(at.Account), ID: string(one), Since: from, Until: made.Add(idSpread)})
	if errors.Is(err, postgres.ErrNoRows) {
		if isEndpoint(string(at.Account)) {
			return Delivery{}, problem.DeliveryNotFound.New("The endpoint has no delivery with this id.")
		}
		return Delivery{}, problem.DeliveryNotFound.New("The account has no delivery with this id.")
	}
	if err != nil {
		return Delivery{}, fmt.Errorf("read a delivery of %s: %w", at.Account, err)
	}
	return deliveryOf(&row), nil
}

func deliveryOf(r *db.WebhookDelivery) Delivery {
	d := Delivery{
		ID: id.Delivery(r.ID), Org: r.OrgID, Account: id.Account(r.AccountID), At: r.At, Event: id.Event(r.EventID), Kind: r.Kind, Seq: r.Seq,
		Attempt: int(r.Attempt), Status: int(r.Status), Took: time.Duration(r.TookUs) * time.Microsecond, Error: r.Error, Cause: r.Cause,
		Delivered: r.Delivered, Snippet: r.Snippet,
	}
	if isEndpoint(r.AccountID) {
		d.Endpoint, d.Account = id.Endpoint(r.AccountID), ""
		if event.IsAccount(r.Source) {
			d.Account = id.Account(r.Source)
		}
	}
	return d
}

// hook returns what the column account_id has: the account whose webhook got the delivery, or the endpoint.
func (d *Delivery) hook() string {
	if d.Endpoint != "" {
		return string(d.Endpoint)
	}
	return string(d.Account)
}

// source returns what the column source has: the source of the event if it was delivered to an endpoint.
func (d *Delivery) source() string {
	switch {
	case d.Endpoint == "":
		return ""
	case d.Account == "":
		return string(d.Org)
	}
	return string(d.Account)
}

// lastDelivery is the last delivery of an account. succeeded is when the last successful one was; zero if unknown.
type lastDelivery struct {
	status           int
	failure          string
	tried, succeeded time.Time
}

// lastDeliveries returns the last delivery of each account that has one since a time.
func lastDeliveries(ctx context.Context, q db.DBTX, org id.Org, accounts []string, since time.Time) (map[string]lastDelivery, error) {
	tried, err := db.New(q).LastDeliveries(ctx, db.LastDeliveriesParams{Accounts: accounts, OrgID: org, Since: since})
	if err != nil {
		return nil, fmt.Errorf("read the last deliveries of %s: %w", org, err)
	}
	found := make(map[string]lastDelivery, len(tried))
	var failed []string
	for _, t := range tried {
		d := lastDelivery{status: int(t.Status), failure: t.Error, tried: t.At}
		if t.Delivered {
			d.succeeded = t.At
		} else {
			failed = append(failed, t.AccountID)
		}
		found[t.AccountID] = d
	}
	if len(failed) == 0 {
		return found, nil
	}
	accepted, err := db.New(q).LastAccepted(ctx, db.LastAcceptedParams{Accounts: failed, OrgID: org, Since: since})
	if err != nil {
		return nil, fmt.Errorf("read the last deliveries of %s: %w", org, err)
	}
	for _, a := range accepted {
		d := found[a.AccountID]
		d.succeeded = a.At
		found[a.AccountID] = d
	}
	return found, nil
}
