package people

import (
	"cmp"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/ledger"
	"github.com/stagedoor/stagedoor/sandbox/messages"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const (
	day   = 24 * time.Hour
	month = 30 * day
)

// Terms are the conditions of a subscription.
type Terms struct {
	Kind       string // paid, trial, bundle, free
	Price      int64  // of the whole period, in cents
	Months     int
	Days       int    // length of the period; if 0, 30 for each month
	SourceKind string // profile, tracking, trial, promotion
	SourceID   int64
}

// Usual returns the terms of a subscription through the profile: a month at the creator's price, less the person's
// discount.
func Usual(c *world.Creator, p *row.Person) Terms {
	t := Terms{Kind: "paid", Price: discounted(p, c.Profile.Price, c.Now()), Months: 1, SourceKind: "profile"}
	if t.Price == 0 {
		t.Kind = "free"
	}
	return t
}

// discounted applies a person's discount to a price.
func discounted(p *row.Person, price int64, now time.Time) int64 {
	if p.Discount.Holds(now) {
		price = price * int64(100-p.Discount.Percent) / 100
	}
	return price
}

// Subscribe starts or restarts a person's subscription. It books the payment, emits `fan.joined` or `fan.returned`,
// notifies the creator, and sends the welcome message to a new fan.
func Subscribe(c *world.Creator, p *row.Person, t Terms) error {
	now := c.Now()
	switch {
	case p.Sub.Active(now):
		return fmt.Errorf("user %d is already subscribed", p.ID)
	case p.Blocked:
		return fmt.Errorf("user %d is blocked", p.ID)
	}
	t.Days = cmp.Or(t.Days, t.Months*30)
	old := p.Sub
	until := now.Add(time.Duration(max(t.Days, 1)) * day)
	p.Sub = &row.Subscription{Since: now, AutoRenew: true, Price: c.Profile.Price, SourceKind: t.SourceKind, SourceID: t.SourceID, Until: until}
	if old != nil {
		p.Sub.Since, p.Sub.Periods = old.Since, old.Periods
		if t.SourceKind == "profile" {
			p.Sub.SourceKind, p.Sub.SourceID = old.SourceKind, old.SourceID
		}
	}
	p.Sub.Periods = append(p.Sub.Periods, row.Period{From: now, To: until, Price: t.Price, Kind: t.Kind, Months: t.Months})
	p.LastSeen = now
	c.People().Put(p)
	countFans(c, 1)
	if t.Price > 0 {
		ledger.Book(c, &row.Tx{Type: txType(t.Kind), Gross: t.Price, Person: p.ID})
	}
	if old != nil {
		c.Emit(frameReturned, map[string]any{
			"user": view.Person(c, p), "price": view.Dollars(t.Price), "lapsed_days": int(now.Sub(old.Until) / day), "expires_at": view.Stamp(until),
		})
		notify(c, p, " subscribed again.")
		return nil
	}
	c.Emit(frameJoined, map[string]any{
		"user": view.Person(c, p), "price": view.Dollars(t.Price), "type": view.PeriodWord(t.Kind), "months": t.Months,
		"expires_at": view.Stamp(until), "source": view.Source(p.Sub),
	})
	notify(c, p, " subscribed.")
	messages.Welcome(c, p)
	return nil
}

func notify(c *world.Creator, p *row.Person, what string) {
	ledger.Notify(c, &row.Notice{Type: "subscriptions", Text: ledger.Name(p) + what, Person: p.ID})
}

// countFans adjusts the stored number of active subscriptions, so that reads need not count them.
func countFans(c *world.Creator, n int) {
	c.Profile.Fans += n
	c.SaveProfile()
}

func txType(kind string) string {
	if kind == "bundle" {
		return "bundle"
	}
	return "subscription"
}

// renew adds a month to the end of a subscription. The payment is booked at the given time.
func renew(c *world.Creator, p *row.Person, at time.Time) {
	s := p.Sub
	price, kind := discounted(p, s.Price, at), "paid"
	if price == 0 {
		kind = "free"
	}
	from := s.Until
	s.Until = from.Add(month)
	s.Periods = append(s.Periods, row.Period{From: from, To: s.Until, Price: price, Kind: kind, Months: 1})
	c.People().Put(p)
	if price > 0 {
		bookAt(c, &row.Tx{Type: "subscription", Gross: price, Person: p.ID}, at)
	}
	c.Emit(frameRenewed, map[string]any{
		"user": view.Person(c, p), "price": view.Dollars(price), "expires_at": view.Stamp(s.Until), "renewals": len(s.Periods) - 1,
	})
}

// bookAt is like ledger.Book, but books the payment at an earlier time.
func bookAt(c *world.Creator, t *row.Tx, at time.Time) {
	c.AddTx(t)
	t.At = at
	c.Txs().Put(t)
	c.Emit("money.received", map[string]any{"transaction": view.CurrentTx(c, t)})
}

// end marks a subscription as ended and sends the frame.
func end(c *world.Creator, p *row.Person) {
	p.Sub.Ended, p.Sub.AutoRenew = true, false
	c.People().Put(p)
	countFans(c, -1)
	c.Emit(frameLeft, map[string]any{
		"user": view.Person(c, p), "expired_at": view.Stamp(p.Sub.Until), "spent_total": view.Dollars(c.Spent(p.ID).Total),
	})
}

func cut(s *row.Subscription, now time.Time) {
	s.Until = now
	if n := len(s.Periods); n > 0 && s.Periods[n-1].To.After(now) {
		s.Periods[n-1].To = now
	}
}

// setRenewal switches the renewal of a fan's subscription on or off and sends the frame.
func setRenewal(c *world.Creator, p *row.Person, on bool) {
	p.Sub.AutoRenew = on
	c.People().Put(p)
	c.Emit(frameRebill, map[string]any{"user": view.Person(c, p), "is_rebill_on": on})
}
