package view

import (
	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// PurchaseView is the view of a fan's purchase of a message or a post.
type PurchaseView struct {
	Buyer User    `json:"buyer"`
	Type  string  `json:"item_type"` // message, post
	Ref   int64   `json:"item_id"`
	Price Dollars `json:"price"`
	At    Stamp   `json:"purchased_at"`
}

// Purchase returns the view of a transaction that is a purchase.
func Purchase(c *world.Creator, t *row.Tx) PurchaseView {
	return PurchaseView{Buyer: PersonByID(c, t.Person), Type: t.Type, Ref: t.Ref, Price: Dollars(t.Gross), At: Stamp(t.At)}
}

// Earned sums up the payments for one object in cents, without chargebacks. Tips and Sales are gross; Net is the
// creator's share of both.
type Earned struct {
	Tips, Sales, Net    int64
	TipCount, Purchases int
}

// Paid sums up the payments for an object for which fits is true. A nil fits accepts all payments.
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
