package usage

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// seriesKey is an hour of an account, or of the whole org if the account is empty.
type seriesKey struct {
	org     id.Org
	account id.Account
	hour    time.Time
}

// tally is what was called within it.
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
	if c.Took > 0 && c.Outcome != RateLimited { // a refusal is quick, and would make the rest look so
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

// tallyOf finds a tally to add to; nil if there are too many. It is called with the lock held.
func (u *Usage) tallyOf(key seriesKey) *tally {
	t := u.series[key]
	if t == nil && len(u.series) < maxSums {
		t = &tally{}
		u.series[key] = t
	}
	return t
}

// chart counts a call towards the org's series and its account's. It is called with the lock held.
func (u *Usage) chart(c *Call, hour time.Time) {
	if t := u.tallyOf(seriesKey{org: c.Org, hour: hour}); t != nil {
		t.count(c)
	}
	if c.Account == "" {
		return
	}
	if t := u.tallyOf(seriesKey{c.Org, c.Account, hour}); t != nil {
		t.count(c)
	}
}

func (u *Usage) flushSeries(ctx context.Context) error {
	u.mu.Lock()
	series := u.series
	u.series = map[seriesKey]*tally{}
	u.mu.Unlock()
	if len(series) == 0 {
		return nil
	}
	// All nodes take the rows' locks in one order.
	keys := slices.SortedFunc(maps.Keys(series), func(a, b seriesKey) int {
		return cmp.Or(cmp.Compare(a.org, b.org), cmp.Compare(a.account, b.account), a.hour.Compare(b.hour))
	})
	ctx, cancel := context.WithTimeout(ctx, flushAtMost)
	defer cancel()
	err := addSeries(ctx, u.DB.Pool(), keys, series)
	if err != nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		for k, more := range series {
			if t := u.tallyOf(k); t != nil {
				t.plus(more)
			}
		}
	}
	return err
}

// Figures are what happened in a stretch of time.
type Figures struct {
	// Calls are all of them: Succeeded, Limited (refused because of a limit), ClientErrors (other 4xx) and Failed (5xx).
	Calls, Limited, ClientErrors, Failed int64
	// Events are the whole org's; they are not counted by account.
	Events Events

	took histogram
}

// Succeeded are the calls that were answered with what was asked for.
func (f *Figures) Succeeded() int64 { return f.Calls - f.Limited - f.ClientErrors - f.Failed }

// Quantile is the time in milliseconds that a share of the calls kept within; false if there is none whose time counts. Calls that hold
// their answer, and refused ones, do not.
func (f *Figures) Quantile(share float64) (ms float64, ok bool) { return f.took.quantile(share) }

func (f *Figures) add(t *tally) {
	f.Calls += t.calls
	f.Limited += t.limited
	f.ClientErrors += t.clientErrors
	f.Failed += t.failed
	f.took.plus(t.took[:])
}

// Plus adds others.
func (f *Figures) Plus(more *Figures) {
	f.Calls += more.Calls
	f.Limited += more.Limited
	f.ClientErrors += more.ClientErrors
	f.Failed += more.Failed
	f.Events = f.Events.plus(more.Events)
	f.took.plus(more.took[:])
}

// Point is a stretch of time in a series.
type Point struct {
	At time.Time
	Figures
}

// Want chooses a series.
type Want struct {
	Org id.Org
	// Accounts are those whose calls are added up; nil for the whole org.
	Accounts []id.Account
	// Since is the first moment and Until the first after the last. Both are at the beginning of a step.
	Since, Until time.Time
	// Step is an hour, or a day in UTC.
	Step time.Duration
}

// Series is one point for each step, also where nothing happened.
func (u *Usage) Series(ctx context.Context, w Want) ([]Point, error) {
	points := make([]Point, 0, int(w.Until.Sub(w.Since)/w.Step))
	for at := w.Since; at.Before(w.Until); at = at.Add(w.Step) {
		points = append(points, Point{At: at})
	}
	of := func(hour time.Time) *Figures {
		if i := int(hour.Sub(w.Since) / w.Step); i >= 0 && i < len(points) {
			return &points[i].Figures
		}
		return &Figures{} // not asked for
	}
	accounts := []string{""}
	if w.Accounts != nil {
		accounts = id.Texts(w.Accounts)
	}
	err := readSeries(ctx, u.DB.Pool(), w, accounts, func(hour time.Time, t *tally) { of(hour).add(t) })
	if err == nil && w.Accounts == nil {
		err = readEvents(ctx, u.DB.Pool(), w, func(hour time.Time, e Events) {
			f := of(hour)
			f.Events = f.Events.plus(e)
		})
	}
	return points, err
}

// ActivityHours is how many hours Activity tells of.
const ActivityHours = 24

// Activity is how often accounts were called in each of the last hours, the current one last. Accounts that were not called are left out.
func (u *Usage) Activity(ctx context.Context, org id.Org, accounts []id.Account) (map[id.Account][]int64, error) {
	first := u.Now().UTC().Truncate(time.Hour).Add(-(ActivityHours - 1) * time.Hour)
	found := map[id.Account][]int64{}
	err := readActivity(ctx, u.DB.Pool(), org, accounts, first, func(account id.Account, hour time.Time, calls int64) {
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
