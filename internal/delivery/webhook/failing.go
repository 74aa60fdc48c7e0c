package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/internal/db"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
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
// endpoint that fails only for some accounts works (isFailing).
func (w *Webhooks) Failing(ctx context.Context, before time.Time, each func(FailingHook) error) error {
	for _, list := range []func(context.Context, time.Time, FailingHook) ([]FailingHook, error){
		w.failingLanes, w.failingEndpoints, w.endpointsWithFailingAccounts,
	} {
		for after := (FailingHook{}); ; {
			page, err := list(ctx, before, after)
			if err != nil {
				return err
			}
			for _, one := range page {
				after = one
				if one.URL == "" {
					continue
				}
				if err := each(one); err != nil {
					return err
				}
			}
			if len(page) < failingPage {
				break
			}
		}
	}
	return nil
}

func (w *Webhooks) failingLanes(ctx context.Context, before time.Time, after FailingHook) ([]FailingHook, error) {
	rows, err := db.New(w.deps.DB).FailingLanes(ctx, db.FailingLanesParams{
		AfterOrg: string(after.Org), AfterAccount: string(after.Account), Before: &before, MaxRows: failingPage,
	})
	return postgres.Convert(rows, func(r db.FailingLanesRow) FailingHook {
		return FailingHook{Org: r.OrgID, Account: id.Account(r.AccountID), URL: r.Url, Since: timeOf(r.FailSince)}
	}), err
}

func (w *Webhooks) failingEndpoints(ctx context.Context, before time.Time, after FailingHook) ([]FailingHook, error) {
	rows, err := db.New(w.deps.DB).FailingEndpoints(ctx, db.FailingEndpointsParams{
		AfterOrg: string(after.Org), AfterID: string(after.Endpoint), Before: &before, MaxRows: failingPage,
	})
	return postgres.Convert(rows, func(r db.FailingEndpointsRow) FailingHook {
		return FailingHook{Org: r.OrgID, Endpoint: id.Endpoint(r.ID), URL: r.Url, Since: timeOf(r.FailSince)}
	}), err
}

// endpointsWithFailingAccounts leaves the URL of those that work empty.
func (w *Webhooks) endpointsWithFailingAccounts(ctx context.Context, before time.Time, after FailingHook) ([]FailingHook, error) {
	rows, err := db.New(w.deps.DB).EndpointsWithFailingAccounts(ctx, db.EndpointsWithFailingAccountsParams{
		AfterOrg: string(after.Org), AfterID: string(after.Endpoint), Before: &before, Down: downStatuses(), MaxRows: failingPage,
	})
	if err != nil {
		return nil, err
	}
	list := make([]FailingHook, len(rows))
	for i, r := range rows {
		list[i] = FailingHook{Org: r.OrgID, Endpoint: id.Endpoint(r.ID), URL: r.Url, Since: r.FailSince}
		last, err := lastDeliveries(ctx, w.deps.DB, r.OrgID, []string{r.ID}, org.ReadableSince(w.deps.Now(), org.Unlimited))
		if err != nil {
			return nil, err
		}
		if !isFailing(r.FailSince, last[r.ID].succeeded) {
			list[i].URL = ""
		}
	}
	return list, nil
}

// isFailing reports whether an endpoint fails of which accounts have been failing since a time: it has accepted nothing
// since. The machine finds out only if several accounts fail, and an organisation may have fewer.
func isFailing(since, lastSuccess time.Time) bool { return !lastSuccess.After(since) }

// downStatuses returns the statuses of 400 to 499 that mean that an endpoint does not work. Others refuse one event.
func downStatuses() (list []int16) {
	for status := 400; status < 500; status++ {
		if lane.Classify(lane.Result{Status: status}) == lane.Down {
			list = append(list, int16(status))
		}
	}
	return list
}

// failingAccounts is since when accounts of an endpoint fail, and when the first of them is tried again.
type failingAccounts struct{ since, next time.Time }

func readFailingAccounts(ctx context.Context, q db.DBTX, owner id.Org, endpoints []string) (map[string]failingAccounts, error) {
	rows, err := db.New(q).FailingAccounts(ctx, db.FailingAccountsParams{OrgID: owner, EndpointIds: endpoints, Down: downStatuses()})
	if err != nil {
		return nil, fmt.Errorf("read the failing accounts of endpoints of %s: %w", owner, err)
	}
	found := make(map[string]failingAccounts, len(rows))
	for _, r := range rows {
		one := failingAccounts{since: r.FailSince}
		if r.NextAt.Unix() > 0 {
			one.next = r.NextAt
		}
		found[r.EndpointID] = one
	}
	return found, nil
}
