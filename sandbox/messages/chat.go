package messages

import (
	"cmp"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Origins of a message from the creator, as the platform names them.
const (
	byWeb     = "web"
	byPhone   = "app"
	byMass    = "bulk"
	byWelcome = "auto"
)

// find returns the chat with a person, or nil. If mass messages wait for the person, it creates the chat.
func find(c *world.Creator, person int64) *row.Chat {
	if chat := c.Chats().Get(person); chat != nil {
		return chat
	}
	if c.People().Get(person) == nil {
		return nil
	}
	return unfold(c, person)
}

// begin is like find, but returns a new chat if there is none.
func begin(c *world.Creator, person int64) *row.Chat {
	if chat := find(c, person); chat != nil {
		return chat
	}
	return &row.Chat{Rec: row.Rec{ID: person}}
}

// add appends a message to a chat. A hidden chat becomes visible again.
func add(c *world.Creator, chat *row.Chat, m *row.Message) {
	messages := c.Messages(chat.ID)
	m.ID, m.Chat = messages.NextID(), chat.ID
	if m.At.IsZero() {
		m.At = c.Now()
	}
	messages.Put(m)
	chat.LastID, chat.UpdatedAt, chat.Hidden = m.ID, m.At, false
	c.Chats().Put(chat)
}

// messageSent is the frame of a message from the creator.
type messageSent struct {
	Message view.MessageView `json:"message"`
	Origin  string           `json:"origin"`
}

// send adds a message from the creator to a chat and sends its frame.
func send(c *world.Creator, chat *row.Chat, m *row.Message, origin string) view.MessageView {
	m.Mine = true
	add(c, chat, m)
	v := view.Message(c, m)
	c.Emit(frameSent, messageSent{Message: v, Origin: origin})
	return v
}

// Welcome sends the welcome message to a new fan, if the creator has switched it on.
func Welcome(c *world.Creator, p *row.Person) {
	s := c.Settings()
	if !s.WelcomeOn || p.Blocked {
		return
	}
	m := &row.Message{Text: s.WelcomeText, Media: slices.Clone(s.WelcomeMedia), Price: s.WelcomePrice}
	send(c, begin(c, p.ID), m, byWelcome)
}

// Receive adds a message from a fan to a chat and sends its frame.
func Receive(c *world.Creator, p *row.Person, m *row.Message) {
	chat := begin(c, p.ID)
	waited := chat.Unread > 0 || chat.Marked
	chat.Unread++
	add(c, chat, m)
	seen(c, p)
	c.Emit(frameMessage, map[string]any{"message": view.Message(c, m), "user": view.Person(c, p)})
	if !waited {
		tellCounts(c)
	}
}

// seen updates when a person was last active.
func seen(c *world.Creator, p *row.Person) {
	p.LastSeen = c.Now()
	c.People().Put(p)
}

// tellCounts sends the unread counts to the open sockets.
func tellCounts(c *world.Creator) {
	if c.Sockets() > 0 {
		c.Flash(frameCounts, view.Counts(c, nil))
	}
}

// remove deletes a message from its chat and sends its frame. by is creator or fan.
func remove(c *world.Creator, chat *row.Chat, m *row.Message, by string) {
	messages := c.Messages(chat.ID)
	if !m.Mine && chat.Unread > 0 && unreadIn(messages.All(), chat.Unread, m.ID) {
		chat.Unread--
	}
	messages.Delete(m.ID)
	if chat.LastID == m.ID {
		chat.LastID = 0
		if rest := messages.All(); len(rest) > 0 {
			chat.LastID = rest[len(rest)-1].ID
		}
	}
	c.Chats().Put(chat)
	c.Emit(frameRemoved, map[string]any{"chat_id": chat.ID, "message_id": m.ID, "by": by})
}

// unreadIn reports whether a message is among the last n from the fan.
func unreadIn(all []*row.Message, n int, id int64) bool {
	for _, m := range slices.Backward(all) {
		if m.Mine {
			continue
		}
		if n--; n < 0 {
			return false
		}
		if m.ID == id {
			return true
		}
	}
	return false
}

// read marks one chat, or all chats if one is nil, as read and sends the frame. It returns how many were unread.
func read(c *world.Creator, one *row.Chat) (count int) {
	chats := c.Chats().All()
	if one != nil {
		chats = []*row.Chat{one}
	}
	for _, chat := range chats {
		if chat.Unread > 0 || chat.Marked {
			chat.Unread, chat.Marked = 0, false
			c.Chats().Put(chat)
			count++
		}
	}
	frame := struct {
		Chat *int64 `json:"chat_id"`
		All  bool   `json:"all"`
	}{All: one == nil}
	if one != nil {
		frame.Chat = &one.ID
	}
	c.Emit(frameRead, frame)
	if count > 0 {
		tellCounts(c)
	}
	return count
}

// unfold creates a chat from the mass messages that wait for a person, oldest first. It returns nil if there are none.
func unfold(c *world.Creator, person int64) *row.Chat {
	var waiting []*row.Mass
	for _, m := range c.Masses().All() {
		if len(m.Waiting) == 0 {
			continue
		}
		if rest, was := without(m.Waiting, person); was {
			m.Waiting = rest
			c.Masses().Put(m)
			if !m.Unsent {
				waiting = append(waiting, m)
			}
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	slices.SortFunc(waiting, func(a, b *row.Mass) int { return cmp.Or(a.SentAt.Compare(b.SentAt), cmp.Compare(a.ID, b.ID)) })
	chat := &row.Chat{Rec: row.Rec{ID: person}}
	for _, m := range waiting {
		add(c, chat, copyOf(m, m.SentAt))
	}
	return chat
}

// copyOf returns one recipient's copy of a mass message.
func copyOf(m *row.Mass, at time.Time) *row.Message {
	return &row.Message{
		Mine: true, Text: m.Text, Media: slices.Clone(m.Media), Previews: slices.Clone(m.Previews), Price: m.Price, TextLocked: m.Locked, Mass: m.ID, At: at,
	}
}
