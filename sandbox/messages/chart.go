package messages

import (
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

// massChart returns a metric of the mass messages by day, week or month. Messages sent and views count on the day of
// sending, purchases on the day of payment. The time of a point is the start of its period.
func massChart(c *wire.Call) (any, error) {
	in := wire.Span{From: c.QueryTime("from"), To: c.QueryTime("to")}
	if in.From.IsZero() || in.To.IsZero() {
		return nil, wire.Invalid("from", "Give the two days from and to, such as 2026-11-30.")
	}
	in.To = in.To.AddDate(0, 0, 1).Add(-time.Millisecond)
	by, metric := c.Query("by"), c.Query("metric")
	s := view.Series{Unit: "messages", Points: []view.Point{}}
	places := map[time.Time]int{}
	first, last := later(in.From, c.Profile.JoinedAt), c.Now()
	if in.To.Before(last) {
		last = in.To
	}
	for at := stretch(first, by, 0); !at.After(last); at = stretch(at, by, 1) {
		places[at] = len(s.Points)
		s.Points = append(s.Points, view.Point{At: view.Stamp(at)})
	}
	add := func(at time.Time, value int64) {
		place, ok := places[stretch(at, by, 0)]
		if ok && in.Has(at) {
			s.Points[place].Value += value
			s.Total += value
		}
	}
	switch metric {
	case "sent", "viewed":
		for _, m := range c.Masses().All() {
			if metric == "viewed" {
				add(m.SentAt, int64(m.Viewed))
			} else {
				add(m.SentAt, int64(m.Sent))
			}
		}
	default:
		if metric != "purchased" {
			s.Unit = "cents"
		}
		for _, t := range c.Txs().All() {
			switch {
			case t.RefKind != row.KindMass || t.Status == "reversed":
			case metric == "purchased":
				add(t.At, 1)
			default:
				add(t.At, t.Net())
			}
		}
	}
	return s, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// stretch returns the start of the day, week (from Monday) or month of a time, or of the n-th period after it.
func stretch(at time.Time, by string, n int) time.Time {
	year, month, day := at.UTC().Date()
	switch by {
	case "week":
		return time.Date(year, month, day-int(at.UTC().Weekday()+6)%7+7*n, 0, 0, 0, 0, time.UTC)
	case "month":
		return time.Date(year, month+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
	}
	return time.Date(year, month, day+n, 0, 0, 0, 0, time.UTC)
}
