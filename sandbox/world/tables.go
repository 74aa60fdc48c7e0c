package world

import (
	"encoding/binary"
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
)

// tables holds a creator's tables. Each is created on first use.
type tables struct {
	people         *Table[row.Person, *row.Person]
	lists          *Table[row.List, *row.List]
	txs            *Table[row.Tx, *row.Tx]
	spent          map[int64]*Spend  // by person
	paid           map[int64][]int64 // ids of transactions by the object paid for
	chats          *Table[row.Chat, *row.Chat]
	messages       map[int64]*Table[row.Message, *row.Message] // by chat
	masses         *Table[row.Mass, *row.Mass]
	posts          *Table[row.Post, *row.Post]
	comments       map[int64]*Table[row.Comment, *row.Comment] // by post
	labels         *Table[row.Label, *row.Label]
	stories        *Table[row.Story, *row.Story]
	highlights     *Table[row.Highlight, *row.Highlight]
	streams        *Table[row.Stream, *row.Stream]
	streamComments map[int64]*Table[row.Comment, *row.Comment] // by stream
	media          *Table[row.Media, *row.Media]
	folders        *Table[row.Folder, *row.Folder]
	uploads        *Table[row.Upload, *row.Upload]
	drafts         *Table[row.Draft, *row.Draft]
	tracking       *Table[row.Link, *row.Link]
	trials         *Table[row.Link, *row.Link]
	promotions     *Table[row.Promotion, *row.Promotion]
	bundles        *Table[row.Bundle, *row.Bundle]
	payouts        *Table[row.Payout, *row.Payout]
	notices        *Table[row.Notice, *row.Notice]
	social         *Table[row.SocialLink, *row.SocialLink]
	forms          *Table[row.Form, *row.Form]
	settings       *Table[row.Settings, *row.Settings]
}

// lazily creates a table on first use.
func lazily[T any, P keyed[T]](c *Creator, slot **Table[T, P], kind row.Kind, seeded func(row.Origin) []P) *Table[T, P] {
	return singly(c, slot, kind, seeded, nil)
}

// singly is lazily for a table whose seeded rows can be generated one by one.
func singly[T any, P keyed[T]](c *Creator, slot **Table[T, P], kind row.Kind, all func(row.Origin) []P, one func(row.Origin, int64) P) *Table[T, P] {
	if *slot == nil {
		*slot = &Table[T, P]{c: c, kind: kind, all: func() []P { return all(c.Profile.Origin) }}
		if one != nil {
			(*slot).one = func(id int64) P { return one(c.Profile.Origin, id) }
		}
	}
	return *slot
}

// below creates the table of a parent on first use.
func below[T any, P keyed[T]](c *Creator, slot *map[int64]*Table[T, P], kind row.Kind, parent int64, seeded func() []P) *Table[T, P] {
	if *slot == nil {
		*slot = map[int64]*Table[T, P]{}
	}
	if (*slot)[parent] == nil {
		(*slot)[parent] = &Table[T, P]{c: c, kind: kind, parent: parent, all: seeded}
	}
	return (*slot)[parent]
}

// People returns all other users that the creator knows of.
func (c *Creator) People() *Table[row.Person, *row.Person] {
	return singly(c, &c.tables.people, row.KindPerson, seed.People, seed.PersonByID)
}

// Lists returns the system lists and the creator's lists.
func (c *Creator) Lists() *Table[row.List, *row.List] {
	return lazily(c, &c.tables.lists, row.KindList, seed.Lists)
}

func (c *Creator) Chats() *Table[row.Chat, *row.Chat] {
	return singly(c, &c.tables.chats, row.KindChat, seed.ChatList, seed.ChatByID)
}

func (c *Creator) Messages(chat int64) *Table[row.Message, *row.Message] {
	return below(c, &c.tables.messages, row.KindMessage, chat, func() []*row.Message {
		return seed.Messages(c.Profile.Origin, chat)
	})
}

// Spend sums up the payments of one person in cents, by purpose.
type Spend struct {
	Total, Subscriptions, Messages, Posts, Tips, Streams int64
}

func (c *Creator) Txs() *Table[row.Tx, *row.Tx] {
	return lazily(c, &c.tables.txs, row.KindTx, func(o row.Origin) []*row.Tx {
		// Use the seeded people, not the current ones, because past transactions do not change.
		return seed.Transactions(o, seed.People(o))
	})
}

// sum computes the totals of all transactions on first use.
func (c *Creator) sum() {
	if c.tables.spent != nil {
		return
	}
	c.tables.spent, c.tables.paid = map[int64]*Spend{}, map[int64][]int64{}
	for _, t := range c.Txs().All() {
		c.note(t)
	}
}

// AddTx adds a transaction with the current time. It sets the id, time and status and sends no frame.
func (c *Creator) AddTx(t *row.Tx) *row.Tx {
	txs := c.Txs()
	t.ID, t.At, t.Status = txs.NextID(), c.Now(), "pending"
	txs.Put(t)
	c.note(t)
	return t
}

// note adds a transaction to the totals, if they have been computed.
func (c *Creator) note(t *row.Tx) {
	if c.tables.spent == nil {
		return
	}
	if t.Ref != 0 {
		c.tables.paid[t.Ref] = append(c.tables.paid[t.Ref], t.ID)
	}
	if t.Person == 0 || t.Status == "reversed" {
		return
	}
	s := c.tables.spent[t.Person]
	if s == nil {
		s = &Spend{}
		c.tables.spent[t.Person] = s
	}
	s.Add(t)
}

// ReverseTx reverses a payment, which then no longer counts as spent.
func (c *Creator) ReverseTx(t *row.Tx) {
	c.sum()
	if s := c.tables.spent[t.Person]; s != nil && t.Status != "reversed" {
		back := *t
		back.Gross = -t.Gross
		s.Add(&back)
	}
	t.Status, t.Reversed = "reversed", c.Now()
	c.Txs().Put(t)
}

func (s *Spend) Add(t *row.Tx) {
	s.Total += t.Gross
	switch t.Type {
	case "subscription", "bundle":
		s.Subscriptions += t.Gross
	case "message":
		s.Messages += t.Gross
	case "post":
		s.Posts += t.Gross
	case "tip":
		s.Tips += t.Gross
	case "stream":
		s.Streams += t.Gross
	}
}

// Spent returns the total payments of a person.
func (c *Creator) Spent(person int64) Spend {
	c.sum()
	if s := c.tables.spent[person]; s != nil {
		return *s
	}
	return Spend{}
}

// Paid returns the transactions for one object, such as a post or a message, oldest first.
func (c *Creator) Paid(ref int64) []*row.Tx {
	c.sum()
	var list []*row.Tx
	for _, id := range c.tables.paid[ref] {
		list = append(list, c.Txs().Get(id))
	}
	return list
}

// Member reports whether a person is on a list. For a system list its rule decides.
func (c *Creator) Member(l *row.List, p *row.Person) bool {
	now := c.Now()
	switch l.System {
	case "":
		return slices.Contains(l.Members, p.ID)
	case "fans":
		return p.Sub.Active(now)
	case "expired":
		return p.Sub != nil && !p.Sub.Active(now)
	case "following":
		return p.Follow.Active(now)
	case "recent":
		return p.Sub != nil && p.Sub.Since.After(now.AddDate(0, 0, -7))
	case "muted":
		chat := c.Chats().Get(p.ID)
		return chat != nil && chat.Muted
	case "restricted":
		return p.Restricted
	}
	return false
}

// ChatOf returns the chat of a message, or 0 if the message does not exist.
func (c *Creator) ChatOf(message int64) int64 {
	if chat, ok := seed.ChatOfMessage(c.Profile.Origin, message); ok {
		return chat
	}
	for chat, table := range c.tables.messages {
		if table.Get(message) != nil {
			return chat
		}
	}
	prefix := append(own(c.Profile.ID, ownRow), byte(row.KindMessage))
	chat := int64(0)
	_ = c.w.deps.Store.Each(prefix, func(key, _ []byte) error {
		if rest := key[len(prefix):]; int64(binary.BigEndian.Uint64(rest[8:])) == message {
			chat = int64(binary.BigEndian.Uint64(rest))
			return errEnough
		}
		return nil
	})
	return chat
}
