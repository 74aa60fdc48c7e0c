package messages

import (
	"cmp"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Who or what sent a message of the creator's, in the platform's words.
const (
	byWeb     = "web"
	byPhone   = "app"
	byMass    = "bulk"
	byWelcome = "auto"
)

// find is the chat with a person; nil if there is none. Messages to many that wait for a chat make one.
func find(c *world.Creator, person int64) *row.Chat {
	if chat := c.Chats().Get(person); chat != nil {
		return chat
	}
	if c.People().Get(person) == nil {
		return nil
	}
	return unfold(c, person)
}

// begin is find, but makes a chat if there is none.
func begin(c *world.Creator, person int64) *row.Chat {
	if chat := find(c, person); chat != nil {
		return chat
	}
	return &row.Chat{Rec: row.Rec{ID: person}}
}

// add puts a message at the end of a chat, which comes back if it was hidden.
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

// messageSent is the frame of a message of the creator's.
type messageSent struct {
	Message view.MessageView `json:"message"`
	Origin  string           `json:"origin"`
}

// send puts a message of the creator's into a chat and tells the sockets.
func send(c *world.Creator, chat *row.Chat, m *row.Message, origin string) view.MessageView {
	m.Mine = true
	add(c, chat, m)
	v := view.Message(c, m)
	c.Emit(frameSent, messageSent{Message: v, Origin: origin})
	return v
}

// Welcome greets a new fan, if the creator wants that.
func Welcome(c *world.Creator, p *row.Person) {
	s := c.Settings()
	if !s.WelcomeOn || p.Blocked {
		return
	}
	m := &row.Message{Text: s.WelcomeText, Media: slices.Clone(s.WelcomeMedia), Price: s.WelcomePrice}
	send(c, begin(c, p.ID), m, byWelcome)
}

// Receive puts a fan's message into a chat and tells the sockets.
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

// seen notes that a person is there: whoever does something is seen.
func seen(c *world.Creator, p *row.Person) {
	p.LastSeen = c.Now()
	c.People().Put(p)
}

// tellCounts tells those who listen what waits for the creator.
func tellCounts(c *world.Creator) {
	if c.Sockets() > 0 {
		c.Flash(frameCounts, view.Counts(c, nil))
	}
}

// remove takes a message out of its chat. by is creator or fan.
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

// unreadIn says whether a message is among the last n that the fan wrote.
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

// read marks chats as read and tells the sockets; of all chats, if there is no one chat.
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

// unfold puts the messages to many that wait for a person into a chat, the oldest first; nil if none waits.
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

// copyOf is what one recipient gets of a message to many.
func copyOf(m *row.Mass, at time.Time) *row.Message {
	return &row.Message{
		Mine: true, Text: m.Text, Media: slices.Clone(m.Media), Previews: slices.Clone(m.Previews), Price: m.Price, TextLocked: m.Locked, Mass: m.ID, At: at,
	}
}
