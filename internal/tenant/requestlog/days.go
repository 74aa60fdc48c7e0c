package requestlog

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

const (
	// MaxDays is the longest that a request can be read; the plans allow as long or shorter.
	MaxDays = 30
	// daysAhead is how many days are made before they begin.
	daysAhead = 2
	// daysBack is one because a request of yesterday's may end today.
	daysBack = 1
)

// kept is since when an org may read, by the limit of its plan. A limit that is not enforced is that of the longest plan.
func kept(now time.Time, days int) time.Time {
	if days < 0 || days > MaxDays {
		days = MaxDays
	}
	return now.AddDate(0, 0, -days)
}

// readable are the first and the last day whose entries are kept.
func readable(now time.Time) (first, last postgres.Day) {
	today := postgres.DayOf(now)
	return today - MaxDays, today + daysAhead
}
