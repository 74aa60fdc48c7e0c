package webhook

import (
	"context"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/internal/db"
)

// FailingHook is a webhook of an account, or an endpoint, that does not work.
type FailingHook struct {
	Org id.Org
	// Account or Endpoint is set.
	Account  id.Account
	Endpoint id.Endpoint
	URL      string
	Since    time.Time
}

// failingPage is how many rows one query reads.
const failingPage = 500

// Failing calls each for every webhook and endpoint of all organisations that has been failing since before, or earlier. An
// endpoint that fails only for some accounts works.
func (w *Webhooks) Failing(ctx context.Context, before time.Time, each func(FailingHook) error) error {
	q := db.New(w.deps.DB)
	for after := (FailingHook{}); ; {
		rows, err := q.FailingLanes(ctx, db.FailingLanesParams{
			AfterOrg: string(after.Org), AfterAccount: string(after.Account), Before: &before, MaxRows: failingPage,
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			after = FailingHook{Org: r.OrgID, Account: id.Account(r.AccountID), URL: r.Url, Since: timeOf(r.FailSince)}
			if err := each(after); err != nil {
				return err
			}
		}
		if len(rows) < failingPage {
			break
		}
	}
	for after := (FailingHook{}); ; {
		rows, err := q.FailingEndpoints(ctx, db.FailingEndpointsParams{
			AfterOrg: string(after.Org), AfterID: string(after.Endpoint), Before: &before, MaxRows: failingPage,
		})
		if err != nil {
			return err
		}
		for _, r := range rows {
			after = FailingHook{Org: r.OrgID, Endpoint: id.Endpoint(r.ID), URL: r.Url, Since: timeOf(r.FailSince)}
			if err := each(after); err != nil {
				return err
			}
		}
		if len(rows) < failingPage {
			return nil
		}
	}
}
