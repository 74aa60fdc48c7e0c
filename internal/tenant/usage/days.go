package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/billing"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/usage/internal/db"
)

// Day is the usage of an org on a day.
type Day struct {
	Org id.Org
	// At is the start of the day in UTC.
	At time.Time
	// Calls includes those that failed and those that a limit refused. Accounts is the number of accounts that were called.
	Calls, Failed, RateLimited, Accounts int64
	Events                               Events
	// Sent and Received are the bytes to and from platforms.
	Sent, Received int64
}

// Days returns the usage of orgs by org and day, without days on which there was none. since and until, which is exclusive,
// are starts of days in UTC.
func (u *Usage) Days(ctx context.Context, orgs []id.Org, since, until time.Time) ([]Day, error) {
	rows, err := db.New(u.deps.DB).Days(ctx, db.DaysParams{OrgIds: id.Texts(orgs), Since: since, Until: until})
	if err != nil {
		return nil, fmt.Errorf("read usage by day: %w", err)
	}
	days := make([]Day, len(rows))
	for i, r := range rows {
		days[i] = Day{
			Org: r.OrgID, At: r.Day, Calls: r.Calls, Failed: r.Failed, RateLimited: r.RateLimited, Accounts: r.Accounts,
			Events: Events{Received: r.EventsReceived, Streamed: r.Streamed, Delivered: r.Delivered, DeliveryFailed: r.Undelivered}, Sent: r.Sent, Received: r.Received,
		}
	}
	return days, nil
}

// Bill returns the usage of a day for billing, with the organisation's plan and environment.
func (d Day) Bill(o org.Org) billing.UsageDay {
	return billing.UsageDay{
		OrgID: string(d.Org), Plan: string(o.Plan), Environment: string(o.Environment), Day: d.At.UTC().Format(time.DateOnly),
		Calls: d.Calls, FailedCalls: d.Failed, RateLimitedCalls: d.RateLimited, ActiveAccounts: d.Accounts,
		EventsReceived: d.Events.Received, EventsStreamed: d.Events.Streamed, EventsDelivered: d.Events.Delivered, FailedDeliveries: d.Events.DeliveryFailed,
		BytesSent: d.Sent, BytesReceived: d.Received,
	}
}
