package usage_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Calls add up by minute, and by key, method and platform, over nodes and failed flushes. Each series has exactly its own
// calls, and no org sees another's.
func TestSlicesAddUp(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	owner, other := testenv.AddOrg(t, db), testenv.AddOrg(t, db)
	start := time.Date(2026, 11, 14, 22, 58, 0, 0, time.UTC)
	now := start
	var nodes []*usage.Usage
	for range 2 {
		nodes = append(nodes, usage.New(usage.Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}))
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	const minutes = 4 // over the hour
	for minute := range minutes {
		now = start.Add(time.Duration(minute) * time.Minute)
		for _, u := range nodes {
			for _, c := range []usage.Call{
				{Org: owner, Account: "acct_1", Key: "key_1", Platform: "reef", Operation: "messages.send", Outcome: usage.OK, Status: 200, Took: 40 * time.Millisecond},
				{Org: owner, Account: "acct_1", Key: "key_2", Platform: "reef", Operation: "messages.list", Outcome: usage.Failed, Status: 502, Took: time.Second},
				{Org: owner, Account: "acct_2", Key: "key_1", Platform: "ghost", Operation: "messages.send", Outcome: usage.RateLimited, Status: 429, Took: time.Millisecond},
				{Org: owner, Operation: "listAccounts", Outcome: usage.OK, Status: 200, Took: time.Millisecond}, // from the dashboard
				{Org: other, Account: "acct_1", Key: "key_1", Platform: "reef", Operation: "messages.send", Outcome: usage.OK, Status: 200},
			} {
				u.Count(c)
			}
			u.Received(owner, 5)
			u.Delivered(owner, 3, 2, time.Duration(minute+1)*time.Second)
			if u.Flush(cancelled) == nil {
				t.Error("a flush without a database succeeded")
			}
			must.OK(t, u.Flush(t.Context()))
		}
	}
	series := func(org id.Org, step time.Duration, by usage.Dimension, names ...string) []usage.Point {
		t.Helper()
		points, err := nodes[0].Series(t.Context(), usage.Want{
			Org: org, Dimension: by, Names: names, Since: start.Truncate(step), Until: start.Add(minutes*time.Minute + step - 1).Truncate(step), Step: step,
		})
		must.OK(t, err)
		return points
	}
	for _, c := range []struct {
		by                     usage.Dimension
		names                  []string
		calls, limited, failed int64
	}{
		{"", nil, 8, 2, 2},
		{usage.ByAccount, []string{"acct_1"}, 4, 0, 2},
		{usage.ByAccount, []string{"acct_1", "acct_2"}, 6, 2, 2},
		{usage.ByKey, []string{"key_1"}, 4, 2, 0},
		{usage.ByKey, []string{"key_2"}, 2, 0, 2},
		{usage.ByMethod, []string{"messages.send"}, 4, 2, 0},
		{usage.ByMethod, []string{"listAccounts"}, 2, 0, 0},
		{usage.ByPlatform, []string{"reef"}, 4, 0, 2},
		{usage.ByPlatform, []string{"ghost"}, 2, 2, 0},
		{usage.ByKey, []string{""}, 0, 0, 0},
	} {
		for _, step := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
			var calls, limited, failed int64
			points := series(owner, step, c.by, c.names...)
			for i := range points {
				p := &points[i]
				calls, limited, failed = calls+p.Calls, limited+p.Limited, failed+p.Failed
				if step == time.Minute && p.Calls != c.calls {
					t.Errorf("%s %v: %d calls in minute %d, want %d", c.by, c.names, p.Calls, i, c.calls)
				}
			}
			if calls != minutes*c.calls || limited != minutes*c.limited || failed != minutes*c.failed {
				t.Errorf("%s %v by %s: %d calls, %d limited, %d failed", c.by, c.names, step, calls, limited, failed)
			}
		}
	}
	for i, p := range series(owner, time.Minute, usage.ByAll) {
		if want := (usage.Events{Received: 10, Delivered: 6, DeliveryFailed: 4, Slowest: time.Duration(i+1) * time.Second}); p.Events != want {
			t.Errorf("events in minute %d: %+v", i, p.Events)
		}
	}
	if p := series(owner, 24*time.Hour, usage.ByAll); p[0].Events.Slowest != minutes*time.Second || p[0].Events.Received != 40 {
		t.Errorf("events of the day: %+v", p[0].Events)
	}
	if p := series(owner, time.Minute, usage.ByMethod, "messages.list"); p[0].Events != (usage.Events{}) {
		t.Errorf("a series of a method has events: %+v", p[0].Events)
	}
	if p := series(other, 24*time.Hour, usage.ByPlatform, "reef"); p[0].Calls != 2*minutes {
		t.Errorf("the other organisation has %d calls", p[0].Calls)
	}
}

// Minutes are deleted when they are two days old, and the hours of slices become days without a change of their sums.
func TestOldSlicesAreRolledUp(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	owner, other := testenv.AddOrg(t, db), testenv.AddOrg(t, db)
	today := time.Date(2026, 3, 20, 15, 0, 0, 0, time.UTC)
	now := today
	u := usage.New(usage.Deps{DB: db.WithClock(func() time.Time { return today }), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	old := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{old, old.Add(5 * time.Hour), old.Add(23 * time.Hour), today.Add(-49 * time.Hour), today.Add(-47 * time.Hour)} {
		now = at
		for _, org := range []id.Org{owner, other} {
			u.Count(usage.Call{Org: org, Key: "key_1", Operation: "messages.send", Outcome: usage.OK, Status: 200, Took: 20 * time.Millisecond})
			u.Received(org, 1)
		}
		must.OK(t, u.Flush(t.Context()))
	}
	now = today
	rows := func(what string, org id.Org) (n int) {
		must.OK(t, db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM "+what+" AND org_id = $1", org).Scan(&n))
		return n
	}
	minutes, hours, events := "usage_slice WHERE step = 60", "usage_slice WHERE step = 3600", "usage_event_minute WHERE true"
	day := usage.Want{Org: owner, Dimension: usage.ByKey, Names: []string{"key_1"}, Since: old, Until: old.AddDate(0, 0, 1), Step: 24 * time.Hour}
	want, err := u.Series(t.Context(), day)
	must.OK(t, err)
	for range 2 {
		_, err := u.RollUp(t.Context(), []string{string(owner)}, 5)
		must.OK(t, err)
	}
	if m, h, e := rows(minutes, owner), rows(hours, owner), rows(events, owner); m != 3 || h != 2*3 || e != 1 {
		t.Errorf("%d minutes, %d hours and %d minutes of events are left", m, h, e)
	}
	if m, h := rows(minutes, other), rows(hours, other); m != 5*3 || h != 5*2 {
		t.Errorf("the other organisation has %d minutes and %d hours", m, h)
	}
	got, err := u.Series(t.Context(), day)
	must.OK(t, err)
	if len(want) != 1 || want[0].Calls != 3 || got[0] != want[0] {
		t.Errorf("the day was %+v and is %+v", want, got)
	}
}
