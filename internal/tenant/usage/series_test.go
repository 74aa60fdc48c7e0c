package usage_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Calls of several nodes add up by hour, for the org and for each account. A failed flush loses none, and no org sees
// another's.
func TestSeriesAddUp(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	owner, other := testenv.AddOrg(t, db), testenv.AddOrg(t, db)
	start := time.Date(2026, 11, 14, 22, 0, 0, 0, time.UTC)
	now := start
	var nodes []*usage.Usage
	for range 2 {
		nodes = append(nodes, usage.New(usage.Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}))
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for hour := range 4 { // over midnight
		now = start.Add(time.Duration(hour)*time.Hour + 30*time.Minute)
		for _, u := range nodes {
			count := func(org id.Org, account id.Account, outcome usage.Outcome, status int, took time.Duration) {
				u.Count(usage.Call{Org: org, Account: account, Operation: "messages.list", Access: usage.Read, Outcome: outcome, Status: status, Took: took})
			}
			for range 10 * (hour + 1) {
				count(owner, "acct_1", usage.OK, 200, 40*time.Millisecond)
			}
			count(owner, "acct_1", usage.Failed, 404, 40*time.Millisecond)
			count(owner, "acct_2", usage.Failed, 502, 9*time.Second)
			count(owner, "", usage.RateLimited, 429, time.Millisecond)
			count(owner, "", usage.OK, 200, 0) // a stream
			count(other, "acct_1", usage.OK, 200, time.Second)
			u.Received(owner, 5)
			u.Delivered(owner, 3, 2, 0)
			if u.Flush(cancelled) == nil {
				t.Error("a flush without a database succeeded")
			}
			must.OK(t, u.Flush(t.Context()))
		}
	}
	u := nodes[0]
	byHour, err := u.Series(t.Context(), usage.Want{Org: owner, Since: start.Add(-time.Hour), Until: start.Add(4 * time.Hour), Step: time.Hour})
	if err != nil || len(byHour) != 5 {
		t.Fatalf("%d %v", len(byHour), err)
	}
	for i, p := range byHour {
		if !p.At.Equal(start.Add(time.Duration(i-1) * time.Hour)) {
			t.Errorf("point %d is at %s", i, p.At)
		}
		if i == 0 {
			if _, ok := p.Quantile(0.5); p.Calls != 0 || ok {
				t.Errorf("hour without calls: %+v", p)
			}
			continue
		}
		if p.Succeeded() != int64(20*i+2) || p.ClientErrors != 2 || p.Failed != 2 || p.Limited != 2 || p.Calls != int64(20*i+8) || p.Events != (usage.Events{Received: 10, Delivered: 6, DeliveryFailed: 4}) {
			t.Errorf("hour %d: %+v", i, p)
		}
		if ms, ok := p.Quantile(0.5); !ok || ms < 30 || ms > 40 {
			t.Errorf("median of hour %d: %g", i, ms)
		}
	}
	days, err := u.Series(t.Context(), usage.Want{Org: owner, Dimension: usage.ByAccount, Names: []string{"acct_1"}, Since: start.Truncate(24 * time.Hour), Until: start.Truncate(24*time.Hour).AddDate(0, 0, 2), Step: 24 * time.Hour})
	if err != nil || len(days) != 2 || days[0].Calls != 64 || days[1].Calls != 144 || days[0].Events != (usage.Events{}) {
		t.Errorf("%+v %v", days, err)
	}
	both, err := u.Series(t.Context(), usage.Want{Org: owner, Dimension: usage.ByAccount, Names: []string{"acct_1", "acct_2"}, Since: start, Until: start.Add(time.Hour), Step: time.Hour})
	if err != nil || both[0].Calls != 24 || both[0].Failed != 2 {
		t.Errorf("%+v %v", both, err)
	}
	if ms, _ := both[0].Quantile(0.99); ms < 5000 || ms > 10_000 {
		t.Errorf("99th percentile: %g ms", ms)
	}
}

// Activity returns calls by hour, the current hour last, and no accounts without calls.
func TestActivityCountsCallsByHour(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	owner := testenv.AddOrg(t, db)
	now := time.Date(2026, 11, 14, 22, 10, 0, 0, time.UTC)
	u := usage.New(usage.Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	for _, ago := range []time.Duration{0, 0, time.Hour, 23 * time.Hour, 24 * time.Hour} {
		later := now
		now = now.Add(-ago)
		u.Count(usage.Call{Org: owner, Account: "acct_1", Operation: "x", Access: usage.Read, Outcome: usage.OK})
		now = later
	}
	must.OK(t, u.Flush(t.Context()))
	got, err := u.Activity(t.Context(), owner, []id.Account{"acct_1", "acct_2"})
	want := make([]int64, usage.ActivityHours)
	want[0], want[22], want[23] = 1, 1, 2
	if err != nil || len(got) != 1 || !slices.Equal(got["acct_1"], want) {
		t.Errorf("%v %v", got, err)
	}
}
