package seed

import (
	"fmt"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
)

// FirstEnd is how long after the anchor the first seeded subscription ends, so that there is nothing to renew on the
// first day.
const FirstEnd = 2 * day

// touch sets what the creator has done to a person, such as blocking or a note, and whether the person is online.
func touch(o row.Origin, p *row.Person, n int) {
	p.Online = n%60 == 8
	switch {
	case n >= Fans:
		p.Blocked = p.Follow == nil && n%30 == 29
	case n%400 == 398: // their subscriptions have ended
		p.Blocked = true
	case n%250 == 121:
		p.Restricted = true
	case n%90 == 14:
		p.CustomName = strings.Fields(p.Name)[0] + " " + pick(random(o, row.KindPerson, Fans+n), nicknames)
	}
	if n < Fans && n%75 == 11 {
		p.Note, p.NoteAt = pick(random(o, row.KindPerson, 2*Fans+n), notes), o.Anchor.Add(-time.Duration(3+n%90)*day)
	}
	if n < Fans && n%160 == 33 {
		p.Discount = &row.Discount{Percent: 10 + n%4*5, EndsAt: o.Anchor.Add(90 * day)}
	}
}

var nicknames = []string{"(tour)", "(cat person)", "from the stream", "(old friend)", "(long videos)"}

var notes = []string{
	"Likes the acoustic sets. Birthday in May.", "Asked for the red dress twice.", "Tips on Fridays.", "Prefers short answers.",
	"Met at the convention; works in film.",
}

// Newcomer returns the n-th person who is not part of the seed.
func Newcomer(o row.Origin, id int64, n int) *row.Person {
	r := random(o, row.KindPerson, 1_000_000+n)
	first, last := pick(r, firstNames), pick(r, lastNames)
	return &row.Person{
		Rec: row.Rec{ID: id}, Name: first + " " + last, Country: pick(r, countries),
		Username: fmt.Sprintf("%s_%s%d", strings.ToLower(first), strings.ToLower(last[:1]), 10_000+n),
	}
}
