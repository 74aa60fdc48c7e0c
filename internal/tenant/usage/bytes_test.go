package usage_test

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// Bytes of concurrent callers on several nodes add up by region, both directions together. A failed flush loses nothing
// and counts nothing twice.
func TestBytesAddUp(t *testing.T) {
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
		for range 4 {
			wait.Go(func() {
				for i := range 100 {
					u.Carried(owner, "us", 10, 1000)
					u.Carried(owner, "uk", 1, 5_000_000_000)
					u.Carried(other, "us", 7, 7)
					switch i % 20 {
					case 5:
						_ = u.Flush(cancelled) // succeeds if a concurrent flush has taken all sums
					case 15:
						if err := u.Flush(t.Context()); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
	}
	wait.Wait()
	u := nodes[0]
	u.Carried(owner, "us", 1, 0)
	if u.Flush(cancelled) == nil {
		t.Error("a flush without a database succeeded")
	}
	for _, u := range nodes {
		must.OK(t, u.Flush(t.Context()))
	}
	for of, want := range map[id.Org]map[string]int64{
		owner: {"us": 1200*1010 + 1, "uk": 1200 * 5_000_000_001},
		other: {"us": 1200 * 14},
	} {
		sum, err := u.Summarise(t.Context(), of, now.Add(-time.Hour), now.Add(time.Hour))
		if err != nil || !maps.Equal(sum.Bytes, want) {
			t.Errorf("%v %v, want %v", sum.Bytes, err, want)
		}
	}
	sum, err := u.Summarise(t.Context(), owner, now.Add(time.Hour), now.Add(2*time.Hour))
	if err != nil || len(sum.Bytes) != 0 {
		t.Errorf("another period: %v %v", sum.Bytes, err)
	}
}
