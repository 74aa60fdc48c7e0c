// Package seed generates a creator's history: the people, messages, payments and likes that exist before the first
// request.
//
// It is a pure function of the creator's login and the day of its first use. Ids depend on the login only; times also
// depend on the day. The seed is not stored: records that no write has changed are generated again on every load.
package seed

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
)

// Numbers of records.
const (
	Fans      = 2000
	Followed  = 40
	Strangers = 60
	Chats     = 300
	Posts     = 120
	Photos    = 240 // media of the vault
	Streams   = 8
	Masses    = 24

	// Price is the initial price of a month in cents.
	Price = 999

	day   = 24 * time.Hour
	month = 30 * day
)

// random returns the random source for one record of a creator. The same record always gets the same numbers, in any
// order of calls.
func random(o row.Origin, kind row.Kind, n int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(o.ID), uint64(kind)<<32|uint64(n)))
}

// CreatorID returns the preferred id of a login. Another creator may already have it.
func CreatorID(login string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(login))
	return 100_000_000 + int64(h.Sum64()%800_000_000)
}

// Creator returns the profile of a login.
func Creator(o row.Origin, persona string) *row.Creator {
	r := random(o, row.KindPerson, -1)
	name := pick(r, firstNames) + " " + pick(r, lastNames)
	return &row.Creator{
		Origin: o, Persona: persona,
		Username: fmt.Sprintf("%s%d", strings.ToLower(strings.ReplaceAll(name, " ", ".")), o.ID%10_000),
		Name:     name,
		Bio:      "Dancer, early riser, bad cook. New posts on Mondays and Thursdays.",
		Location: pick(r, cities), Website: "https://links.sandbox.test/" + strings.ToLower(strings.Fields(name)[0]),
		AvatarID: row.SeedID(o.ID, row.KindMedia, 1), CoverID: row.SeedID(o.ID, row.KindMedia, 2),
		IsFan: persona == "fan", JoinedAt: o.Anchor.Add(-400*day - time.Duration(r.IntN(200))*day),
		Price: Price, Fans: Fans * 7 / 10, ExpiresRun: o.Anchor,
	}
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// People returns all seeded people, fans first.
func People(o row.Origin) []*row.Person {
	all := make([]row.Person, Fans+Followed+Strangers)
	list := make([]*row.Person, len(all))
	for n := range all {
		person(o, n, &all[n])
		list[n] = &all[n]
	}
	return list
}

// PersonByID returns a seeded person, or nil if there is none with this id.
func PersonByID(o row.Origin, id int64) *row.Person {
	n, ok := row.Ordinal(o.ID, row.KindPerson, id)
	if n--; !ok || n < 0 || n >= Fans+Followed+Strangers {
		return nil
	}
	p := new(row.Person)
	person(o, n, p)
	return p
}

// person generates the n-th person.
func person(o row.Origin, n int, p *row.Person) {
	r := random(o, row.KindPerson, n)
	first, last := pick(r, firstNames), pick(r, lastNames)
	*p = row.Person{
		Rec:  row.Rec{ID: row.SeedID(o.ID, row.KindPerson, n+1)},
		Name: first + " " + last, Username: fmt.Sprintf("%s_%s%d", strings.ToLower(first), strings.ToLower(last[:1]), n+1),
		Country: pick(r, countries), LastSeen: o.Anchor.Add(-time.Duration(r.Int64N(int64(20 * day)))),
	}
	switch {
	case n < Fans:
		p.Sub = subscription(o, r, n)
		if p.LastSeen.Before(p.Sub.Since) {
			p.LastSeen = p.Sub.Since
		}
	case n < Fans+Followed:
		p.IsCreator, p.Verified = true, true
		p.Follow = following(o, r, n-Fans)
	default:
		p.IsCreator = n%3 == 0
		p.Verified = p.IsCreator
	}
	touch(o, p, n)
}

// subscription returns the subscription of the n-th fan. Three in ten have ended. The longest have run for a year.
func subscription(o row.Origin, r *rand.Rand, n int) *row.Subscription {
	months := min(12, 1+int(r.ExpFloat64()*2.2))
	s := &row.Subscription{Price: Price, SourceKind: "profile", AutoRenew: r.IntN(10) < 7}
	switch r.IntN(10) {
	case 0:
		s.SourceKind, s.SourceID = "tracking", row.SeedID(o.ID, row.KindTrackingLink, r.IntN(TrackingLinks))
	case 1:
		s.SourceKind, s.SourceID = "trial", row.SeedID(o.ID, row.KindTrialLink, r.IntN(TrialLinks))
	case 2:
		s.SourceKind, s.SourceID = "promotion", row.SeedID(o.ID, row.KindPromotion, r.IntN(Promotions))
	}
	left := FirstEnd + time.Duration(r.Int64N(int64(month-FirstEnd))).Truncate(time.Second)
	if n%10 >= 7 {
		s.AutoRenew, s.Ended = false, true
		left = -time.Duration(r.Int64N(int64(200 * day))).Truncate(time.Second)
		months = 1 + months/2
	}
	end := o.Anchor.Add(left)
	start := end.Add(-time.Duration(months) * month)
	if earliest := o.Anchor.Add(-364 * day); start.Before(earliest) {
		start = start.Add(earliest.Sub(start).Truncate(month) + month)
	}
	for from := start; from.Before(end); from = from.Add(month) {
		p := row.Period{From: from, To: from.Add(month), Price: s.Price, Kind: "paid", Months: 1}
		if s.SourceKind == "trial" && from.Equal(start) {
			p.Kind, p.Price = "trial", 0
		}
		s.Periods = append(s.Periods, p)
	}
	s.Since, s.Until = start, end
	return s
}

// following returns the creator's subscription to the n-th followed creator. A quarter have ended, the same ones for
// every creator, because examples in the documentation need an active one.
func following(o row.Origin, r *rand.Rand, n int) *row.Subscription {
	runs := n%4 != 3
	left := FirstEnd + time.Duration(r.Int64N(int64(month-FirstEnd))).Truncate(time.Second)
	if !runs {
		left -= month
	}
	s := &row.Subscription{Until: o.Anchor.Add(left), AutoRenew: runs, Price: int64(r.IntN(4)) * 500, SourceKind: "profile", Ended: !runs}
	kind := "paid"
	if s.Price == 0 {
		kind = "free"
	}
	s.Since = s.Until.Add(-time.Duration(1+r.IntN(11)) * month)
	for from := s.Since; from.Before(s.Until); from = from.Add(month) {
		s.Periods = append(s.Periods, row.Period{From: from, To: from.Add(month), Price: s.Price, Kind: kind, Months: 1})
	}
	return s
}

// Lists returns the system lists, and a few of the creator.
func Lists(o row.Origin) []*row.List {
	at := o.Anchor.Add(-300 * day)
	system := []struct{ name, rule string }{
		{"Fans", "fans"}, {"Expired", "expired"}, {"Following", "following"}, {"Recent", "recent"}, {"Muted", "muted"}, {"Restricted", "restricted"},
	}
	var list []*row.List
	for n, s := range system {
		list = append(list, &row.List{Rec: row.Rec{ID: row.SeedID(o.ID, row.KindList, n+1)}, Name: s.name, System: s.rule, At: at})
	}
	for n, name := range []string{"VIP", "Big tippers", "Birthday in May", "Do not disturb"} {
		r := random(o, row.KindList, n)
		l := &row.List{Rec: row.Rec{ID: row.SeedID(o.ID, row.KindList, len(system)+n+1)}, Name: name, At: at.Add(time.Duration(n) * day), Pinned: n == 0}
		for range 12 + r.IntN(40) {
			member := row.SeedID(o.ID, row.KindPerson, 1+r.IntN(Fans))
			if !slices.Contains(l.Members, member) {
				l.Members = append(l.Members, member)
			}
		}
		list = append(list, l)
	}
	return list
}
