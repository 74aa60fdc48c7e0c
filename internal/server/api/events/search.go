package events

import (
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// longestPeriod is the longest period of a search. It is about as long as events are stored.
const longestPeriod = org.MaxRetentionDays * 24 * time.Hour

// searches reports whether a request is limited to a period or a text.
func (in *Query) searches() bool { return in.firstOfSearch() != "" }

// firstOfSearch returns the name of the first parameter of a search; empty if there is none.
func (in *Query) firstOfSearch() string {
	switch {
	case !in.FromTime.IsZero():
		return "fromTime"
	case !in.ToTime.IsZero():
		return "toTime"
	case in.Text != "":
		return "q"
	}
	return ""
}

// period returns what a request searches.
func (e *events) period(in *Query) (stream.Search, error) {
	s := stream.Search{From: in.FromTime, To: in.ToTime, Text: event.NewText(in.Text)}
	bad := problem.InvalidRequest.New("The period is invalid.")
	endpoint.CheckTimes(bad, map[string]time.Time{"query/fromTime": s.From, "query/toTime": s.To})
	if s.To.IsZero() {
		// The end is now, plus an hour in case the clock of this node is slow.
		s.To = e.Now().Add(time.Hour)
	}
	// The times of events are stored more precisely than they are shown.
	s.To = s.To.Truncate(time.Millisecond).Add(time.Millisecond - time.Microsecond)
	if s.From.IsZero() {
		s.From = s.To.Add(-longestPeriod)
	}
	switch {
	case len(bad.Fields) > 0:
	case s.To.Before(s.From):
		bad.At("query/toTime", "minimum", "must not be before fromTime")
	case s.To.Sub(s.From) > longestPeriod+2*time.Hour:
		bad.At("query/fromTime", "minimum", "must be at most 30 days before toTime")
	}
	if len(bad.Fields) > 0 {
		return s, bad
	}
	return s, nil
}

// scannedIf returns a member of a page of a search that says how many events were looked at.
func scannedIf(searches bool, n int) string {
	if !searches {
		return ""
	}
	return `,"scanned":` + strconv.Itoa(n)
}
