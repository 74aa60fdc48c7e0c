package usage_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Old hours become days. What a day adds up to stays the same, also if it is rolled up twice; newer hours and other
// organisations keep their hours.
func TestOldHoursAreRolledUp(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	owner, other := testenv.AddOrg(t, db), testenv.AddOrg(t, db)
	today := time.Date(2026, 3, 20, 15, 0, 0, 0, time.UTC)
	now := today
	u := usage.New(usage.Deps{DB: db.WithClock(func() time.Time { return today }), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	account := id.New[id.Account]()
	count := func(at time.Time, org id.Org) {
		now = at
		u.Count(usage.Call{Org: org, Account: account, Operation: "messages.send", Access: usage.Write, Outcome: usage.OK, Status: 200, Took: 20 * time.Millisecond})
		must.OK(t, u.Flush(t.Context()))
	}
	old := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	for _, hour := range []int{0, 5, 5, 23} {
		count(old.Add(time.Duration(hour)*time.Hour), owner)
		count(old.Add(time.Duration(hour)*time.Hour), other)
	}
	for _, hour := range []int{3, 4} {
		count(time.Date(2026, 3, 19, hour, 0, 0, 0, time.UTC), owner)
	}
	rows := func(table string, org id.Org) (n int) {
		must.OK(t, db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE org_id = $1", org).Scan(&n))
		return n
	}
	before := [4]int{rows("usage_hour", owner), rows("usage_series", owner), rows("usage_hour", other), rows("usage_series", other)}
	now = today
	day := usage.Want{Org: owner, Since: old, Until: old.AddDate(0, 0, 1), Step: 24 * time.Hour}
	want, err := u.Series(t.Context(), day)
	must.OK(t, err)
	for range 2 {
		_, err := u.RollUp(t.Context(), []string{string(owner)}, 5)
		must.OK(t, err)
	}
	after := [4]int{rows("usage_hour", owner), rows("usage_series", owner), rows("usage_hour", other), rows("usage_series", other)}
	if before != [4]int{5, 10, 3, 6} || after != [4]int{3, 6, 3, 6} {
		t.Errorf("rows before %v, after %v", before, after)
	}
	got, err := u.Series(t.Context(), day)
	must.OK(t, err)
	if len(got) != 1 || len(want) != 1 || want[0].Calls != 4 || got[0] != want[0] {
		t.Errorf("the day was %+v and is %+v", want, got)
	}
}
