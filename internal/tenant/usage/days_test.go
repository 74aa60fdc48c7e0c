package usage_test

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Each org has a row for each day with usage of any kind, also after the hours were rolled up. Days outside the period and
// orgs that were not asked for are missing.
func TestDaysOfOrgs(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	first, second, other := testenv.AddOrg(t, db), testenv.AddOrg(t, db), testenv.AddOrg(t, db)
	today := time.Date(2026, 3, 20, 15, 0, 0, 0, time.UTC)
	now := today
	u := usage.New(usage.Deps{DB: db.WithClock(func() time.Time { return today }), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	count := func(org id.Org, account id.Account, outcome usage.Outcome) {
		u.Count(usage.Call{Org: org, Account: account, Operation: "messages.list", Access: usage.Read, Outcome: outcome, Status: 200, Took: time.Millisecond})
	}
	day := func(d int) time.Time { return time.Date(2026, 3, d, 0, 0, 0, 0, time.UTC) }
	for _, at := range []time.Time{day(9).Add(23 * time.Hour), day(10), day(10).Add(23 * time.Hour), day(11).Add(time.Hour), day(12)} {
		now = at
		for _, org := range []id.Org{first, other} {
			count(org, "acct_1", usage.OK)
			count(org, "acct_2", usage.Failed)
			count(org, "", usage.RateLimited)
			u.Received(org, 5)
			u.Streamed(org, 4)
			u.Delivered(org, 3, 2, 0)
			u.Carried(org, "us", 10, 100)
			u.Carried(org, "uk", 1, 1000)
		}
		must.OK(t, u.Flush(t.Context()))
	}
	now = day(11)
	u.Received(second, 7) // nothing else on this day
	must.OK(t, u.Flush(t.Context()))
	want := []usage.Day{
		{Org: first, At: day(10), Calls: 6, Failed: 2, RateLimited: 2, Accounts: 2, Events: usage.Events{Received: 10, Streamed: 8, Delivered: 6, DeliveryFailed: 4}, Sent: 22, Received: 2200},
		{Org: first, At: day(11), Calls: 3, Failed: 1, RateLimited: 1, Accounts: 2, Events: usage.Events{Received: 5, Streamed: 4, Delivered: 3, DeliveryFailed: 2}, Sent: 11, Received: 1100},
		{Org: second, At: day(11), Events: usage.Events{Received: 7}},
	}
	check := func(when string) {
		got, err := u.Days(t.Context(), []id.Org{first, second}, day(10), day(12))
		must.OK(t, err)
		for i := range got {
			got[i].At = got[i].At.UTC()
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %+v; want %+v", when, got, want)
		}
	}
	check("by hour")
	_, err := u.RollUp(t.Context(), []string{string(first), string(second)}, 5)
	must.OK(t, err)
	check("rolled up")
	if got, err := u.Days(t.Context(), nil, day(1), day(20)); err != nil || len(got) != 0 {
		t.Errorf("of no orgs: %v %v", got, err)
	}
}
