package money

import (
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const day = 24 * time.Hour

// span returns the time span of a query, given as times or as whole days. A missing end is zero. A span that ends
// before it starts is empty.
func span(c *wire.Call) wire.Span {
	s := wire.Span{From: c.QueryTime("from"), To: c.QueryTime("to")}
	if len(c.Query("to")) == len(time.DateOnly) {
		s.To = s.To.Add(day - time.Millisecond)
	}
	return s
}

// days is like span, but requires both ends, as days.
func days(c *wire.Call) (wire.Span, error) {
	for _, name := range []string{"from", "to"} {
		if _, err := time.Parse(time.DateOnly, c.Query(name)); err != nil {
			return wire.Span{}, wire.Invalid(name, "Give a day, such as 2026-11-30.")
		}
	}
	return span(c), nil
}

// series sums up values by hour, day, week or month. It has a point for every period of the span between the creator's
// joining and now, so the number of points is bounded; there are no values outside. fill calls add for each value.
func series(c *world.Creator, in wire.Span, by, unit string, fill func(add func(time.Time, int64))) view.Series {
	s := view.Series{Unit: unit, Points: []view.Point{}}
	starts := stretches(c, in, by)
	for _, at := range starts {
		s.Points = append(s.Points, view.Point{At: view.Stamp(at)})
	}
	fill(func(at time.Time, value int64) {
		if !in.Has(at) || len(starts) == 0 {
			return
		}
		next, _ := slices.BinarySearchFunc(starts, at, func(start, at time.Time) int {
			if start.After(at) {
				return 1
			}
			return -1
		})
		s.Points[max(next-1, 0)].Value += value
		s.Total += value
	})
	return s
}

// stretches returns the start times of a chart's points. The first is the start of the span.
func stretches(c *world.Creator, in wire.Span, by string) []time.Time {
	from, to := c.Profile.JoinedAt.Truncate(day), c.Now()
	if in.From.After(from) {
		from = in.From
	}
	if !in.To.IsZero() && in.To.Before(to) {
		to = in.To
	}
	var starts []time.Time
	for at := from; !at.After(to); at = following(at, by) {
		starts = append(starts, at)
	}
	return starts
}

// following returns the start of the period after the one that contains a time.
func following(at time.Time, by string) time.Time {
	midnight := at.Truncate(day)
	switch by {
	case "hour":
		return at.Truncate(time.Hour).Add(time.Hour)
	case "week": // from Monday
		return midnight.AddDate(0, 0, 7-int(at.Weekday()+6)%7)
	case "month":
		return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	default:
		return midnight.Add(day)
	}
}
