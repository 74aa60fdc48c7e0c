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

// usualPrice is the price in cents of a message that is created only to be bought.
const usualPrice = 900

// mayWrite returns an error for a blocked or restricted person. Restricted people can read, but not write or tip.
func mayWrite(p *row.Person) error {
	switch {
	case p.Blocked:
		return fmt.Errorf("user %d is blocked", p.ID)
	case p.Restricted:
		return fmt.Errorf("user %d is restricted and cannot write", p.ID)
	}
	return nil
}

// Writer returns the fan who writes or tips: the given user, or else the next fan who is allowed to.
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

// write makes a fan write to the creator. ref_id is the message it replies to.
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

// sendFromPhone makes the creator write from another device. amount is the price of the message.
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

// wanted describes the kind of message that a happening needs.
type wanted struct {
	mine  bool
	price int64 // in cents, if compose has to create the message
	fits  func(*row.Chat, *row.Message) bool
}

// pick returns the message for a happening: the given one, or else the latest that fits, in the chat of the given user
// or in the next chat that has one. If none fits, it creates one.
func pick(c *world.Creator, in fanaction.Input, w wanted) (*row.Chat, *row.Message, error) {
	if in.Ref != 0 && c.Masses().Get(in.Ref) == nil {
		chat := c.Chats().Get(c.ChatOf(in.Ref))
		if chat == nil {
			return nil, nil, fmt.Errorf("message %d does not exist", in.Ref)
		}
		m := c.Messages(chat.ID).Get(in.Ref)
		if m == nil || m.Mine != w.mine {
			return nil, nil, fmt.Errorf("message %d was deleted or is from the other side", in.Ref)
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
		return nil, nil, fmt.Errorf("message %d has no matching copy left", in.Ref)
	}
	return compose(c, in, w)
}

// candidates returns the chats that pick searches: the one of the given user, or else the next few.
func candidates(c *world.Creator, in fanaction.Input) []*row.Chat {
	all := c.Chats().All()
	if in.User != 0 {
		if chat := find(c, in.User); chat != nil {
			return []*row.Chat{chat}
		}
		return nil
	}
	const few = 40 // enough to find one; loading hundreds of histories would be slow
	if in.Ref != 0 || len(all) <= few {
		return all
	}
	from := c.Turn(len(all))
	list := slices.Concat(all[from:], all[:from])
	return list[:few]
}

// compose creates a message for a happening.
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

// see makes a fan read the creator's messages up to the picked one.
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

// takeBack makes a fan delete one of their messages.
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

// tellLike sends the frame of a like or unlike of a message.
func tellLike(c *world.Creator, m *row.Message, user view.User, liked bool) {
	frame := frameLiked
	if !liked {
		frame = frameUnliked
	}
	c.Emit(frame, map[string]any{"chat_id": m.Chat, "message_id": m.ID, "user": user})
}

// buy makes a fan pay for a message. ref_id is the message, or the mass message of which it is a copy.
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
		return fmt.Errorf("user %d does not exist or is blocked", chat.ID)
	case m.Price == 0 || m.Opened:
		return fmt.Errorf("message %d is free or already paid for", m.ID)
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

// readOnPhone makes the creator read a chat on another device: the one of the given user, or else an unread one, or
// else all.
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

// sendMassFromPhone makes the creator send a mass message to all fans from another device, or send a scheduled one
// (ref_id) immediately.
func sendMassFromPhone(c *world.Creator, in fanaction.Input) error {
	m := &row.Mass{Text: in.Words("A word to all of you, from my phone."), Price: int64(in.Amount), At: c.Now()}
	if in.Ref != 0 {
		if m = c.Masses().Get(in.Ref); m == nil || m.State != "scheduled" {
			return fmt.Errorf("message %d is not a scheduled mass message", in.Ref)
		}
	} else {
		m.ID = c.Masses().NextID()
	}
	m.State = "sending"
	c.Masses().Put(m)
	deliverMass(c, m.ID)
	return nil
}
