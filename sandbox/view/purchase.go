package view

import (
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// PurchaseView is one fan who paid for a message or a post.
type PurchaseView struct {
	Buyer User    `json:"buyer"`
	Type  string  `json:"item_type"` // message, post
	Ref   int64   `json:"item_id"`
	Price Dollars `json:"price"`
	At    Stamp   `json:"purchased_at"`
}

// Purchase shows what a transaction paid for.
func Purchase(c *world.Creator, t *row.Tx) PurchaseView {
	return PurchaseView{Buyer: PersonByID(c, t.Person), Type: t.Type, Ref: t.Ref, Price: Dollars(t.Gross), At: Stamp(t.At)}
}

// Earned is what was paid for one thing and not charged back: all of it and the creator's share, and how often. A tip is told from
// a purchase by its type.
type Earned struct {
	Tips, Sales, Net    int64
	TipCount, Purchases int
}

// Paid adds up what was paid for a thing, as far as fits says.
func Paid(c *world.Creator, ref int64, fits func(*row.Tx) bool) Earned {
	var e Earned
	for _, t := range c.Paid(ref) {
		if t.Status == "reversed" || (fits != nil && !fits(t)) {
			continue
		}
		e.Net += t.Net()
		if t.Type == "tip" || t.Type == "stream" {
			e.Tips += t.Gross
			e.TipCount++
			continue
		}
		e.Sales += t.Gross
		e.Purchases++
	}
	return e
}
