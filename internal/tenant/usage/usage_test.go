package usage_test

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/tenant/usage"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Counts of concurrent callers on several nodes add up. A failed flush loses none.
func TestCountsAddUp(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	owner, other := testenv.AddOrg(t, db), testenv.AddOrg(t, db)
	now := time.Now().UTC()
	nodes := []*usage.Usage{}
	for range 3 {
		nodes = append(nodes, usage.New(usage.Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}))
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	var wait sync.WaitGroup
	for _, u := range nodes {
		wait.Go(func() {
			for i := range 300 {
				u.Count(usage.Call{Org: owner, Account: "acct_1", Operation: "messages.list", Access: usage.Read, Outcome: usage.OK})
				u.Count(usage.Call{Org: owner, Account: "acct_2", Operation: "messages.send", Access: usage.Write, Outcome: usage.Failed})
				u.Count(usage.Call{Org: owner, Account: "acct_1", Operation: "getAccountMe", Access: usage.Read, Outcome: usage.OK})
				u.Count(usage.Call{Org: owner, Operation: "getMe", Access: usage.Plain, Outcome: usage.RateLimited})
				u.Count(usage.Call{Org: other, Account: "acct_3", Operation: "chats.list", Access: usage.Read, Outcome: usage.OK})
				if i%100 == 50 {
					if u.Flush(cancelled) == nil {
						t.Error("a flush without a database succeeded")
					}
				}
				if i%100 == 99 {
					if err := u.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wait.Wait()
	sum, err := nodes[0].Summarise(t.Context(), owner, now.Add(-time.Hour), now.Add(time.Hour))
	must.OK(t, err)
	if sum.Read != 1800 || sum.Write != 900 || sum.Failed != 900 || sum.RateLimited != 900 || !maps.Equal(sum.ByResource, map[string]int64{"messages": 1800}) {
		t.Errorf("%+v", sum)
	}
	if sum, err = nodes[0].Summarise(t.Context(), owner, now.Add(time.Hour), now.Add(2*time.Hour)); err != nil || sum.Read != 0 {
		t.Errorf("another period: %+v %v", sum, err)
	}
}
