package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/id"
	"github.com/stagedoor/stagedoor/internal/postgres"
	"github.com/stagedoor/stagedoor/internal/problem"
	"github.com/stagedoor/stagedoor/internal/webhook/internal/db"
)

const (
	copyStatement = `COPY webhook_delivery (at, seq, took_us, attempt, status, delivered, org_id, account_id, id, event_id, kind, cause, error, snippet)
	FROM STDIN (FORMAT binary)`
	copyColumns = 14
)

// copyDeliveries writes deliveries. rows is memory for it.
func copyDeliveries(ctx context.Context, tx postgres.Tx, list []Delivery, rows *postgres.Rows) error {
	rows.Reset()
	for i := range list {
		d := &list[i]
		rows.Row(copyColumns)
		rows.Time(d.At)
		rows.Int64(d.Seq)
		rows.Int64(d.Took.Microseconds())
		rows.Int32(int32(d.Attempt))
		rows.Int16(int16(d.Status))
		rows.Bool(d.Delivered)
		for _, text := range [...]string{string(d.Org), string(d.Account), string(d.ID), string(d.Event), d.Kind, d.Cause, d.Error, d.Snippet} {
			rows.Text(text)
		}
	}
	return rows.Send(ctx, tx.Conn(), copyStatement)
}

func deliveries(ctx context.Context, q db.DBTX, at ref, f LogFilter, since time.Time, limit int) ([]Delivery, error) {
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

// idSpread is how far the time in a delivery's id may be from when it was tried.
const idSpread = time.Minute

func delivery(ctx context.Context, q db.DBTX, at ref, one id.Delivery, since time.Time) (Delivery, error) {
	made := id.MadeAt(one)
	from := made.Add(-idSpread)
	if from.Before(since) {
		from = since
	}
	row, err := db.New(q).Delivery(ctx, db.DeliveryParams{OrgID: at.Org, AccountID: string(at.Account), ID: string(one), Since: from, Until: made.Add(idSpread)})
	if errors.Is(err, postgres.ErrNoRows) {
		return Delivery{}, problem.DeliveryNotFound.New("The account has no delivery with this id.")
	}
	if err != nil {
		return Delivery{}, fmt.Errorf("read a delivery of %s: %w", at.Account, err)
	}
	return deliveryOf(&row), nil
}

func deliveryOf(r *db.WebhookDelivery) Delivery {
	return Delivery{
		ID: id.Delivery(r.ID), Org: r.OrgID, Account: id.Account(r.AccountID), At: r.At, Event: id.Event(r.EventID), Kind: r.Kind, Seq: r.Seq,
		Attempt: int(r.Attempt), Status: int(r.Status), Took: time.Duration(r.TookUs) * time.Microsecond, Error: r.Error, Cause: r.Cause,
		Delivered: r.Delivered, Snippet: r.Snippet,
	}
}

// last are the last delivery of an account and the last that got through; zero for none.
func last(ctx context.Context, q db.DBTX, at ref, since time.Time) (status int, tried, succeeded time.Time, err error) {
	row, err := db.New(q).LastDelivery(ctx, db.LastDeliveryParams{OrgID: at.Org, AccountID: string(at.Account), Since: since})
	if errors.Is(err, postgres.ErrNoRows) {
		return 0, time.Time{}, time.Time{}, nil
	}
	if err != nil {
		return 0, time.Time{}, time.Time{}, fmt.Errorf("read the last delivery of %s: %w", at.Account, err)
	}
	succeeded, err = db.New(q).LastSuccess(ctx, db.LastSuccessParams{OrgID: at.Org, AccountID: string(at.Account), Since: since})
	if err != nil && !errors.Is(err, postgres.ErrNoRows) {
		return 0, time.Time{}, time.Time{}, fmt.Errorf("read the last delivery of %s: %w", at.Account, err)
	}
	return int(row.Status), row.At, succeeded, nil
}
