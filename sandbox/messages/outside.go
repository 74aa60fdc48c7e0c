package messages

import (
	"fmt"
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/ledger"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/seed"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// usualPrice is what a message costs that somebody buys before there was one.
const usualPrice = 900

// mayWrite refuses who was blocked or restricted: the restricted can look, but neither write nor tip.
func mayWrite(p *row.Person) error {
	switch {
	case p.Blocked:
		return fmt.Errorf("user %d is blocked", p.ID)
	case p.Restricted:
		return fmt.Errorf("user %d is restricted and cannot write", p.ID)
	}
	return nil
}

// Writer is the fan who writes or tips: the user named, or the next one who may.
func Writer(c *world.Creator, in fanaction.Input) (*row.Person, error) {
	if in.User == 0 {
		return in.Some(c, func(p *row.Person) bool { return p.Sub.Active(c.Now()) && mayWrite(p) == nil })
	}
	p, err := in.Person(c)
	if err != nil {
		return nil, err
	}
	return p, mayWrite(p)
}

// write has a fan write to the creator; ref_id is the message it answers.
func write(c *world.Creator, in fanaction.Input) error {
	p, err := Writer(c, in)
	if err != nil {
		return err
	}
	messages := c.Messages(p.ID)
	if in.Ref != 0 && messages.Get(in.Ref) == nil {
		return fmt.Errorf("message %d is not in the chat with user %d", in.Ref, p.ID)
	}
	Receive(c, p, &row.Message{Text: in.Words(seed.FanLine(messages.Len())), ReplyTo: in.Ref})
	return nil
}

// sendFromPhone has the creator write on another device; amount is the message's price.
func sendFromPhone(c *world.Creator, in fanaction.Input) error {
	p, err := in.Person(c)
	if err != nil {
		return err
	}
	if p.Blocked {
		return mayWrite(p)
	}
	chat := begin(c, p.ID)
	m := &row.Message{Text: in.Words(seed.CreatorLine(c.Messages(p.ID).Len())), Price: int64(in.Amount), ReplyTo: in.Ref}
	send(c, chat, m, byPhone)
	return nil
}

// wanted is the kind of message something happens to.
type wanted struct {
	mine  bool
	price int64 // of one that has to be made
	fits  func(*row.Chat, *row.Message) bool
}

// pick finds the message something happens to: the one named, else the latest that fits in the named user's chat or in the next
// chat that has one. If nothing fits, such a message is written first.
func pick(c *world.Creator, in fanaction.Input, w wanted) (*row.Chat, *row.Message, error) {
	if in.Ref != 0 && c.Masses().Get(in.Ref) == nil {
		chat := c.Chats().Get(c.ChatOf(in.Ref))
		if chat == nil {
			return nil, nil, fmt.Errorf("message %d does not exist", in.Ref)
		}
		m := c.Messages(chat.ID).Get(in.Ref)
		if m == nil || m.Mine != w.mine {
			return nil, nil, fmt.Errorf("message %d was deleted, or the other side wrote it", in.Ref)
		}
		return chat, m, nil
	}
	for _, chat := range candidates(c, in) {
		for _, m := range slices.Backward(c.Messages(chat.ID).All()) {
			if m.Mine == w.mine && (in.Ref == 0 || m.Mass == in.Ref) && w.fits(chat, m) {
				return chat, m, nil
			}
		}
	}
	if in.Ref != 0 {
		return nil, nil, fmt.Errorf("no copy of message %d is left for that", in.Ref)
	}
	return compose(c, in, w)
}

// candidates are the chats to look in: the named user's, or some that come next.
func candidates(c *world.Creator, in fanaction.Input) []*row.Chat {
	all := c.Chats().All()
	if in.User != 0 {
		if chat := find(c, in.User); chat != nil {
			return []*row.Chat{chat}
		}
		return nil
	}
	const few = 40 // enough to find one; opening hundreds of histories would take long
	if in.Ref != 0 || len(all) <= few {
		return all
	}
	from := c.Turn(len(all))
	list := slices.Concat(all[from:], all[:from])
	return list[:few]
}

// compose writes the message that something is to happen to.
func compose(c *world.Creator, in fanaction.Input, w wanted) (*row.Chat, *row.Message, error) {
	p, err := Writer(c, in)
	if err != nil {
		return nil, nil, err
	}
	m := &row.Message{Text: seed.CreatorLine(0), Price: w.price}
	if w.mine {
		send(c, begin(c, p.ID), m, byPhone)
	} else {
		m = &row.Message{Text: seed.FanLine(0)}
		Receive(c, p, m)
	}
	return c.Chats().Get(p.ID), m, nil
}

// see has a fan read the creator's messages, up to one.
func see(c *world.Creator, in fanaction.Input) error {
	chat, m, err := pick(c, in, wanted{mine: true, fits: func(chat *row.Chat, m *row.Message) bool { return m.ID > chat.ReadUpTo }})
	if err != nil {
		return err
	}
	for _, one := range c.Messages(chat.ID).All() {
		if one.Mass == 0 || one.ID <= chat.ReadUpTo || one.ID > m.ID {
			continue
		}
		if mass := c.Masses().Get(one.Mass); mass != nil {
			mass.Viewed++
			c.Masses().Put(mass)
		}
	}
	chat.ReadUpTo = max(chat.ReadUpTo, m.ID)
	c.Chats().Put(chat)
	c.Emit(frameSeen, map[string]any{"chat_id": chat.ID, "message_id": m.ID, "read_at": view.Stamp(c.Now())})
	return nil
}

// takeBack has a fan delete a message of theirs.
func takeBack(c *world.Creator, in fanaction.Input) error {
	chat, m, err := pick(c, in, wanted{fits: func(*row.Chat, *row.Message) bool { return true }})
	if err != nil {
		return err
	}
	remove(c, chat, m, "fan")
	return nil
}

func likeByFan(c *world.Creator, in fanaction.Input) error   { return fanLikes(c, in, true) }
func unlikeByFan(c *world.Creator, in fanaction.Input) error { return fanLikes(c, in, false) }

func fanLikes(c *world.Creator, in fanaction.Input, liked bool) error {
	chat, m, err := pick(c, in, wanted{mine: true, fits: func(_ *row.Chat, m *row.Message) bool { return m.FanLiked != liked }})
	if err != nil {
		return err
	}
	m.FanLiked = liked
	c.Messages(chat.ID).Put(m)
	tellLike(c, m, view.PersonByID(c, chat.ID), liked)
	if p := c.People().Get(chat.ID); p != nil && liked {
		ledger.Notify(c, &row.Notice{Type: "likes", Text: ledger.Name(p) + " likes your message.", Person: p.ID, RefKind: row.KindMessage, Ref: m.ID})
	}
	return nil
}

// tellLike tells the sockets that somebody likes a message, or no longer does.
func tellLike(c *world.Creator, m *row.Message, user view.User, liked bool) {
	frame := frameLiked
	if !liked {
		frame = frameUnliked
	}
	c.Emit(frame, map[string]any{"chat_id": m.Chat, "message_id": m.ID, "user": user})
}

// buy has a fan pay for a message; ref_id is the message, or the message to many that it is a copy of.
func buy(c *world.Creator, in fanaction.Input) error {
	chat, m, err := pick(c, in, wanted{mine: true, price: in.Cents(usualPrice), fits: func(_ *row.Chat, m *row.Message) bool {
		return m.Price > 0 && !m.Opened
	}})
	if err != nil {
		return err
	}
	p := c.People().Get(chat.ID)
	switch {
	case p == nil || p.Blocked:
		return fmt.Errorf("user %d is gone or blocked", chat.ID)
	case m.Price == 0 || m.Opened:
		return fmt.Errorf("message %d costs nothing, or was paid for", m.ID)
	}
	m.Opened = true
	c.Messages(chat.ID).Put(m)
	t := &row.Tx{Type: "message", Gross: m.Price, Person: p.ID, RefKind: row.KindMessage, Ref: m.ID}
	if m.Mass != 0 {
		t.RefKind, t.Ref = row.KindMass, m.Mass
	}
	ledger.Book(c, t)
	c.Emit(frameBought, map[string]any{
		"chat_id": chat.ID, "message_id": m.ID, "user": view.Person(c, p), "price": view.Dollars(t.Gross), "net": view.Dollars(t.Net()),
		"transaction_id": t.ID,
	})
	ledger.Notify(c, &row.Notice{
		Type: "purchases", Text: fmt.Sprintf("%s bought your message for %s.", ledger.Name(p), dollars(t.Gross)), Person: p.ID,
		RefKind: row.KindMessage, Ref: m.ID,
	})
	return nil
}

func dollars(cents int64) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }

// readOnPhone has the creator read a chat on another device: the named user's, else one with unread messages, else all.
func readOnPhone(c *world.Creator, in fanaction.Input) error {
	if in.User != 0 {
		chat := find(c, in.User)
		if chat == nil {
			return fmt.Errorf("there is no chat with user %d", in.User)
		}
		read(c, chat)
		return nil
	}
	for _, chat := range c.Chats().All() {
		if chat.Unread > 0 {
			read(c, chat)
			return nil
		}
	}
	read(c, nil)
	return nil
}

func typing(c *world.Creator, in fanaction.Input) error {
	p, err := Writer(c, in)
	if err != nil {
		return err
	}
	c.Flash(frameTyping, map[string]int64{"chat_id": p.ID, "user_id": p.ID})
	return nil
}

func countAgain(c *world.Creator, _ fanaction.Input) error {
	c.Flash(frameCounts, view.Counts(c, nil))
	return nil
}

// sendMassFromPhone has the creator write to all fans on another device, or send a scheduled message (ref_id) at once.
func sendMassFromPhone(c *world.Creator, in fanaction.Input) error {
	m := &row.Mass{Text: in.Words("A word to all of you, from my phone."), Price: int64(in.Amount), At: c.Now()}
	if in.Ref != 0 {
		if m = c.Masses().Get(in.Ref); m == nil || m.State != "scheduled" {
			return fmt.Errorf("message %d is not a scheduled message to many", in.Ref)
		}
	} else {
		m.ID = c.Masses().NextID()
	}
	m.State = "sending"
	c.Masses().Put(m)
	deliverMass(c, m.ID)
	return nil
}
