package world

import (
	"encoding/binary"
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
)

// tables holds what was loaded of a creator.
type tables struct {
	loaded map[tableKey]any  // pointers to Table
	spent  map[int64]*Spend  // by person
	paid   map[int64][]int64 // ids of transactions by the object paid for
}

// tableKey identifies a table of a creator. parent is the chat of messages or the object of comments, otherwise 0.
type tableKey struct {
	kind   row.Kind
	parent int64
}

// table returns a table of a creator. It creates the table on first use. all generates the rows of the seed.
func table[T any, P keyed[T]](c *Creator, kind row.Kind, all func(row.Origin) []P) *Table[T, P] {
	t := tableOf[T, P](c, tableKey{kind, 0})
	t.all = all
	return t
}

// tableBelow is table for the rows of a parent.
func tableBelow[T any, P keyed[T]](
	c *Creator, kind row.Kind, parent int64, all func(row.Origin, int64) []P,
) *Table[T, P] {
	t := tableOf[T, P](c, tableKey{kind, parent})
	t.below = all
	return t
}

func tableOf[T any, P keyed[T]](c *Creator, key tableKey) *Table[T, P] {
	if t, ok := c.tables.loaded[key].(*Table[T, P]); ok {
		return t
	}
	if c.tables.loaded == nil {
		c.tables.loaded = map[tableKey]any{}
	}
	t := &Table[T, P]{c: c, tableKey: key}
	c.tables.loaded[key] = t
	return t
}

// People returns all other users that the creator knows of.
func (c *Creator) People() *Table[row.Person, *row.Person] {
	t := table(c, row.KindPerson, seed.People)
	t.one = seed.PersonByID
	return t
}

// Lists returns the system lists and the creator's lists.
func (c *Creator) Lists() *Table[row.List, *row.List] {
	return table(c, row.KindList, seed.Lists)
}

func (c *Creator) Chats() *Table[row.Chat, *row.Chat] {
	t := table(c, row.KindChat, seed.ChatList)
	t.one = seed.ChatByID
	return t
}

func (c *Creator) Messages(chat int64) *Table[row.Message, *row.Message] {
	return tableBelow(c, row.KindMessage, chat, seed.Messages)
}

// Spend sums up the payments of one person in cents, by purpose.
type Spend struct {
	Total, Subscriptions, Messages, Posts, Tips, Streams int64
}

func (c *Creator) Txs() *Table[row.Tx, *row.Tx] {
	return table(c, row.KindTx, func(o row.Origin) []*row.Tx {
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
	for key, loaded := range c.tables.loaded {
		if t, ok := loaded.(*Table[row.Message, *row.Message]); ok && t.Get(message) != nil {
			return key.parent
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
