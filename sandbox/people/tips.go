package people

import (
	"fmt"

	"github.com/stagedoor/stagedoor/sandbox/fanaction"
	"github.com/stagedoor/stagedoor/sandbox/ledger"
	"github.com/stagedoor/stagedoor/sandbox/messages"
	"github.com/stagedoor/stagedoor/sandbox/publish"
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// usualTip is in cents.
const usualTip = 500

// tipped is what a tip is for.
type tipped struct {
	Kind string `json:"type"` // profile, message, post, story, stream
	ID   int64  `json:"id"`
}

// tip has a fan tip: the profile, or what ref_id names. A tip to a message, or one with a text, is a message itself.
func tip(c *world.Creator, in fanaction.Input) error {
	target, kind, err := tipTarget(c, in.Ref)
	if err != nil {
		return err
	}
	if kind == row.KindMessage && in.User == 0 {
		in.User = c.ChatOf(in.Ref)
	}
	p, err := messages.Writer(c, in)
	if err != nil {
		return err
	}
	amount := in.Cents(usualTip)
	if amount <= 0 {
		return fmt.Errorf("a tip is more than nothing")
	}
	t := ledger.Book(c, &row.Tx{Type: "tip", Gross: amount, Person: p.ID, RefKind: kind, Ref: in.Ref, Text: in.Text})
	c.Emit(frameTip, map[string]any{
		"id": t.ID, "user": view.Person(c, p), "amount": view.Dollars(t.Gross), "net": view.Dollars(t.Net()), "text": in.Text, "target": target,
	})
	if kind == row.KindPost {
		publish.Tipped(c, in.Ref)
	}
	if kind == row.KindMessage || (in.Ref == 0 && in.Text != "") {
		messages.Receive(c, p, &row.Message{Text: in.Text, Tip: amount, ReplyTo: in.Ref})
	}
	ledger.Notify(c, &row.Notice{
		Type: "tips", Text: fmt.Sprintf("%s tipped you $%d.%02d.", ledger.Name(p), amount/100, amount%100), Person: p.ID, RefKind: kind, Ref: in.Ref,
	})
	return nil
}

// tipTarget finds out what an id names; no id is the profile.
func tipTarget(c *world.Creator, id int64) (tipped, row.Kind, error) {
	switch {
	case id == 0:
		return tipped{"profile", c.Profile.ID}, 0, nil
	case c.Posts().Get(id) != nil:
		return tipped{"post", id}, row.KindPost, nil
	case c.Stories().Get(id) != nil:
		return tipped{"story", id}, row.KindStory, nil
	case c.Streams().Get(id) != nil:
		return tipped{"stream", id}, row.KindStream, nil
	}
	if chat := c.ChatOf(id); chat != 0 && c.Messages(chat).Get(id) != nil {
		return tipped{"message", id}, row.KindMessage, nil
	}
	return tipped{}, 0, fmt.Errorf("%d is no message, post, story or stream", id)
}
