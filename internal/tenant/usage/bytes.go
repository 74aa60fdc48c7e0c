package usage

import (
	"cmp"
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
	key := trafficKey{org, region, u.deps.Now().Truncate(time.Hour)}
	u.traffic.update(key, func(sum *traffic) { sum.plus(&traffic{sent, received}) })
}

func (t *traffic) plus(more *traffic) {
	t.sent += more.sent
	t.received += more.received
}

func compareTrafficKeys(a, b trafficKey) int {
	return cmp.Or(a.hour.Compare(b.hour), cmp.Compare(a.org, b.org), cmp.Compare(a.region, b.region))
}
