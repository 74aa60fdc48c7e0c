package seed

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
)

// firstLink is the ordinal of the first link and of the first promotion. The SourceID of subscriptions relies on it.
const firstLink = 0

// TrackingLinkList returns the tracking links. All are older than their first subscriber. The last but one ended at the
// anchor.
func TrackingLinkList(o row.Origin) []*row.Link {
	names := []string{"Instagram bio", "Reddit AMA", "Podcast with Tess", "Video description", "Tour flyer", "Newsletter"}
	tags := [][]string{{"social"}, {"social", "forum"}, {"audio"}, {"social", "video"}, {"print", "tour"}, {"mail"}}
	joined := signUps(o)
	list := make([]*row.Link, TrackingLinks)
	for n := range list {
		l := link(o, row.KindTrackingLink, n, names[n%len(names)], joined)
		l.Tags = tags[n%len(tags)]
		if n == TrackingLinks-2 {
			l.Ended = o.Anchor
		}
		list[n] = l
	}
	return list
}

// TrialLinkList returns the trial links. Every seeded trial lasts a month.
func TrialLinkList(o row.Origin) []*row.Link {
	names := []string{"Free month for friends", "Collab with Mia", "Convention handout", "Comeback month"}
	joined := signUps(o)
	list := make([]*row.Link, TrialLinks)
	for n := range list {
		l := link(o, row.KindTrialLink, n, names[n%len(names)], joined)
		l.Days = int(month / day)
		switch n {
		case 1:
			l.MaxClaims = 500
		case 2:
			l.Ended = o.Anchor
		case 3:
			l.Expires = o.Anchor.Add(3 * month)
		}
		list[n] = l
	}
	return list
}

func link(o row.Origin, kind row.Kind, n int, name string, joined map[int64]map[string]int) *row.Link {
	r := random(o, kind, n)
	id := row.SeedID(o.ID, kind, firstLink+n)
	return &row.Link{
		Rec: row.Rec{ID: id}, Name: name, Code: code(kind, r), Clicks: clicks(o, r, joined[id]),
		At: o.Anchor.Add(-time.Duration(400-5*n)*day + time.Duration(r.IntN(3600))*time.Second),
	}
}

// code returns the last part of a link's URL. Tracking and trial links start with different letters, so that no two
// URLs are the same.
func code(kind row.Kind, r *rand.Rand) string {
	letter := "c"
	if kind == row.KindTrialLink {
		letter = "t"
	}
	return fmt.Sprintf("%s%05x", letter, r.IntN(1<<20))
}

// clicks returns the clicks by day: those of the people who subscribed, and some others.
func clicks(o row.Origin, r *rand.Rand, joined map[string]int) map[string]int {
	byDay := map[string]int{}
	busy := 3 + r.IntN(9)
	for at := o.Anchor.Add(-364 * day); at.Before(o.Anchor); at = at.Add(day) {
		key := at.Format(time.DateOnly)
		if n := r.IntN(busy) + joined[key]; n > 0 {
			byDay[key] = n
		}
	}
	return byDay
}

// signUps counts the fans by the source of their subscription and by day.
func signUps(o row.Origin) map[int64]map[string]int {
	all := map[int64]map[string]int{}
	for _, p := range People(o)[:Fans] {
		if p.Sub.SourceID == 0 {
			continue
		}
		byDay := all[p.Sub.SourceID]
		if byDay == nil {
			byDay = map[string]int{}
			all[p.Sub.SourceID] = byDay
		}
		byDay[p.Sub.Since.Format(time.DateOnly)]++
	}
	return all
}

// PromotionList returns the promotions. All started before the year of the seeded fans, who used each of them.
func PromotionList(o row.Origin) []*row.Promotion {
	at := o.Anchor.Add(-370*day + 9*time.Hour)
	list := []*row.Promotion{
		{Audience: "new", Percent: 30, Message: "A third off your first month.", Starts: at},
		{Audience: "both", Percent: 50, Message: "Half price for the anniversary.", Starts: at.Add(day), Ends: o.Anchor},
		{Audience: "both", Percent: 20, MaxClaims: 1000, Message: "For everyone who found me on tour.", Starts: at.Add(2 * day), Ends: o.Anchor.Add(2 * month)},
	}
	for n, p := range list {
		p.ID, p.Type = row.SeedID(o.ID, row.KindPromotion, firstLink+n), "discount"
	}
	return list
}

// Bundles returns the bundles of several months.
func Bundles(o row.Origin) []*row.Bundle {
	at := o.Anchor.Add(-380 * day)
	return []*row.Bundle{
		{Rec: row.Rec{ID: row.SeedID(o.ID, row.KindBundle, 1)}, Months: 3, Percent: 10, At: at},
		{Rec: row.Rec{ID: row.SeedID(o.ID, row.KindBundle, 2)}, Months: 6, Percent: 20, At: at},
	}
}

// Payouts returns the payouts of the past year, one per month, each of the whole dollars that were available then. One
// was cancelled and one failed; the next payout includes their amounts.
func Payouts(o row.Origin) []*row.Payout {
	const minimum, monthsAgo = 2000, 11
	txs := Transactions(o, People(o))
	var list []*row.Payout
	var earned, paid int64
	next := 0
	for n := range monthsAgo {
		at := o.Anchor.Add(-time.Duration(monthsAgo-n)*month + 10*time.Hour)
		for ; next < len(txs) && !txs[next].At.Add(7*day).After(at); next++ {
			if txs[next].Status != "reversed" {
				earned += txs[next].Net()
			}
		}
		amount := (earned - paid) / 100 * 100
		if amount < minimum {
			continue
		}
		p := &row.Payout{
			Rec: row.Rec{ID: row.SeedID(o.ID, row.KindPayout, len(list)+1)}, Amount: amount, Method: "bank",
			Status: "paid", At: at, PaidAt: at.Add(2 * day),
		}
		switch n {
		case 2:
			p.Status, p.PaidAt = "canceled", time.Time{}
		case 5:
			p.Status, p.PaidAt, p.Reason = "failed", time.Time{}, "The bank does not know this account."
		default:
			paid += amount
		}
		list = append(list, p)
	}
	return list
}

// Visitors returns how many guests without an account and how many users visited the profile on a day. There are more
// at weekends.
func Visitors(o row.Origin, at time.Time) (guests, users int) {
	r := random(o, row.KindSettings, int(at.Unix()/int64(day/time.Second)))
	guests, users = 180+r.IntN(140), 60+r.IntN(50)
	if at.Weekday() == time.Saturday || at.Weekday() == time.Sunday {
		guests, users = guests*5/4, users*5/4
	}
	return guests, users
}
