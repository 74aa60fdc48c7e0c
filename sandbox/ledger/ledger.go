// Package ledger books payments and notifies the creator. Every part of the platform that takes payments uses it.
package ledger

import (
	"fmt"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Book adds a transaction and emits `money.received`. It computes fee and net from the gross amount.
func Book(c *world.Creator, t *row.Tx) *row.Tx {
	c.AddTx(t)
	c.Emit("money.received", map[string]any{"transaction": view.Tx(c, t)})
	return t
}

// Notify adds a notice to the creator's inbox and emits `notice.new`. The notice's kind is one of tips, subscriptions,
// likes, comments, purchases, mentions, promotions, system.
func Notify(c *world.Creator, n *row.Notice) *row.Notice {
	notices := c.Notices()
	n.ID, n.At = notices.NextID(), c.Now()
	notices.Put(n)
	c.Emit("notice.new", map[string]any{"notice": view.Notice(c, n)})
	return n
}

// Name returns a person's name in the form that notices use.
func Name(p *row.Person) string { return fmt.Sprintf("%s (@%s)", p.Name, p.Username) }
