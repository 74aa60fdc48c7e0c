package usage

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

type loadKey struct {
	org    id.Org
	region string
	hour   time.Time
}

// load is what traffic weighs, in bytes.
type load struct{ sent, received int64 }

// Carried adds what was sent to a platform and received from it through a region. It does not wait for anything.
func (u *Usage) Carried(org id.Org, region string, sent, received int64) {
	key := loadKey{org, region, u.Now().Truncate(time.Hour)}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.carry(key, load{sent, received})
}

// carry is called with the lock held.
func (u *Usage) carry(key loadKey, more load) {
	sum, ok := u.loads[key]
	if ok || len(u.loads) < maxSums {
		u.loads[key] = load{sum.sent + more.sent, sum.received + more.received}
	}
}

func (u *Usage) flushBytes(ctx context.Context) error {
	u.mu.Lock()
	loads := u.loads
	u.loads = map[loadKey]load{}
	u.mu.Unlock()
	if len(loads) == 0 {
		return nil
	}
	// All nodes take the rows' locks in one order.
	keys := slices.SortedFunc(maps.Keys(loads), func(a, b loadKey) int {
		return cmp.Or(a.hour.Compare(b.hour), cmp.Compare(a.org, b.org), cmp.Compare(a.region, b.region))
	})
	ctx, cancel := context.WithTimeout(ctx, flushAtMost)
	defer cancel()
	err := addBytes(ctx, u.DB.Pool(), keys, loads)
	if err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		for k, l := range loads {
			u.carry(k, l)
		}
	}
	return err
}
