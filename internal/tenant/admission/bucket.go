package admission

import (
	"math"
	"time"
)

// bucket is a leaky bucket: each call adds one, and it drains at the limit's rate, so that a caller may use the whole
// limit in one burst and then the sustained rate. It stores the level and not the time at which it is empty, so that a
// changed limit takes effect immediately.
type bucket struct {
	level float64   // in calls
	at    time.Time // when level was measured
}

// levelAt returns the level at a later time. If the limit was lowered, the bucket is at most full: calls made under the
// higher limit do not count against the org.
func (b bucket) levelAt(now time.Time, limit int, period time.Duration) float64 {
	if b.at.IsZero() || limit < 0 {
		return 0
	}
	gone := float64(now.Sub(b.at)) / float64(period) * float64(limit)
	return max(min(b.level, float64(limit))-max(gone, 0), 0)
}

// take adds one call if it fits and returns 0. Otherwise it returns how long until it fits.
func (b *bucket) take(now time.Time, limit int, period time.Duration) (wait time.Duration) {
	level := b.levelAt(now, limit, period)
	if wait = b.wait(now, limit, period); wait > 0 {
		return wait
	}
	b.level, b.at = level+1, now
	return 0
}

// wait returns how long until one more call fits; 0 if it fits now.
func (b bucket) wait(now time.Time, limit int, period time.Duration) time.Duration {
	if limit < 0 {
		return 0
	}
	over := b.levelAt(now, limit, period) + 1 - float64(limit)
	if over <= 0 {
		return 0
	}
	return time.Duration(math.Ceil(over / float64(limit) * float64(period)))
}

// Window says how much of one limit is left. Limit and Remaining are -1 if the limit is not enforced.
type Window struct {
	Limit     int
	Remaining int
	// Reset is when the whole limit is available again, in Unix seconds.
	Reset int64
}

// window returns the Window of a bucket at a given level.
func window(now time.Time, level float64, limit int, period time.Duration) Window {
	if limit < 0 {
		return Window{Limit: limit, Remaining: limit, Reset: now.Unix()}
	}
	full := time.Duration(level / float64(limit) * float64(period))
	return Window{
		Limit:     limit,
		Remaining: int(max(math.Floor(float64(limit)-level), 0)),
		Reset:     ceilUnix(now.Add(full)),
	}
}

// monthWindow returns the Window of the calendar month.
func monthWindow(now time.Time, used int64, limit int) Window {
	w := Window{Limit: limit, Remaining: limit, Reset: nextMonth(now).Unix()}
	if limit >= 0 {
		w.Remaining = int(max(int64(limit)-used, 0))
	}
	return w
}

func ceilUnix(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}

// monthOf returns the calendar month in UTC as yyyymm.
func monthOf(t time.Time) int { return t.UTC().Year()*100 + int(t.UTC().Month()) }

// MonthStart returns the start of the calendar month in UTC.
func MonthStart(t time.Time) time.Time {
	return time.Date(t.UTC().Year(), t.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
}

func nextMonth(t time.Time) time.Time { return MonthStart(t).AddDate(0, 1, 0) }

// seconds rounds a wait up, to at least 1, so that waiting this long always suffices.
func seconds(wait time.Duration) int { return max(int(math.Ceil(wait.Seconds())), 1) }
