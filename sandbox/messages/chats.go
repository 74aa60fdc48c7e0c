package messages

import (
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

func chatRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /chats", Handle: chats},
		{Pattern: "GET /chats/unread", Handle: unreadCounts},
		{Pattern: "POST /chats/read", Handle: readAll},
		{Pattern: "GET /chats/{chat_id}", Handle: wire.Show(chat, view.Chat)},
		{Pattern: "DELETE /chats/{chat_id}", Handle: deleteChat},
		{Pattern: "GET /chats/{chat_id}/media", Handle: wire.On(chat, chatMedia)},
		{Pattern: "PUT /chats/{chat_id}/read", Handle: change(func(c *wire.Call, chat *row.Chat) { read(c.Creator, chat) })},
		{Pattern: "DELETE /chats/{chat_id}/read", Handle: change(markUnread)},
		{Pattern: "PUT /chats/{chat_id}/mute", Handle: change(func(_ *wire.Call, chat *row.Chat) { chat.Muted = true })},
		{Pattern: "DELETE /chats/{chat_id}/mute", Handle: change(func(_ *wire.Call, chat *row.Chat) { chat.Muted = false })},
		{Pattern: "PUT /chats/{chat_id}/pin", Handle: change(func(_ *wire.Call, chat *row.Chat) { chat.Pinned = true })},
		{Pattern: "DELETE /chats/{chat_id}/pin", Handle: change(func(_ *wire.Call, chat *row.Chat) { chat.Pinned = false })},
		{Pattern: "PUT /chats/{chat_id}/hidden", Handle: change(func(_ *wire.Call, chat *row.Chat) { chat.Hidden = true })},
		{Pattern: "POST /chats/{chat_id}/typing", Handle: startTyping},
	}
}

// chat returns the chat named in the path.
func chat(c *wire.Call) (*row.Chat, error) {
	return wire.Found("chat", find(c.Creator, c.ID("chat_id")))
}

// change returns a handler that changes a chat and answers OK.
func change(do func(*wire.Call, *row.Chat)) wire.Handler {
	return wire.Change(chat, (*world.Creator).Chats, do)
}

func chats(c *wire.Call) (any, error) {
	query := strings.ToLower(c.Query("q"))
	var list *row.List
	if c.Query("list_id") != "" {
		var err error
		if list, err = wire.Found("list", c.Lists().Get(c.QueryID("list_id"))); err != nil {
			return nil, err
		}
	}
	tab := c.Query("tab")
	rows := wire.Filter(c.Chats().All(), func(one *row.Chat) bool {
		p := c.People().Get(one.ID)
		return p != nil && !one.Hidden && onTab(tab, one, p) && (list == nil || c.Member(list, p)) &&
			(query == "" || strings.Contains(strings.ToLower(p.Name+"\n"+p.Username+"\n"+p.CustomName), query))
	})
	order := wire.Order[*row.Chat]{Up: c.Query("sort") == "old", Rank: func(one *row.Chat) int64 { return one.UpdatedAt.UnixMilli() }}
	return wire.Page(c, rows, order, func(one *row.Chat) any { return view.Chat(c.Creator, one) })
}

func onTab(tab string, one *row.Chat, p *row.Person) bool {
	switch tab {
	case "unread":
		return one.Unread > 0 || one.Marked
	case "pinned":
		return one.Pinned
	case "vip":
		return one.Priority
	case "online":
		return p.Online
	}
	return true
}

// deleteChat deletes a chat and its messages. Deleting it again is harmless.
func deleteChat(c *wire.Call) (any, error) {
	p, err := c.Person("chat_id")
	if err != nil {
		return nil, err
	}
	if find(c.Creator, p.ID) != nil {
		messages := c.Messages(p.ID)
		for _, m := range slices.Clone(messages.All()) {
			messages.Delete(m.ID)
		}
		c.Chats().Delete(p.ID)
	}
	return wire.OK, nil
}

func unreadCounts(c *wire.Call) (any, error) { return view.Counts(c.Creator, nil), nil }

func readAll(c *wire.Call) (any, error) {
	return map[string]int{"count": read(c.Creator, nil)}, nil
}

func markUnread(c *wire.Call, one *row.Chat) {
	one.Marked = true
	tellCounts(c.Creator)
}

// startTyping shows the fan that the creator is typing. It sends no frame to the creator's own sockets.
func startTyping(c *wire.Call) (any, error) {
	if _, err := c.Person("chat_id"); err != nil {
		return nil, err
	}
	return wire.OK, nil
}

// sentMedia is a medium with the last message that contains it.
type sentMedia struct {
	media   *row.Media
	message *row.Message
}

// Key returns the medium's id, which orders pages.
func (m sentMedia) Key() int64 { return m.media.ID }

func chatMedia(c *wire.Call, one *row.Chat) (any, error) {
	kind, opened := c.Query("kind"), c.Query("is_opened")
	if kind == "image" {
		kind = "photo"
	}
	var rows []sentMedia
	seen := map[int64]bool{}
	for _, m := range slices.Backward(c.Messages(one.ID).All()) {
		if opened != "" && (opened == "true") != (m.Price == 0 || m.Opened) {
			continue
		}
		for _, id := range m.Media {
			medium := c.Media().Get(id)
			if medium == nil || seen[id] || (kind != "" && kind != medium.Type) {
				continue
			}
			seen[id] = true
			rows = append(rows, sentMedia{medium, m})
		}
	}
	order := wire.Order[sentMedia]{Rank: func(m sentMedia) int64 { return m.message.At.UnixMilli() }}
	return wire.Page(c, rows, order, func(m sentMedia) any { return view.Media(c.Creator, m.media) })
}
