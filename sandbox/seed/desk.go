package seed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
)

// Numbers of notices about payments, and of unread notices.
const (
	moneyNotices  = 60
	unreadNotices = 14
)

// Notices returns the inbox: the latest payments of fans with a chat, and other notices.
func Notices(o row.Origin) []*row.Notice {
	people := People(o)
	list := append(moneyTold(o, people[:Chats]), othersTold(o, people)...)
	slices.SortStableFunc(list, func(a, b *row.Notice) int { return a.At.Compare(b.At) })
	for n, one := range list {
		one.ID = row.SeedID(o.ID, row.KindNotice, n+1)
		one.Read = n < len(list)-unreadNotices
	}
	return list
}

// moneyTold returns the notices of the latest payments of some fans. It does not look at all fans, because the inbox is
// requested often and generating all transactions of the year is slow.
func moneyTold(o row.Origin, fans []*row.Person) []*row.Notice {
	var list []*row.Notice
	for n, p := range fans {
		told := extras(o, p, n, o.Anchor.Add(-365*day))
		if last := p.Sub.Periods[len(p.Sub.Periods)-1]; last.Price > 0 {
			told = append(told, row.Tx{At: last.From, Type: "subscription", Gross: last.Price})
		}
		for _, t := range told {
			list = append(list, payment(p, t))
		}
	}
	slices.SortStableFunc(list, func(a, b *row.Notice) int { return b.At.Compare(a.At) })
	return list[:min(len(list), moneyNotices)]
}

func payment(p *row.Person, t row.Tx) *row.Notice {
	n := &row.Notice{At: t.At, Person: p.ID, RefKind: t.RefKind, Ref: t.Ref}
	who, sum := fmt.Sprintf("%s (@%s)", p.Name, p.Username), fmt.Sprintf("$%d.%02d", t.Gross/100, t.Gross%100)
	switch t.Type {
	case "tip":
		n.Type, n.Text = "tips", who+" tipped "+sum+"."
	case "subscription":
		n.Type, n.Text = "subscriptions", who+" subscribed for "+sum+"."
	default:
		n.Type, n.Text = "purchases", fmt.Sprintf("%s bought a %s for %s.", who, t.Type, sum)
	}
	return n
}

// othersTold returns the notices that are not about payments.
func othersTold(o row.Origin, people []*row.Person) []*row.Notice {
	var list []*row.Notice
	for n := range 10 {
		post := Posts - 1 - n
		fan := people[random(o, row.KindNotice, n).IntN(Fans)]
		list = append(list, &row.Notice{
			Type: "likes", Text: fmt.Sprintf("%s (@%s) liked your post.", fan.Name, fan.Username), Person: fan.ID,
			RefKind: row.KindPost, Ref: row.SeedID(o.ID, row.KindPost, post+1), At: PostAt(o, post).Add(2 * time.Hour),
		})
	}
	for n := range 6 {
		post := row.SeedID(o.ID, row.KindPost, Posts-n)
		for _, c := range Comments(o, post) {
			if who, ok := row.Ordinal(o.ID, row.KindPerson, c.Author); ok && who > 0 && who <= len(people) && c.At.Before(o.Anchor) {
				list = append(list, &row.Notice{
					Type: "comments", Text: people[who-1].Name + " commented on your post.", Person: c.Author,
					RefKind: row.KindPost, Ref: post, At: c.At,
				})
				break
			}
		}
	}
	for n := range 3 {
		other := people[Fans+n]
		list = append(list, &row.Notice{
			Type: "mentions", Text: fmt.Sprintf("%s (@%s) mentioned you in a post.", other.Name, other.Username), Person: other.ID,
			At: o.Anchor.Add(-time.Duration(3+7*n)*day + 15*time.Hour),
		})
	}
	return append(list,
		&row.Notice{
			Type: "promotions", Text: "Your promotion has ended.", RefKind: row.KindPromotion,
			Ref: row.SeedID(o.ID, row.KindPromotion, firstLink+1), At: o.Anchor,
		},
		&row.Notice{Type: "system", Text: "Your tax form was approved.", At: o.Anchor.Add(-25 * day)},
		&row.Notice{Type: "system", Text: "New: see which countries your fans come from.", At: o.Anchor.Add(-12 * day)},
		&row.Notice{Type: "system", Text: "Your payout was sent.", At: o.Anchor.Add(-month + 2*day + 10*time.Hour)},
	)
}

// SocialLinks returns the links on the profile.
func SocialLinks(o row.Origin) []*row.SocialLink {
	name := strings.ToLower(strings.Fields(Creator(o, "").Name)[0])
	list := []*row.SocialLink{
		{Label: "Instagram", URL: "https://instagram.sandbox.test/" + name},
		{Label: "Videos", URL: "https://videos.sandbox.test/@" + name},
		{Label: "Wish list", URL: "https://wishes.sandbox.test/" + name},
	}
	for n, l := range list {
		l.ID, l.At = row.SeedID(o.ID, row.KindSocialLink, n+1), o.Anchor.Add(-time.Duration(300-n)*day)
	}
	return list
}

// Settings returns the creator's initial settings.
func Settings(row.Origin) *row.Settings {
	return &row.Settings{
		Rec: row.Rec{ID: 1}, PayoutEvery: "manual",
		WelcomeText: "Welcome! So glad you are here. Tell me how you found me?",
		Preferences: map[string]bool{
			"tips": true, "subscriptions": true, "likes": false, "comments": true, "purchases": true, "mentions": true,
			"promotions": false, "system": true, "email": true, "push": true,
		},
	}
}
