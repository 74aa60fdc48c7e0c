package usage

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// seriesKey identifies an hour of an account, or of the whole org if the account is empty.
type seriesKey struct {
	org     id.Org
	account id.Account
	hour    time.Time
}

// tally holds the counts of one seriesKey.
type tally struct {
	calls, limited, clientErrors, failed int64
	took                                 histogram
}

func (t *tally) count(c *Call) {
	t.calls++
	switch {
	case c.Outcome == RateLimited:
		t.limited++
	case c.Outcome == Failed && c.Status >= http.StatusInternalServerError:
		t.failed++
	case c.Outcome == Failed:
		t.clientErrors++
	}
	if c.Took > 0 && c.Outcome != RateLimited { // refusals are fast and would distort the quantiles
		t.took.add(c.Took)
	}
}

func (t *tally) plus(more *tally) {
	t.calls += more.calls
	t.limited += more.limited
	t.clientErrors += more.clientErrors
	t.failed += more.failed
	t.took.plus(more.took[:])
}

func compareSeriesKeys(a, b seriesKey) int {
	return cmp.Or(cmp.Compare(a.org, b.org), cmp.Compare(a.account, b.account), a.hour.Compare(b.hour))
}

// Figures are the counts of a period.
type Figures struct {
	// Calls is the number of all calls: Succeeded, Limited (refused by a limit), ClientErrors (other 4xx) and Failed
	// (5xx).
	Calls, Limited, ClientErrors, Failed int64
	// Events are those of the whole org; they are not counted by account.
	Events Events

	took histogram
}

// Succeeded returns the number of calls that were neither refused nor failed.
func (f *Figures) Succeeded() int64 { return f.Calls - f.Limited - f.ClientErrors - f.Failed }

// Quantile returns the duration in milliseconds within which the given share of the calls ended. ok is false if there
// were no calls with a duration. Streams and calls refused by a limit are not included.
func (f *Figures) Quantile(share float64) (ms float64, ok bool) { return f.took.quantile(share) }

func (f *Figures) add(t *tally) {
	f.Calls += t.calls
	f.Limited += t.limited
	f.ClientErrors += t.clientErrors
	f.Failed += t.failed
	f.took.plus(t.took[:])
}

func (f *Figures) Plus(more *Figures) {
	f.Calls += more.Calls
	f.Limited += more.Limited
	f.ClientErrors += more.ClientErrors
	f.Failed += more.Failed
	f.Events.plus(&more.Events)
	f.took.plus(more.took[:])
}

// Point is one step of a series, starting at At.
type Point struct {
	At time.Time
	Figures
}

// Want selects a series.
type Want struct {
	Org id.Org
	// Dimension and Names select calls, whose figures are added up. The empty dimension is ByAll, which needs no names and
	// is the only one with events.
	Dimension Dimension
	Names     []string
	// Since is inclusive, Until exclusive. Both must be at the start of a step.
	Since, Until time.Time
	// Step is a minute, an hour, or a day in UTC. Minutes are kept for MinuteDays.
	Step time.Duration
}

// Series returns one point for each step, including steps without calls.
func (u *Usage) Series(ctx context.Context, w Want) ([]Point, error) {
	points := make([]Point, 0, int(w.Until.Sub(w.Since)/w.Step))
	for at := w.Since; at.Before(w.Until); at = at.Add(w.Step) {
		points = append(points, Point{At: at})
	}
	figuresAt := func(at time.Time) *Figures {
		if i := int(at.Sub(w.Since) / w.Step); i >= 0 && i < len(points) {
			return &points[i].Figures
		}
		return &Figures{} // outside the period; discarded
	}
	if w.Dimension = cmp.Or(w.Dimension, ByAll); w.Dimension == ByAll {
		w.Names = []string{""}
	}
	err := readSeries(ctx, u.deps.DB, w, func(at time.Time, t *tally) { figuresAt(at).add(t) })
	if err == nil && w.Dimension == ByAll {
		err = readEvents(ctx, u.deps.DB, w, func(at time.Time, e Events) {
			f := figuresAt(at)
			f.Events.plus(&e)
		})
	}
	return points, err
}

// ActivityHours is how many hours Activity covers.
const ActivityHours = 24

// Activity returns the number of calls of each account in each of the last ActivityHours hours, the current hour last.
// Accounts without calls are not in the map.
func (u *Usage) Activity(ctx context.Context, org id.Org, accounts []id.Account) (map[id.Account][]int64, error) {
	first := u.deps.Now().UTC().Truncate(time.Hour).Add(-(ActivityHours - 1) * time.Hour)
	found := map[id.Account][]int64{}
	err := readActivity(ctx, u.deps.DB, org, accounts, first, func(account id.Account, hour time.Time, calls int64) {
		at := int(hour.Sub(first) / time.Hour)
		if at < 0 || at >= ActivityHours {
			return
		}
		if found[account] == nil {
			found[account] = make([]int64, ActivityHours)
		}
		found[account][at] += calls
	})
	return found, err
}
