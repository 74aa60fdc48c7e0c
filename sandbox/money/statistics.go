package money

import (
	"cmp"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func statisticRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /statistics/overview", Handle: wire.On(days, overview)},
		{Pattern: "GET /statistics/subscribers", Handle: wire.On(days, subscribers)},
		{Pattern: "GET /statistics/visitors", Handle: wire.On(days, visitors)},
		{Pattern: "GET /statistics/countries", Handle: wire.On(days, countries)},
	}
}

// Changes of a subscription.
const (
	begun   = "new" // for the first time, or after a break
	renewed = "renewed"
	lost    = "lost"
)

// stretch is one period of a person's subscription. Its end is zero if it is open.
type stretch struct {
	from, to  time.Time
	continues bool // the previous period
	continued bool // by the next period
}

// subscribed returns the periods of a subscription, oldest first. The last one ends with the subscription, which may be
// before or after the end of the paid time.
func subscribed(s *row.Subscription) []stretch {
	var list []stretch
	if s == nil {
		return nil
	}
	for i, p := range s.Periods {
		one := stretch{from: p.From, to: p.To}
		if i == len(s.Periods)-1 {
			one.to = s.Until
		}
		if i > 0 && !p.From.After(list[i-1].to) {
			one.continues, list[i-1].continued = true, true
		}
		list = append(list, one)
	}
	return list
}

// eachTurn calls tell for every change of a subscription until now.
func eachTurn(c *world.Creator, tell func(what string, at time.Time)) {
	now := c.Now()
	for _, p := range c.People().All() {
		for _, s := range subscribed(p.Sub) {
			if s.continues {
				tell(renewed, s.from)
			} else {
				tell(begun, s.from)
			}
			if !s.continued && !s.to.IsZero() && !s.to.After(now) {
				tell(lost, s.to)
			}
		}
	}
}

// subscribedAt reports whether a subscription was active at a time.
func subscribedAt(s *row.Subscription, at time.Time) bool {
	return slices.ContainsFunc(subscribed(s), func(s stretch) bool { return !s.from.After(at) && (s.to.IsZero() || s.to.After(at)) })
}

// subscribers charts the new, renewed or lost subscribers. The kind all means new and renewed.
func subscribers(c *wire.Call, in wire.Span) (any, error) {
	kind := cmp.Or(c.Query("kind"), "all")
	return series(c.Creator, in, c.Query("by"), "subscribers", func(add func(time.Time, int64)) {
		eachTurn(c.Creator, func(what string, at time.Time) {
			if what == kind || (kind == "all" && what != lost) {
				add(at, 1)
			}
		})
	}), nil
}

// eachVisit calls tell with the number of guests and users who visited the profile on each day of a span. Today's
// numbers grow during the day.
func eachVisit(c *world.Creator, in wire.Span, tell func(at time.Time, guests, users int64)) {
	for _, at := range stretches(c, in, "day") {
		guests, users := seed.Visitors(c.Profile.Origin, at)
		part := min(c.Now().Sub(at.Truncate(day)), day)
		tell(at, int64(guests)*int64(part)/int64(day), int64(users)*int64(part)/int64(day))
	}
}

func visitors(c *wire.Call, in wire.Span) (any, error) {
	audience := c.Query("audience")
	return series(c.Creator, in, c.Query("by"), "visitors", func(add func(time.Time, int64)) {
		eachVisit(c.Creator, in, func(at time.Time, guests, users int64) {
			if audience != "users" {
				add(at, guests)
			}
			if audience != "guests" {
				add(at, users)
			}
		})
	}), nil
}

// overviewView sums up a span.
type overviewView struct {
	From     string       `json:"from"`
	To       string       `json:"to"`
	Currency string       `json:"currency"`
	Gross    view.Dollars `json:"gross"`
	Net      view.Dollars `json:"net"`
	Tips     view.Dollars `json:"tips"` // gross
	Payments int          `json:"transactions_count"`
	Spenders int          `json:"spenders_count"`
	New      int          `json:"new_subscribers"`
	Renewed  int          `json:"renewed_subscribers"`
	Lost     int          `json:"lost_subscribers"`
	Active   int          `json:"active_subscribers"` // at the end
	Visitors int64        `json:"visitors_count"`
	Posts    int          `json:"posts_count"`
	Messages int          `json:"mass_messages_count"`
	Stories  int          `json:"stories_count"`
	Streams  int          `json:"streams_count"`
}

func overview(c *wire.Call, in wire.Span) (any, error) {
	v := overviewView{From: c.Query("from"), To: c.Query("to"), Currency: currency}
	spenders := map[int64]bool{}
	for _, t := range c.Txs().All() {
		if !counts(t) || !in.Has(t.At) {
			continue
		}
		v.Payments++
		v.Gross += view.Dollars(t.Gross)
		v.Net += view.Dollars(t.Net())
		if t.Type == "tip" {
			v.Tips += view.Dollars(t.Gross)
		}
		if t.Person != 0 {
			spenders[t.Person] = true
		}
	}
	v.Spenders = len(spenders)
	turns := map[string]int{}
	eachTurn(c.Creator, func(what string, at time.Time) {
		if in.Has(at) {
			turns[what]++
		}
	})
	v.New, v.Renewed, v.Lost = turns[begun], turns[renewed], turns[lost]
	end := last(c, in)
	v.Active = len(wire.Filter(c.People().All(), func(p *row.Person) bool { return subscribedAt(p.Sub, end) }))
	eachVisit(c.Creator, in, func(_ time.Time, guests, users int64) { v.Visitors += guests + users })
	v.Posts, v.Messages = len(postsUntil(c, in, true)), len(massesUntil(c, in, true))
	v.Stories, v.Streams = len(storiesIn(c, in)), len(streamsIn(c, in))
	return v, nil
}

// last returns the end of a span, or now if that is earlier.
func last(c *wire.Call, in wire.Span) time.Time {
	if in.To.After(c.Now()) {
		return c.Now()
	}
	return in.To
}

// countryView holds the fans and the income of one country.
type countryView struct {
	Country string       `json:"country"`
	Active  int          `json:"active_subscribers"` // at the end
	New     int          `json:"new_subscribers"`
	Gross   view.Dollars `json:"gross"`
	Net     view.Dollars `json:"net"`
}

// countries lists fans and income by country, highest income first.
func countries(c *wire.Call, in wire.Span) (any, error) {
	byName := map[string]*countryView{}
	of := func(p *row.Person) *countryView {
		if byName[p.Country] == nil {
			byName[p.Country] = &countryView{Country: p.Country}
		}
		return byName[p.Country]
	}
	end := last(c, in)
	for _, p := range c.People().All() {
		for _, s := range subscribed(p.Sub) {
			if !s.continues && in.Has(s.from) {
				of(p).New++
			}
		}
		if subscribedAt(p.Sub, end) {
			of(p).Active++
		}
	}
	for _, t := range c.Txs().All() {
		if p := c.People().Get(t.Person); p != nil && counts(t) && in.Has(t.At) {
			of(p).Gross += view.Dollars(t.Gross)
			of(p).Net += view.Dollars(t.Net())
		}
	}
	list := []*countryView{}
	for _, one := range byName {
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b *countryView) int {
		return cmp.Or(cmp.Compare(b.Gross, a.Gross), cmp.Compare(b.Active, a.Active), cmp.Compare(a.Country, b.Country))
	})
	return wire.Whole(list[:min(len(list), c.Limit())], func(v *countryView) any { return v }), nil
}
