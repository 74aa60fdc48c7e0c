package requestlog

import (
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

const (
	// daysAhead is how many days ahead partitions are created.
	daysAhead = 2
	// daysBack is 1 because a request that began yesterday may end today.
	daysBack = 1
)

// keptDays returns the first and the last day whose entries are stored.
func keptDays(now time.Time) (first, last postgres.Day) {
	today := postgres.DayOf(now)
	return today - org.MaxRetentionDays, today + daysAhead
}
