package people

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func fanRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /fans", Handle: listFans},
		{Pattern: "GET /fans/latest", Handle: latestFans},
		{Pattern: "GET /fans/top", Handle: topFans},
		{Pattern: "GET /fans/{user_id}", Handle: wire.Show(fan, view.Fan)},
		{Pattern: "GET /fans/{user_id}/periods", Handle: wire.On(fan, fanPeriods)},
		{Pattern: "GET /fans/{user_id}/spending", Handle: wire.On(wire.User, fanSpend)},
		{Pattern: "PUT /fans/{user_id}/alias", Handle: wire.ReadOn(wire.User, setAlias)},
		{Pattern: "GET /fans/{user_id}/note", Handle: wire.On(wire.User, getNote)},
		{Pattern: "PUT /fans/{user_id}/note", Handle: wire.ReadOn(wire.User, setNote)},
		{Pattern: "DELETE /fans/{user_id}/note", Handle: changePerson(clearNote)},
		{Pattern: "PUT /fans/{user_id}/discount", Handle: wire.ReadOn(wire.User, setDiscount)},
		{Pattern: "DELETE /fans/{user_id}/discount", Handle: changePerson(removeDiscount)},
		{Pattern: "POST /fans/{user_id}/free-days", Handle: wire.ReadOn(fan, addFreeDays)},
	}
}

// soon is how long before its end a subscription without renewal counts as ending.
const soon = 7 * day

func listFans(c *wire.Call) (any, error) {
	state, query, now := c.Query("status"), strings.ToLower(c.Query("q")), c.Now()
	rows := wire.Filter(c.People().All(), func(p *row.Person) bool { return p.Sub != nil && inState(p.Sub, state, now) && named(p, query) })
	order := wire.Order[*row.Person]{}
	switch c.Query("sort") {
	case "spend":
		order.Rank = func(p *row.Person) int64 { return c.Spent(p.ID).Total }
	case "expiring":
		order.Up = true
		order.Rank = func(p *row.Person) int64 {
			if p.Sub.Until.IsZero() {
				return math.MaxInt64
			}
			return p.Sub.Until.UnixMilli()
		}
	default:
		order.Rank = func(p *row.Person) int64 { return p.Sub.Since.UnixMilli() }
	}
	return wire.Page(c, rows, order, func(p *row.Person) any { return view.Fan(c.Creator, p) })
}

// inState reports whether a subscription belongs to a tab of the list of fans.
func inState(s *row.Subscription, state string, now time.Time) bool {
	switch state {
	case "all":
		return true
	case "expired":
		return !s.Active(now)
	case "ending":
		return s.Active(now) && !s.AutoRenew && !s.Until.IsZero() && s.Until.Before(now.Add(soon))
	}
	return s.Active(now)
}

// latestFans lists fans by the start of their latest period. A first period counts as new, any other as renewed.
func latestFans(c *wire.Call) (any, error) {
	kind, in := c.Query("type"), wire.Span{From: c.QueryTime("from"), To: c.QueryTime("to")}
	rows := wire.Filter(c.People().All(), func(p *row.Person) bool {
		if p.Sub == nil || len(p.Sub.Periods) == 0 || !in.Has(latestPeriod(p)) {
			return false
		}
		first := len(p.Sub.Periods) == 1
		return kind != "new" && kind != "renewed" || first == (kind == "new")
	})
	order := wire.Order[*row.Person]{Rank: func(p *row.Person) int64 { return latestPeriod(p).UnixMilli() }}
	return wire.Page(c, rows, order, func(p *row.Person) any { return view.Fan(c.Creator, p) })
}

func latestPeriod(p *row.Person) time.Time { return p.Sub.Periods[len(p.Sub.Periods)-1].From }

// days returns the span between two days of the query, including both. A span that ends before it starts is empty.
func days(c *wire.Call) wire.Span {
	in := wire.Span{From: c.QueryTime("from"), To: c.QueryTime("to")}
	if !in.To.IsZero() {
		in.To = in.To.Truncate(day).Add(day - time.Millisecond)
	}
	return in
}

// spending returns a function that reports what a person paid within a span. Without a span it uses the stored totals.
func spending(c *world.Creator, in wire.Span) func(person int64) world.Spend {
	if in == (wire.Span{}) {
		return c.Spent
	}
	all := map[int64]*world.Spend{}
	for _, t := range c.Txs().All() {
		if t.Person == 0 || t.Status == "reversed" || !in.Has(t.At) {
			continue
		}
		if all[t.Person] == nil {
			all[t.Person] = &world.Spend{}
		}
		all[t.Person].Add(t)
	}
	return func(person int64) world.Spend {
		if s := all[person]; s != nil {
			return *s
		}
		return world.Spend{}
	}
}

func topFans(c *wire.Call) (any, error) {
	in := days(c)
	spent := spending(c.Creator, in)
	part := func(p *row.Person) int64 {
		s := spent(p.ID)
		switch c.Query("by") {
		case "subscriptions":
			return s.Subscriptions
		case "messages":
			return s.Messages
		case "posts":
			return s.Posts
		case "tips":
			return s.Tips
		}
		return s.Total
	}
	rows := wire.Filter(c.People().All(), func(p *row.Person) bool { return part(p) > 0 })
	return wire.Page(c, rows, wire.Order[*row.Person]{Rank: part}, func(p *row.Person) any {
		return view.Spend(c.Creator, p, spent(p.ID), in.From, in.To)
	})
}

// fan returns the person named in the path, who must be or have been a subscriber.
func fan(c *wire.Call) (*row.Person, error) {
	p, err := c.Person("user_id")
	if err != nil {
		return nil, err
	}
	if p.Sub == nil {
		return nil, wire.NotFound("fan")
	}
	return p, nil
}

func fanPeriods(c *wire.Call, p *row.Person) (any, error) {
	return periods(c, p.Sub)
}

// periods lists the periods of a subscription, latest first.
func periods(c *wire.Call, s *row.Subscription) (any, error) {
	var rows []period
	for n, p := range s.Periods {
		rows = append(rows, period{p, int64(n + 1)})
	}
	order := wire.Order[period]{Rank: func(p period) int64 { return p.From.UnixMilli() }}
	return wire.Page(c, rows, order, func(p period) any { return view.Period(c.Creator, p.Period) })
}

// period is a period with its number, which serves as the key for paging.
type period struct {
	row.Period
	n int64
}

func (p period) Key() int64 { return p.n }

func fanSpend(c *wire.Call, p *row.Person) (any, error) {
	in := days(c)
	return view.Spend(c.Creator, p, spending(c.Creator, in)(p.ID), in.From, in.To), nil
}

type setAliasInput struct {
	Alias string `json:"alias"`
}

func setAlias(c *wire.Call, p *row.Person, in *setAliasInput) (any, error) {
	if utf8.RuneCountInString(in.Alias) > 100 {
		return nil, wire.Invalid("alias", "An alias must have at most 100 characters.")
	}
	p.CustomName = in.Alias
	c.People().Put(p)
	return in, nil
}

// note is the creator's note about a person.
type note struct {
	Text *string    `json:"note"`
	At   view.Stamp `json:"updated_at"`
}

func showNote(p *row.Person) note {
	n := note{At: view.Stamp(p.NoteAt)}
	if !p.NoteAt.IsZero() {
		n.Text = &p.Note
	}
	return n
}

func getNote(_ *wire.Call, p *row.Person) (any, error) {
	return showNote(p), nil
}

type setNoteInput struct {
	Note string `json:"note"`
}

func setNote(c *wire.Call, p *row.Person, in *setNoteInput) (any, error) {
	if utf8.RuneCountInString(in.Note) > 5000 {
		return nil, wire.Invalid("note", "A note must have at most 5000 characters.")
	}
	p.Note, p.NoteAt = in.Note, c.Now()
	c.People().Put(p)
	return showNote(p), nil
}

func clearNote(_ *wire.Call, p *row.Person) { p.Note, p.NoteAt = "", time.Time{} }

type setDiscountInput struct {
	Percent int        `json:"percent"`
	Ends    view.Stamp `json:"expires_at"`
}

func setDiscount(c *wire.Call, p *row.Person, in *setDiscountInput) (any, error) {
	if in.Percent < 5 || in.Percent > 100 {
		return nil, wire.Invalid("percent", "A discount must be 5 to 100 percent.")
	}
	p.Discount = &row.Discount{Percent: in.Percent, EndsAt: time.Time(in.Ends)}
	c.People().Put(p)
	return view.DiscountOff{Percent: in.Percent, Ends: in.Ends}, nil
}

func removeDiscount(_ *wire.Call, p *row.Person) { p.Discount = nil }

type addFreeDaysInput struct {
	Days int `json:"days"`
}

// addFreeDays adds free days to the end of a subscription. A subscription that has ended starts again.
func addFreeDays(c *wire.Call, p *row.Person, in *addFreeDaysInput) (any, error) {
	if in.Days < 1 || in.Days > 365 {
		return nil, wire.Invalid("days", "You can give 1 to 365 free days.")
	}
	switch {
	case !p.Sub.Active(c.Now()):
		terms := Terms{Kind: "free", Months: in.Days / 30, Days: in.Days, SourceKind: "profile"}
		if err := Subscribe(c.Creator, p, terms); err != nil {
			return nil, wire.Conflict("You have blocked this user.")
		}
		p.Sub.AutoRenew = false
	case !p.Sub.Until.IsZero(): // a subscription without an end needs no days
		extend(p.Sub, time.Duration(in.Days)*day, "free")
	}
	c.People().Put(p)
	return view.Fan(c.Creator, p), nil
}
