// Package messages implements the conversations of the platform: chats, messages and mass messages.
//
// chat.go changes a chat, whether the creator or a fan caused it. chats.go, messages.go and mass.go are the creator's
// operations. campaign.go sends mass messages. outside.go holds what fans do.
package messages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Routes returns the operations of this package.
func Routes() []wire.Route { return slices.Concat(chatRoutes(), messageRoutes(), massRoutes()) }

// Dues returns the handlers of the timers that this package sets.
func Dues() map[string]world.Handler {
	return map[string]world.Handler{dueSend: startMass, dueDeliver: deliverMass, dueUnsend: withdrawMass}
}

// Happenings returns the happenings of this package, keyed by the frame they send.
func Happenings() map[string]fanaction.Func {
	return map[string]fanaction.Func{
		frameMessage: write, frameSent: sendFromPhone, frameSeen: see, frameRemoved: takeBack, frameLiked: likeByFan, frameUnliked: unlikeByFan,
		frameBought: buy, frameRead: readOnPhone, frameTyping: typing, frameCounts: countAgain, frameMass: sendMassFromPhone,
	}
}

// Frames of this package.
const (
	frameMessage = "chat.message"
	frameSent    = "chat.message_sent"
	frameSeen    = "chat.message_seen"
	frameRemoved = "chat.message_removed"
	frameLiked   = "chat.message_liked"
	frameUnliked = "chat.message_unliked"
	frameBought  = "chat.message_bought"
	frameRead    = "chat.read"
	frameTyping  = "chat.typing"
	frameCounts  = "counts.changed"
	frameMass    = "mass.sent"
	frameQueue   = "queue.published"
)

func messageRoutes() []wire.Route {
	return []wire.Route{
		{Pattern: "GET /chats/{chat_id}/messages", Handle: wire.On(chat, messages)},
		{Pattern: "POST /chats/{chat_id}/messages", Handle: sendMessage},
		{Pattern: "GET /chats/{chat_id}/search", Handle: wire.On(chat, searchMessages)},
		{Pattern: "GET /chats/{chat_id}/messages/{message_id}", Handle: wire.Show(message, view.Message)},
		{Pattern: "DELETE /chats/{chat_id}/messages/{message_id}", Handle: wire.On(message, unsend)},
		{Pattern: "PUT /chats/{chat_id}/messages/{message_id}/favorite", Handle: wire.Set(message, setLike, true)},
		{Pattern: "DELETE /chats/{chat_id}/messages/{message_id}/favorite", Handle: wire.Set(message, setLike, false)},
		{Pattern: "PUT /chats/{chat_id}/messages/{message_id}/pin", Handle: wire.Set(message, setPin, true)},
		{Pattern: "DELETE /chats/{chat_id}/messages/{message_id}/pin", Handle: wire.Set(message, setPin, false)},
		{Pattern: "PUT /messages/{message_id}/releases", Handle: wire.ReadOn(anywhere, tag)},
		{Pattern: "GET /messages/{message_id}/buyers", Handle: wire.On(anywhere, messageBuyers)},
	}
}

// message returns the message named in the path.
func message(c *wire.Call) (*row.Message, error) {
	one, err := chat(c)
	if err != nil {
		return nil, err
	}
	return wire.Found("message", c.Messages(one.ID).Get(c.ID("message_id")))
}

// messages lists the messages of a chat by id, which is the order of time. A page starts after the message with the id
// from_id, even if that message was deleted.
func messages(c *wire.Call, one *row.Chat) (any, error) {
	up := c.Query("sort") == "asc"
	before, after, from := c.QueryID("before_id"), c.QueryID("after_id"), c.QueryID("from_id")
	rows := wire.Filter(c.Messages(one.ID).All(), func(m *row.Message) bool {
		return (before == 0 || m.ID < before) && (after == 0 || m.ID > after) &&
			(from == 0 || (up && m.ID > from) || (!up && m.ID < from))
	})
	if !up {
		slices.Reverse(rows)
	}
	out := wire.Listing{List: []any{}}
	for _, m := range rows[:min(len(rows), c.Limit())] {
		out.List = append(out.List, view.Message(c.Creator, m))
	}
	out.More = len(rows) > len(out.List)
	return out, nil
}

func searchMessages(c *wire.Call, one *row.Chat) (any, error) {
	query := strings.ToLower(c.Query("q"))
	rows := wire.Filter(c.Messages(one.ID).All(), func(m *row.Message) bool { return strings.Contains(strings.ToLower(m.Text), query) })
	return wire.Page(c, rows, wire.Order[*row.Message]{}, func(m *row.Message) any { return view.Message(c.Creator, m) })
}

// Limits of a message: characters and attachments.
const (
	maxText  = 5000
	maxMedia = 40
)

// content is the body of a message or a mass message.
type content struct {
	Text     string       `json:"text"`
	Media    []int64      `json:"attachments"`
	Previews []int64      `json:"previews"`
	Price    view.Dollars `json:"price"`
	Locked   bool         `json:"is_text_locked"`
}

func (in *content) check(c *wire.Call) error {
	switch {
	case utf8.RuneCountInString(in.Text) > maxText:
		return wire.Invalid("text", fmt.Sprintf("A message has at most %d characters.", maxText))
	case len(in.Media) > maxMedia:
		return wire.Invalid("attachments", fmt.Sprintf("A message has at most %d attachments.", maxMedia))
	case in.Price < 0:
		return wire.Invalid("price", "The price must not be negative.")
	}
	return cmp.Or(inVault(c, "attachments", in.Media), inVault(c, "previews", in.Previews))
}

// inVault refuses media that are not in the creator's vault.
func inVault(c *wire.Call, field string, ids []int64) error {
	for _, id := range ids {
		if m := c.Media().Get(id); m == nil || m.State == "failed" {
			return wire.Invalid(field, fmt.Sprintf("Medium %d is not in your vault.", id))
		}
	}
	return nil
}

// formsExist refuses release forms that the creator does not have.
func formsExist(c *wire.Call, field string, ids []int64) error {
	for _, id := range ids {
		if c.Forms().Get(id) == nil {
			return wire.Invalid(field, fmt.Sprintf("Release form %d does not exist.", id))
		}
	}
	return nil
}

func sendMessage(c *wire.Call) (any, error) {
	var in struct {
		content
		Gif     int64   `json:"gif_id"`
		ReplyTo int64   `json:"reply_to_id"`
		Forms   []int64 `json:"release_ids"`
	}
	p, err := c.Person("chat_id")
	if err := cmp.Or(err, c.Body(&in)); err != nil {
		return nil, err
	}
	if err := cmp.Or(in.check(c), formsExist(c, "release_ids", in.Forms)); err != nil {
		return nil, err
	}
	if in.Gif != 0 && !seed.IsGif(in.Gif) {
		return nil, wire.Invalid("gif_id", "There is no such GIF.")
	}
	if p.Blocked {
		return nil, wire.Forbidden("You have blocked this user.")
	}
	one := begin(c.Creator, p.ID)
	if in.ReplyTo != 0 && c.Messages(one.ID).Get(in.ReplyTo) == nil {
		return nil, wire.Invalid("reply_to_id", "The message to reply to is not in this chat.")
	}
	return send(c.Creator, one, &row.Message{
		Text: in.Text, Media: in.Media, Previews: in.Previews, Price: int64(in.Price), TextLocked: in.Locked,
		Gif: in.Gif, ReplyTo: in.ReplyTo, Forms: in.Forms,
	}, byWeb), nil
}

func unsend(c *wire.Call, m *row.Message) (any, error) {
	switch {
	case !m.Mine:
		return nil, wire.Forbidden("You can unsend only your own messages.")
	case m.Price > 0 && m.Opened:
		return nil, wire.Conflict("This message was paid for and cannot be unsent.")
	case c.Now().Sub(m.At) > view.UnsendFor:
		return nil, wire.Conflict("This message is too old to be unsent.")
	}
	remove(c.Creator, c.Chats().Get(m.Chat), m, "creator")
	return wire.OK, nil
}

func setLike(c *wire.Call, m *row.Message, liked bool) (any, error) {
	m.Liked = liked
	c.Messages(m.Chat).Put(m)
	tellLike(c.Creator, m, view.Self(c.Creator), liked)
	return wire.OK, nil
}

func setPin(c *wire.Call, m *row.Message, pinned bool) (any, error) {
	m.Pinned = pinned
	c.Messages(m.Chat).Put(m)
	return wire.OK, nil
}

// anywhere returns the message named in the path, whatever its chat.
func anywhere(c *wire.Call) (*row.Message, error) {
	id := c.ID("message_id")
	in := c.ChatOf(id)
	if in == 0 {
		return nil, wire.NotFound("message")
	}
	return wire.Found("message", c.Messages(in).Get(id))
}

type tagInput struct {
	Forms []int64 `json:"release_ids"`
}

func tag(c *wire.Call, m *row.Message, in *tagInput) (any, error) {
	if err := formsExist(c, "release_ids", in.Forms); err != nil {
		return nil, err
	}
	m.Forms = in.Forms
	c.Messages(m.Chat).Put(m)
	return wire.OK, nil
}

// messageBuyers lists the buyer of a message, who can only be the person in the chat. The payment for a copy of a mass
// message refers to the mass message.
func messageBuyers(c *wire.Call, m *row.Message) (any, error) {
	return buyers(c, cmp.Or(m.Mass, m.ID), m.Chat, m.ID)
}

// buyers lists the payments for the object ref, latest first, of one person if person is not 0. The answer shows shown
// as the id of the object.
func buyers(c *wire.Call, ref, person, shown int64) (any, error) {
	rows := wire.Filter(c.Paid(ref), func(t *row.Tx) bool {
		return t.Type == "message" && t.Status != "reversed" && (person == 0 || t.Person == person)
	})
	order := wire.Order[*row.Tx]{Rank: func(t *row.Tx) int64 { return t.At.UnixMilli() }}
	return wire.Page(c, rows, order, func(t *row.Tx) any {
		v := view.Purchase(c.Creator, t)
		v.Ref = shown
		return v
	})
}
