package usage

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

type trafficKey struct {
	org    id.Org
	region string
	hour   time.Time
}

// traffic is in bytes.
type traffic struct{ sent, received int64 }

// Carried adds the bytes that were sent to a platform and received from it through a region. It does not block.
func (u *Usage) Carried(org id.Org, region string, sent, received int64) {
	key := trafficKey{org, region, u.Now().Truncate(time.Hour)}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.addTraffic(key, traffic{sent, received})
}

// addTraffic adds to the sums. The caller holds u.mu.
func (u *Usage) addTraffic(key trafficKey, more traffic) {
	sum, ok := u.traffic[key]
	if ok || len(u.traffic) < maxSums {
		u.traffic[key] = traffic{sum.sent + more.sent, sum.received + more.received}
	}
}

func (u *Usage) flushBytes(ctx context.Context) error {
	u.mu.Lock()
	sums := u.traffic
	u.traffic = map[trafficKey]traffic{}
	u.mu.Unlock()
	if len(sums) == 0 {
		return nil
	}
	// All nodes lock the rows in the same order.
	keys := slices.SortedFunc(maps.Keys(sums), func(a, b trafficKey) int {
		return cmp.Or(a.hour.Compare(b.hour), cmp.Compare(a.org, b.org), cmp.Compare(a.region, b.region))
	})
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	err := addBytes(ctx, u.DB.Pool(), keys, sums)
	if err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		for k, l := range sums {
			u.addTraffic(k, l)
		}
	}
	return err
}
