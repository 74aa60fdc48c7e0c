package view

import (
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// NoticeView is the view of a notice in the inbox.
type NoticeView struct {
	ID      int64   `json:"id"`
	Type    string  `json:"category"`
	Text    string  `json:"text"`
	User    *User   `json:"user"`
	RefKind *string `json:"target_type"`
	Ref     *int64  `json:"target_id"`
	Read    bool    `json:"is_read"`
	At      Stamp   `json:"created_at"`
}

// Notice returns the view of a notice.
func Notice(c *world.Creator, n *row.Notice) NoticeView {
	v := NoticeView{
		ID: n.ID, Type: n.Type, Text: n.Text, User: optionalUser(c, n.Person), Ref: Optional(n.Ref), Read: n.Read,
		At: Stamp(n.At),
	}
	if kind := KindName(n.RefKind); n.Ref != 0 && kind != "" {
		v.RefKind = &kind
	}
	return v
}

// kindNames maps the kinds of records that can be referred to, to the platform's names for them.
var kindNames = map[row.Kind]string{
	row.KindMessage: "message", row.KindMass: "mass_message", row.KindPost: "post", row.KindStory: "story", row.KindStream: "stream",
	row.KindComment: "comment", row.KindPromotion: "promotion", row.KindPayout: "payout",
}

// KindName returns the platform's name for a kind, or "" if records of the kind cannot be referred to.
func KindName(k row.Kind) string { return kindNames[k] }
