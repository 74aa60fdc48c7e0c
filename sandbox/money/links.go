package money

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// linkKind implements what tracking and trial links have in common. Its name is the SourceKind of the subscriptions
// that come through the links.
type linkKind struct {
	name   string
	letter string // first letter of the link codes
	table  func(*world.Creator) *world.Table[row.Link, *row.Link]
}

var (
	tracking = linkKind{"tracking", "c", (*world.Creator).TrackingLinks}
	trials   = linkKind{"trial", "t", (*world.Creator).TrialLinks}
)

func (k linkKind) routes(path string) []wire.Route {
	one := path + "/{link_id}"
	return []wire.Route{
		{Pattern: "GET " + path, Handle: k.list},
		{Pattern: "POST " + path, Handle: wire.Read(k.create)},
		{Pattern: "GET " + one, Handle: wire.On(k.found, k.get)},
		{Pattern: "PATCH " + one, Handle: wire.ReadOn(k.found, k.update)},
		{Pattern: "DELETE " + one, Handle: wire.Remove(k.found, k.table)},
		{Pattern: "GET " + one + "/stats", Handle: wire.On(k.found, k.stats)},
		{Pattern: "GET " + one + "/subscribers", Handle: wire.On(k.found, k.subscribers)},
		{Pattern: "GET " + one + "/spenders", Handle: wire.On(k.found, k.spenders)},
		{Pattern: "PUT " + one + "/shares/{user_id}", Handle: wire.Set(k.found, k.setShare, true)},
		{Pattern: "DELETE " + one + "/shares/{user_id}", Handle: wire.Set(k.found, k.setShare, false)},
	}
}

func trialRoutes() []wire.Route {
	return []wire.Route{{Pattern: "POST /trial_links/{link_id}/finish", Handle: wire.On(trials.found, finishTrial)}}
}

// yields returns the results of the links (or promotions) of a kind within a span, by id: the subscriptions that
// started in the span, and what all of a link's subscribers paid in the span.
func yields(c *world.Creator, source string, in wire.Span) map[int64]view.Yield {
	all, from := map[int64]view.Yield{}, map[int64]int64{}
	for _, p := range c.People().All() {
		if p.Sub == nil || p.Sub.SourceKind != source {
			continue
		}
		from[p.ID] = p.Sub.SourceID
		if y := all[p.Sub.SourceID]; in.Has(cameAt(p)) {
			y.Subscribers++
			if p.Sub.Active(c.Now()) {
				y.Active++
			}
			all[p.Sub.SourceID] = y
		}
	}
	for _, t := range c.Txs().All() {
		if link, ok := from[t.Person]; ok && counts(t) && in.Has(t.At) {
			y := all[link]
			y.Revenue += t.Gross
			all[link] = y
		}
	}
	return all
}

// cameAt returns when a person's current or last subscription started, not counting renewals.
func cameAt(p *row.Person) time.Time {
	for _, s := range slices.Backward(subscribed(p.Sub)) {
		if !s.continues {
			return s.from
		}
	}
	return p.Sub.Since
}

// clicked counts the clicks on a link within a span, in whole days.
func clicked(l *row.Link, in wire.Span) int {
	from, to := in.From.Format(time.DateOnly), in.To.Format(time.DateOnly)
	n := 0
	for at, clicks := range l.Clicks {
		if (in.From.IsZero() || at >= from) && (in.To.IsZero() || at <= to) {
			n += clicks
		}
	}
	return n
}

// running reports whether a link can still be used.
func (k linkKind) running(l *row.Link, y view.Yield, now time.Time) bool {
	return l.Ended.IsZero() && (l.Expires.IsZero() || l.Expires.After(now)) && (l.MaxClaims == 0 || y.Subscribers < l.MaxClaims)
}

func (k linkKind) list(c *wire.Call) (any, error) {
	state, query, now := c.Query("state"), strings.ToLower(c.Query("q")), c.Now()
	came := yields(c.Creator, k.name, wire.Span{})
	rows := wire.Filter(k.table(c.Creator).All(), func(l *row.Link) bool {
		return (state == "all" || (state == "finished") != k.running(l, came[l.ID], now)) && strings.Contains(strings.ToLower(l.Name), query)
	})
	order := wire.Order[*row.Link]{}
	switch c.Query("sort") {
	case "clicks":
		order.Rank = func(l *row.Link) int64 { return int64(clicked(l, wire.Span{})) }
	case "subscribers":
		order.Rank = func(l *row.Link) int64 { return int64(came[l.ID].Subscribers) }
	case "revenue":
		order.Rank = func(l *row.Link) int64 { return came[l.ID].Revenue }
	default:
		order.Rank = func(l *row.Link) int64 { return l.At.UnixMilli() }
	}
	return wire.Page(c, rows, order, func(l *row.Link) any { return show(c, l, came[l.ID]) })
}

func show(c *wire.Call, l *row.Link, y view.Yield) view.LinkView {
	y.Clicks = clicked(l, wire.Span{})
	return view.Link(c.Creator, l, y)
}

// found returns the link named in the path.
func (k linkKind) found(c *wire.Call) (*row.Link, error) {
	return wire.Found(k.name+" link", k.table(c.Creator).Get(c.ID("link_id")))
}

// answer returns the view of a link with its current results.
func (k linkKind) answer(c *wire.Call, l *row.Link) (any, error) {
	return show(c, l, yields(c.Creator, k.name, wire.Span{})[l.ID]), nil
}

func (k linkKind) get(c *wire.Call, l *row.Link) (any, error) {
	return k.answer(c, l)
}

type linkInput struct {
	Name      string     `json:"title"`
	Tags      []string   `json:"tags"`
	Days      int        `json:"trial_days"`
	MaxClaims int        `json:"claims_limit"`
	Expires   view.Stamp `json:"expires_at"`
}

func (k linkKind) create(c *wire.Call, in *linkInput) (any, error) {
	if n := utf8.RuneCountInString(in.Name); n < 1 || n > 64 {
		return nil, wire.Invalid("title", "A link's title must have 1 to 64 characters.")
	}
	l := &row.Link{Rec: row.Rec{ID: k.table(c.Creator).NextID()}, Name: in.Name, Tags: in.Tags, At: c.Now()}
	if k.name == trials.name {
		if in.Days < 1 || in.Days > 365 {
			return nil, wire.Invalid("trial_days", "A trial must last 1 to 365 days.")
		}
		// A missing or negative limit means no limit.
		l.Days, l.MaxClaims, l.Expires = in.Days, max(in.MaxClaims, 0), time.Time(in.Expires)
	}
	l.Code = k.letter + strconv.FormatInt(l.ID%row.SeedID(0, 1, 0), 36)
	k.table(c.Creator).Put(l)
	return k.answer(c, l)
}

// update changes the given fields. The title cannot be removed.
func (k linkKind) update(c *wire.Call, l *row.Link, in *linkInput) (any, error) {
	l.Name = cmp.Or(in.Name, l.Name)
	if c.Has("tags") {
		l.Tags = in.Tags
	}
	k.table(c.Creator).Put(l)
	return k.answer(c, l)
}

func finishTrial(c *wire.Call, l *row.Link) (any, error) {
	if l.Ended.IsZero() {
		l.Ended = c.Now()
		c.TrialLinks().Put(l)
	}
	return trials.answer(c, l)
}

func (k linkKind) stats(c *wire.Call, l *row.Link) (any, error) {
	in := span(c)
	return linkStats(c, l.ID, k.name, l.Name, withClicks(yields(c.Creator, k.name, in)[l.ID], clicked(l, in))), nil
}

func withClicks(y view.Yield, clicks int) view.Yield {
	y.Clicks = clicks
	return y
}

func linkStats(c *wire.Call, id int64, kind, name string, y view.Yield) view.LinkStatsView {
	v := view.LinkStatsView{
		ID: id, Kind: kind, Name: name, Clicks: y.Clicks, Subscribers: y.Subscribers, Active: y.Active, Revenue: view.Dollars(y.Revenue),
		From: given(c, "from"), To: given(c, "to"),
	}
	if y.Clicks > 0 {
		v.Rate = math.Round(float64(y.Subscribers)/float64(y.Clicks)*10_000) / 10_000
	}
	return v
}

// given returns a query parameter, or nil if it was not sent.
func given(c *wire.Call, name string) *string {
	if text := c.Query(name); text != "" {
		return &text
	}
	return nil
}

// cameBy returns the people who subscribed through a link or a promotion.
func cameBy(c *world.Creator, source string, id int64) []*row.Person {
	return wire.Filter(c.People().All(), func(p *row.Person) bool {
		return p.Sub != nil && p.Sub.SourceKind == source && p.Sub.SourceID == id
	})
}

// showFans lists fans by when they subscribed, latest first.
func showFans(c *wire.Call, fans []*row.Person) (any, error) {
	order := wire.Order[*row.Person]{Rank: func(p *row.Person) int64 { return cameAt(p).UnixMilli() }}
	return wire.Page(c, fans, order, func(p *row.Person) any { return view.Fan(c.Creator, p) })
}

func (k linkKind) subscribers(c *wire.Call, l *row.Link) (any, error) {
	return showFans(c, cameBy(c.Creator, k.name, l.ID))
}

// spenders lists a link's subscribers who paid anything, or at least min_spend.
func (k linkKind) spenders(c *wire.Call, l *row.Link) (any, error) {
	var least view.Dollars
	if text := c.Query("min_spend"); text != "" && least.UnmarshalJSON([]byte(text)) != nil {
		return nil, wire.Invalid("min_spend", "This is not an amount in dollars, such as 12.5.")
	}
	total := func(p *row.Person) int64 { return c.Spent(p.ID).Total }
	rows := wire.Filter(cameBy(c.Creator, k.name, l.ID), func(p *row.Person) bool {
		return total(p) > 0 && total(p) >= int64(least)
	})
	return wire.Page(c, rows, wire.Order[*row.Person]{Rank: total}, func(p *row.Person) any {
		return view.Spend(c.Creator, p, c.Spent(p.ID), time.Time{}, time.Time{})
	})
}

// setShare starts or stops sharing a link's results with another user.
func (k linkKind) setShare(c *wire.Call, l *row.Link, shared bool) (any, error) {
	p, err := c.Person("user_id")
	if err != nil {
		return nil, err
	}
	l.Shared = slices.DeleteFunc(slices.Clone(l.Shared), func(id int64) bool { return id == p.ID })
	if shared {
		l.Shared = append(l.Shared, p.ID)
	}
	k.table(c.Creator).Put(l)
	return map[string]bool{"is_shared": shared}, nil
}

// addClicks adds n clicks to today's count.
func (k linkKind) addClicks(c *world.Creator, l *row.Link, n int) {
	if l.Clicks == nil {
		l.Clicks = map[string]int{}
	}
	l.Clicks[c.Now().Format(time.DateOnly)] += n
	k.table(c).Put(l)
}
