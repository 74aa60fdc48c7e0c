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

// usualTip is the default tip in cents.
const usualTip = 500

// tipped is the target of a tip.
type tipped struct {
	Kind string `json:"type"` // profile, message, post, story, stream
	ID   int64  `json:"id"`
}

// tip makes a fan tip the object ref_id, or else the profile. A tip for a message, or a tip for the profile with a
// text, also arrives as a message.
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
		return fmt.Errorf("a tip must be positive")
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

// tipTarget returns the object with an id. The id 0 means the profile.
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
	return tipped{}, 0, fmt.Errorf("%d is not a message, post, story or stream", id)
}
