package usage

import (
	"cmp"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Dimension is what the calls of a series have in common.
type Dimension string

// The dimensions. All calls of an org have the empty name.
const (
	ByAll      Dimension = "all"
	ByAccount  Dimension = "account"
	ByKey      Dimension = "key"
	ByMethod   Dimension = "method"
	ByPlatform Dimension = "platform"
)

// MinuteDays is how many days usage is kept by minute.
const MinuteDays = 2

// sliceKey identifies a minute or an hour, its step, of the calls with one value of a dimension.
type sliceKey struct {
	org       id.Org
	step      time.Duration
	dimension Dimension
	name      string
	at        time.Time
}

// countSlices counts a call by minute in every dimension, and by hour in those that seriesKey does not have.
func (u *Usage) countSlices(c *Call, now time.Time) {
	minute, hour := now.Truncate(time.Minute), now.Truncate(time.Hour)
	add := func(t *tally) { t.count(c) }
	u.slices.update(sliceKey{c.Org, time.Minute, ByAll, "", minute}, add)
	if c.Account != "" {
		u.slices.update(sliceKey{c.Org, time.Minute, ByAccount, string(c.Account), minute}, add)
	}
	for _, of := range [...]struct {
		dimension Dimension
		name      string
	}{{ByKey, string(c.Key)}, {ByMethod, c.Operation}, {ByPlatform, c.Platform}} {
		if of.name != "" {
			u.slices.update(sliceKey{c.Org, time.Minute, of.dimension, of.name, minute}, add)
			u.slices.update(sliceKey{c.Org, time.Hour, of.dimension, of.name, hour}, add)
		}
	}
}

func compareSliceKeys(a, b sliceKey) int {
	return cmp.Or(
		cmp.Compare(a.org, b.org), cmp.Compare(a.step, b.step), cmp.Compare(a.dimension, b.dimension), cmp.Compare(a.name, b.name), a.at.Compare(b.at),
	)
}
