package view

import (
	"strconv"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// UnsendFor is how long after sending a message can be unsent.
const UnsendFor = 365 * 24 * time.Hour

// MessageView is the view of a message in a chat.
type MessageView struct {
	ID       int64       `json:"id"`
	Chat     ChatRef     `json:"chat"`
	From     int64       `json:"author_id"`
	To       int64       `json:"recipient_id"`
	Text     string      `json:"text"`
	Media    []MediaView `json:"attachments"`
	Price    Dollars     `json:"price"`
	Locked   bool        `json:"is_locked"`
	Opened   bool        `json:"is_opened"`
	Free     bool        `json:"is_free"`
	IsTip    bool        `json:"is_tip"`
	Tip      *TipAmount  `json:"tip"`
	Liked    bool        `json:"is_favorite"`
	Pinned   bool        `json:"is_pinned"`
	ReplyTo  *int64      `json:"reply_to_id"`
	Campaign *int64      `json:"campaign_id"`
	At       Stamp       `json:"created_at"`
	Edited   Stamp       `json:"changed_at"`
	Unsend   Stamp       `json:"can_unsend_until"`
}

// ChatRef refers to a chat.
type ChatRef struct {
	ID int64 `json:"id"`
}

// TipAmount is the tip that came with a message.
type TipAmount struct {
	Amount Dollars `json:"amount"`
}

// Message returns the view of a message.
func Message(c *world.Creator, m *row.Message) MessageView {
	locked := m.Price > 0 && !m.Opened
	v := MessageView{
		ID: m.ID, Chat: ChatRef{m.Chat}, From: m.Chat, To: c.Profile.ID, Text: m.Text, Media: MediaList(c, m.Media), Price: Dollars(m.Price),
		Locked: locked, Opened: !locked, Free: m.Price == 0, IsTip: m.Tip > 0, Liked: m.Liked, Pinned: m.Pinned,
		ReplyTo:  Optional(m.ReplyTo),
		Campaign: Optional(m.Mass), At: Stamp(m.At), Edited: Stamp(m.EditedAt),
	}
	if m.Gif != 0 {
		v.Media = append(v.Media, gif(c, m))
	}
	if m.Tip > 0 {
		v.Tip = &TipAmount{Dollars(m.Tip)}
	}
	if m.Mine {
		v.From, v.To = v.To, v.From
		if m.Price == 0 || !m.Opened {
			v.Unsend = Stamp(m.At.Add(UnsendFor))
		}
	}
	return v
}

// gif returns the GIF of a message in the form of a medium. GIFs are not in the vault.
func gif(c *world.Creator, m *row.Message) MediaView {
	still := c.Origin() + "/media/gif/" + strconv.FormatInt(m.Gif, 10) + ".png"
	return MediaView{ID: m.Gif, Type: "gif", State: mediaStates["ready"], Thumb: &still, Folders: []int64{}, At: Stamp(m.At)}
}

// ChatView is the view of a chat.
type ChatView struct {
	ID      int64        `json:"id"`
	User    User         `json:"with_user"`
	Last    *MessageView `json:"last_message"`
	Unread  int          `json:"unread_count"`
	Muted   bool         `json:"is_muted"`
	Pinned  bool         `json:"is_pinned"`
	Hidden  bool         `json:"is_hidden"`
	CanSend bool         `json:"can_send"`
	Reason  *string      `json:"cannot_send_reason"`
	Updated Stamp        `json:"updated_at"`
}

// Chat returns the view of a chat. A chat that the creator marked as unread shows at least one unread message.
func Chat(c *world.Creator, chat *row.Chat) ChatView {
	v := ChatView{
		ID: chat.ID, User: PersonByID(c, chat.ID), Unread: chat.Unread, Muted: chat.Muted, Pinned: chat.Pinned, Hidden: chat.Hidden,
		CanSend: true, Updated: Stamp(chat.UpdatedAt),
	}
	if chat.Marked {
		v.Unread = max(v.Unread, 1)
	}
	if v.User.Blocked {
		v.CanSend, v.Reason = false, Optional("blocked")
	}
	if last := c.Messages(chat.ID).Get(chat.LastID); last != nil {
		m := Message(c, last)
		v.Last = &m
	}
	return v
}

// MassView is the view of a mass message.
type MassView struct {
	ID         int64       `json:"id"`
	State      string      `json:"status"` // planned, sending, done, withdrawn
	Text       string      `json:"text"`
	Media      []MediaView `json:"attachments"`
	Price      Dollars     `json:"price"`
	Include    []int64     `json:"to_lists"`
	Exclude    []int64     `json:"not_to_lists"`
	Recipients int         `json:"recipients_count"`
	Sent       int         `json:"sent_count"`
	Viewed     int         `json:"viewed_count"`
	Purchased  int         `json:"purchased_count"`
	Scheduled  Stamp       `json:"publish_at"`
	SentAt     Stamp       `json:"sent_at"`
	At         Stamp       `json:"created_at"`
}

// massStates maps the states of a mass message to the platform's names for them.
var massStates = map[string]string{"scheduled": "planned", "sending": "sending", "sent": "done", "canceled": "withdrawn"}

// MassState returns the platform's name for the state of a mass message, which is the same for withdrawn and cancelled
// ones.
func MassState(m *row.Mass) string {
	if m.Unsent {
		return massStates["canceled"]
	}
	return massStates[m.State]
}

// Mass returns the view of a mass message with the given number of recipients.
func Mass(c *world.Creator, m *row.Mass, recipients int) MassView {
	return MassView{
		ID: m.ID, State: MassState(m), Text: m.Text, Media: MediaList(c, m.Media), Price: Dollars(m.Price),
		Include: NotNull(m.Include),
		Exclude: NotNull(m.Exclude), Recipients: recipients, Sent: m.Sent, Viewed: m.Viewed,
		Purchased: Paid(c, m.ID, nil).Purchases,
		Scheduled: Stamp(m.Scheduled), SentAt: Stamp(m.SentAt), At: Stamp(m.At),
	}
}

// MassStatsView is the view of a mass message's statistics.
type MassStatsView struct {
	ID        int64   `json:"message_id"`
	Text      string  `json:"text"`
	Price     Dollars `json:"price"`
	Sent      int     `json:"sent_count"`
	Viewed    int     `json:"viewed_count"`
	Purchased int     `json:"purchased_count"`
	Gross     Dollars `json:"gross"`
	Net       Dollars `json:"net"`
	SentAt    Stamp   `json:"sent_at"`
}

// MassStats returns the statistics of a mass message. Amounts and purchases are of the times for which in is true, or
// of all time if in is nil. All other numbers are of all time.
func MassStats(c *world.Creator, m *row.Mass, in func(time.Time) bool) MassStatsView {
	e := Paid(c, m.ID, func(t *row.Tx) bool { return in == nil || in(t.At) })
	return MassStatsView{
		ID: m.ID, Text: m.Text, Price: Dollars(m.Price), Sent: m.Sent, Viewed: m.Viewed, Purchased: e.Purchases,
		Gross: Dollars(e.Sales), Net: Dollars(e.Net), SentAt: Stamp(m.SentAt),
	}
}
