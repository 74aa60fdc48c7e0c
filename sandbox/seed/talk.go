package seed

import (
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
)

// perChat is the number of ids reserved for the messages of one chat.
const perChat = 10_000

// ChatList returns the chats, which are with the first fans.
func ChatList(o row.Origin) []*row.Chat {
	list := make([]*row.Chat, Chats)
	for n := range list {
		list[n] = chat(o, n)
	}
	return list
}

// ChatByID returns a seeded chat, or nil if there is none with this person.
func ChatByID(o row.Origin, id int64) *row.Chat {
	n, ok := row.Ordinal(o.ID, row.KindPerson, id)
	if n--; !ok || n < 0 || n >= Chats {
		return nil
	}
	return chat(o, n)
}

// chat generates the n-th chat.
func chat(o row.Origin, n int) *row.Chat {
	last := MessagesOf(o, n) - 1
	c := &row.Chat{
		Rec: row.Rec{ID: row.SeedID(o.ID, row.KindPerson, n+1)}, UpdatedAt: MessageAt(o, n, last), LastID: MessageID(o, n, last),
		Pinned: n == 2, Muted: n%50 == 49, Priority: n%40 == 5,
	}
	if n%12 == 3 && !mine(last) {
		c.Unread = 1
	}
	return c
}

// MessagesOf returns the number of messages in a chat.
func MessagesOf(o row.Origin, chat int) int {
	return 12 + random(o, row.KindChat, chat).IntN(40)
}

// MessageID returns the id of the i-th message of a chat.
func MessageID(o row.Origin, chat, i int) int64 {
	return row.SeedID(o.ID, row.KindMessage, chat*perChat+i+1)
}

// ChatOfMessage returns the chat of a seeded message.
func ChatOfMessage(o row.Origin, message int64) (chat int64, ok bool) {
	n, ok := row.Ordinal(o.ID, row.KindMessage, message)
	if !ok || n/perChat >= Chats {
		return 0, false
	}
	return row.SeedID(o.ID, row.KindPerson, n/perChat+1), true
}

// MessageAt returns when the i-th message of a chat was sent.
func MessageAt(o row.Origin, chat, i int) time.Time {
	fromEnd := MessagesOf(o, chat) - i
	return o.Anchor.Add(-time.Duration(chat)*7*time.Hour/6 - time.Duration(fromEnd)*9*time.Hour - time.Duration(i*i%47)*time.Minute)
}

// MessagePrice returns the price of the i-th message of a chat in cents.
func MessagePrice(_ row.Origin, chat, i int) int64 {
	if !mine(i) || i%6 != 1 {
		return 0
	}
	return int64(3+(chat+i)%8) * 100
}

// mine reports whether the i-th message is from the creator, who sends every other message.
func mine(i int) bool { return i%2 == 1 }

// Messages returns the messages of a chat, oldest first.
func Messages(o row.Origin, chat int64) []*row.Message {
	n, ok := row.Ordinal(o.ID, row.KindPerson, chat)
	if n--; !ok || n < 0 || n >= Chats {
		return nil
	}
	paid := bought(o, n)
	list := make([]*row.Message, MessagesOf(o, n))
	for i := range list {
		r := random(o, row.KindMessage, n*perChat+i)
		m := &row.Message{Rec: row.Rec{ID: MessageID(o, n, i)}, Chat: chat, Mine: mine(i), At: MessageAt(o, n, i), Text: pick(r, fanLines)}
		if m.Mine {
			m.Text = pick(r, creatorLines)
		}
		if m.Price = MessagePrice(o, n, i); m.Price > 0 {
			m.Media = []int64{row.SeedID(o.ID, row.KindMedia, 10+r.IntN(Photos-10))}
			m.Opened = paid[m.ID]
		}
		m.Liked = !m.Mine && r.IntN(5) == 0
		m.FanLiked = m.Mine && r.IntN(4) == 0
		list[i] = m
	}
	return list
}

// MassesPlanned is the number of scheduled mass messages. They follow the sent ones; a cancelled one comes last.
const MassesPlanned = 2

// MassPlannedAt returns when the n-th scheduled mass message is due, counted from 0.
func MassPlannedAt(o row.Origin, n int) time.Time {
	return o.Anchor.Add(time.Duration(45+30*n)*day + 18*time.Hour)
}

// MassList returns the mass messages: the sent ones, two scheduled ones, and a cancelled one.
func MassList(o row.Origin) []*row.Mass {
	everyone, quiet := row.SeedID(o.ID, row.KindList, 1), row.SeedID(o.ID, row.KindList, 10)
	list := make([]*row.Mass, Masses+MassesPlanned+1)
	for n := range list {
		r := random(o, row.KindMass, n)
		m := &row.Mass{Rec: row.Rec{ID: row.SeedID(o.ID, row.KindMass, n+1)}, Text: pick(r, massLines), Include: []int64{everyone}}
		if n%4 == 3 {
			m.Exclude = []int64{quiet}
		}
		if m.Price = MassPrice(n); m.Price > 0 || r.IntN(2) == 0 {
			m.Media = []int64{row.SeedID(o.ID, row.KindMedia, 10+r.IntN(Photos-10))}
		}
		switch {
		case n < Masses:
			m.State, m.At, m.SentAt = "sent", MassAt(o, n).Add(-time.Minute), MassAt(o, n)
			m.Sent = 700 + 25*n + r.IntN(60)
			m.Viewed = m.Sent * (55 + r.IntN(25)) / 100
		case n < Masses+MassesPlanned:
			m.State, m.At, m.Scheduled = "scheduled", o.Anchor.Add(-time.Duration(5-n+Masses)*day), MassPlannedAt(o, n-Masses)
		default:
			m.State, m.At, m.Scheduled = "canceled", o.Anchor.Add(-2*day), o.Anchor.Add(-day)
		}
		list[n] = m
	}
	return list
}
