package requestlog

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

const (
	// MaxDays is how long entries are stored. A plan lets an org read back this far or less.
	MaxDays = 30
	// daysAhead is how many days ahead partitions are created.
	daysAhead = 2
	// daysBack is 1 because a request that began yesterday may end today.
	daysBack = 1
)

// readableSince returns the earliest time that an org may read, by its plan's number of days. A negative number means
// no limit and counts as MaxDays.
func readableSince(now time.Time, days int) time.Time {
	if days < 0 || days > MaxDays {
		days = MaxDays
	}
	return now.AddDate(0, 0, -days)
}

// keptDays returns the first and the last day whose entries are stored.
func keptDays(now time.Time) (first, last postgres.Day) {
	today := postgres.DayOf(now)
	return today - MaxDays, today + daysAhead
}
