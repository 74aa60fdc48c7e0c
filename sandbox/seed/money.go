package seed

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
)

// Numbers of links and promotions.
const (
	TrackingLinks = 6
	TrialLinks    = 4
	Promotions    = 3
)

// Transactions returns the payments of the last twelve months, oldest first. Payments for subscriptions match the
// periods of the fans. Payments for posts and messages refer to posts and messages with that price.
func Transactions(o row.Origin, people []*row.Person) []*row.Tx {
	var all []row.Tx
	from := yearBefore(o)
	for n, p := range people[:Fans] {
		for _, period := range p.Sub.Periods {
			if period.Price > 0 && period.From.After(from) && period.From.Before(o.Anchor) {
				all = append(all, row.Tx{At: period.From, Type: "subscription", Gross: period.Price, Person: p.ID})
			}
		}
		all = append(all, extras(o, p, n, from)...)
	}
	for n := range 12 {
		r := random(o, row.KindReferral, n)
		all = append(all, row.Tx{At: o.Anchor.Add(-time.Duration(n)*month - day), Type: "referral", Gross: int64(500 + r.IntN(4000))})
	}
	list := make([]*row.Tx, len(all))
	for n := range all {
		list[n] = &all[n]
	}
	slices.SortStableFunc(list, func(a, b *row.Tx) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Person, b.Person), cmp.Compare(a.Type, b.Type))
	})
	for n, t := range list {
		t.ID = row.SeedID(o.ID, row.KindTx, n+1)
		t.Status = status(o, t, n)
		if t.Status == "reversed" {
			t.Reversed = t.At.Add(9 * day)
		}
	}
	return list
}

// status returns the status of a transaction: those of the last week are pending, a few were reversed, the rest are
// done.
func status(o row.Origin, t *row.Tx, n int) string {
	switch {
	case t.At.After(o.Anchor.Add(-7 * day)):
		return "pending"
	case n%331 == 330 && t.Person != 0 && t.At.Before(o.Anchor.Add(-20*day)):
		return "reversed"
	}
	return "done"
}

// yearBefore returns the start of the seeded transactions.
func yearBefore(o row.Origin) time.Time { return o.Anchor.Add(-365 * day) }

// bought returns the ids of the posts, messages and streams that the n-th fan has paid for.
func bought(o row.Origin, n int) map[int64]bool {
	var fan row.Person
	person(o, n, &fan)
	paid := map[int64]bool{}
	for _, t := range extras(o, &fan, n, yearBefore(o)) {
		if t.Type != "tip" {
			paid[t.Ref] = true
		}
	}
	return paid
}

// extras returns a fan's tips and purchases. Half of the fans have none, and two percent have many.
func extras(o row.Origin, p *row.Person, n int, from time.Time) []row.Tx {
	r := random(o, row.KindTx, n)
	count := 0
	switch class := r.IntN(100); {
	case class < 2:
		count = 15 + r.IntN(20)
	case class < 20:
		count = 2 + r.IntN(4)
	case class < 50:
		count = 1
	}
	start, end := p.Sub.Since, p.Sub.Until
	if start.Before(from) {
		start = from
	}
	if end.After(o.Anchor) {
		end = o.Anchor
	}
	span := int64(end.Sub(start) / time.Second)
	if span <= 0 {
		return nil
	}
	var list []row.Tx
	bought := map[int64]bool{}
	for range count {
		t := extra(o, r, p, n, start.Add(time.Duration(r.Int64N(span))*time.Second))
		if t.Ref != 0 && t.Type != "tip" {
			if bought[t.Ref] {
				continue
			}
			bought[t.Ref] = true
		}
		list = append(list, t)
	}
	return list
}

func extra(o row.Origin, r *rand.Rand, p *row.Person, n int, at time.Time) row.Tx {
	t := row.Tx{At: at, Type: "tip", Gross: int64(1+r.IntN(10)) * 500, Person: p.ID}
	switch r.IntN(10) {
	case 0, 1, 2:
		post := pricedPost(o, r.IntN(Posts), at)
		if post >= 0 {
			t.Type, t.RefKind, t.Ref, t.Gross = "post", row.KindPost, row.SeedID(o.ID, row.KindPost, post+1), PostPrice(post)
		}
	case 3, 4, 5:
		if n >= Chats {
			break
		}
		if i := r.IntN(MessagesOf(o, n)); MessagePrice(o, n, i) > 0 {
			t.Type, t.RefKind, t.Ref = "message", row.KindMessage, MessageID(o, n, i)
			t.Gross = MessagePrice(o, n, i)
			t.At = MessageAt(o, n, i).Add(time.Hour)
		}
	case 6:
		mass := r.IntN(Masses)
		if price := MassPrice(mass); price > 0 && MassAt(o, mass).Before(at) {
			t.Type, t.RefKind, t.Ref, t.Gross = "message", row.KindMass, row.SeedID(o.ID, row.KindMass, mass+1), price
		}
	case 7:
		t.Type, t.RefKind, t.Ref = "stream", row.KindStream, row.SeedID(o.ID, row.KindStream, 1+r.IntN(Streams-2))
		t.At = StreamAt(o, int(t.Ref%1000)-1).Add(20 * time.Minute)
	case 8:
		if post := r.IntN(Posts); PostAt(o, post).Before(at) {
			t.RefKind, t.Ref = row.KindPost, row.SeedID(o.ID, row.KindPost, post+1)
		}
	}
	return t
}

// pricedPost returns n if the n-th post has a price and was published at that time, and -1 otherwise.
func pricedPost(o row.Origin, n int, at time.Time) int {
	if PostPrice(n) == 0 || PostAt(o, n).After(at) {
		return -1
	}
	return n
}

// PostPrice returns the price of the n-th post in cents.
func PostPrice(n int) int64 {
	if n%5 != 4 {
		return 0
	}
	return int64(5+n%4*5) * 100
}

// PostAt returns when the n-th post was published. There is one every three days.
func PostAt(o row.Origin, n int) time.Time {
	return o.Anchor.Add(-time.Duration(Posts-n)*3*day + 18*time.Hour)
}

// StreamAt returns when the n-th stream starts. The last two are in the future.
func StreamAt(o row.Origin, n int) time.Time {
	return o.Anchor.Add(time.Duration(n-Streams+2)*40*day + 5*day + 20*time.Hour)
}

// MassPrice returns the price of the n-th mass message in cents.
func MassPrice(n int) int64 {
	if n%3 != 1 {
		return 0
	}
	return 1500
}

// MassAt returns when the n-th mass message was sent. There are two per month.
func MassAt(o row.Origin, n int) time.Time {
	return o.Anchor.Add(-time.Duration(Masses-n)*15*day + 12*time.Hour)
}
