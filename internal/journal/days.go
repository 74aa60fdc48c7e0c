package journal

import (
	"strings"
	"time"
)

const (
	// MaxDays is the longest that a request can be read; the plans allow as long or shorter.
	MaxDays = 30
	// daysAhead is how many days are made before they begin.
	daysAhead = 2
)

// day counts days since 1970, in UTC. Each has a partition of its own.
type day int64

const secondsPerDay = 24 * 60 * 60

// dayOf is the day of a time after 1970.
func dayOf(at time.Time) day { return day(at.Unix() / secondsPerDay) }

// start is the first moment of the day.
func (d day) start() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

const (
	partitionPrefix = "request_log_"
	partitionLayout = "20060102"
)

// partition is the name of the day's table.
func (d day) partition() string { return partitionPrefix + d.start().Format(partitionLayout) }

// parsePartition reads a day from its table's name.
func parsePartition(name string) (day, bool) {
	text, ok := strings.CutPrefix(name, partitionPrefix)
	at, err := time.Parse(partitionLayout, text)
	return dayOf(at), ok && err == nil
}

// kept is since when an org may read, by the limit of its plan. A limit that is not enforced is that of the longest plan.
func kept(now time.Time, days int) time.Time {
	if days < 0 || days > MaxDays {
		days = MaxDays
	}
	return now.AddDate(0, 0, -days)
}
