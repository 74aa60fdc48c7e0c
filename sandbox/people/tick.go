package people

import (
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/messages"
	"github.com/stagedoor/stagedoor/sandbox/publish"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// lookAgain limits the time between two runs of Tick. No subscription is shorter, so none can start and end in between.
const lookAgain = time.Hour

// Tick ends or renews the subscriptions that are due, month by month if several months have passed, and returns when it
// must run again.
//
// Once that time has come, Tick runs before every request. It does not load the people while nothing can have ended:
// the seeded subscriptions last for some days at first. With the people loaded, a run takes microseconds. The first run
// also lets other packages set the timers for what their seeds have scheduled.
func Tick(c *world.Creator) time.Time {
	now := c.Now()
	if !c.Profile.Planned {
		messages.Plan(c)
	}
	next := publish.Settle(c)
	if first := c.Profile.Anchor.Add(seed.FirstEnd); now.Before(first) {
		return earlier(next, first)
	}
	changed := false
	for {
		due, upcoming := ended(c, now)
		if len(due) == 0 {
			next = earlier(next, earlier(upcoming, now.Add(lookAgain)))
			break
		}
		changed = true
		for _, p := range due {
			settle(c, p, now)
		}
	}
	if !changed {
		return next
	}
	c.Profile.ExpiresRun = now
	c.SaveProfile()
	// If the following request fails, these changes are rolled back as well. So run again before the next one.
	return now
}

// ended returns the people with a subscription that has ended, in either direction, sorted by its end, and the next
// end.
func ended(c *world.Creator, now time.Time) (due []*row.Person, upcoming time.Time) {
	upcoming = now.AddDate(1, 0, 0)
	for _, p := range c.People().All() {
		over := false
		for _, s := range []*row.Subscription{p.Sub, p.Follow} {
			switch {
			case s == nil || s.Ended || s.Until.IsZero():
			case s.Until.After(now):
				upcoming = earlier(upcoming, s.Until)
			default:
				over = true
			}
		}
		if over {
			due = append(due, p)
		}
	}
	slices.SortStableFunc(due, func(a, b *row.Person) int { return firstEnd(a).Compare(firstEnd(b)) })
	return due, upcoming
}

// firstEnd returns the earliest end of a person's subscriptions that are not marked as ended.
func firstEnd(p *row.Person) time.Time {
	var at time.Time
	for _, s := range []*row.Subscription{p.Sub, p.Follow} {
		if s != nil && !s.Ended && !s.Until.IsZero() && (at.IsZero() || s.Until.Before(at)) {
			at = s.Until
		}
	}
	return at
}

// settle renews a person's due subscriptions by one period, or ends them.
func settle(c *world.Creator, p *row.Person, now time.Time) {
	if over(p.Sub, now) {
		if p.Sub.AutoRenew {
			renew(c, p, p.Sub.Until)
		} else {
			end(c, p)
		}
	}
	if f := p.Follow; over(f, now) {
		// The ledger holds only income, not what the creator pays to others.
		if f.AutoRenew {
			extend(f, month, "paid")
		} else {
			f.Ended = true
		}
		c.People().Put(p)
	}
}

func over(s *row.Subscription, now time.Time) bool {
	return s != nil && !s.Ended && !s.Until.IsZero() && !s.Until.After(now)
}

// extend adds a period at the subscription's own price to its end.
func extend(s *row.Subscription, by time.Duration, kind string) {
	price := s.Price
	if kind == "free" || price == 0 {
		price, kind = 0, "free"
	}
	from := s.Until
	s.Until = from.Add(by)
	s.Periods = append(s.Periods, row.Period{From: from, To: s.Until, Price: price, Kind: kind, Months: int(by / month)})
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
