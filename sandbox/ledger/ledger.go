// Package ledger books money and tells the creator of it: what every part of the platform does when somebody pays.
package ledger

import (
	"fmt"

	"github.com/stagedoor/stagedoor/sandbox/row"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// Book adds a transaction and emits `money.received`. Fee and net follow from the gross amount.
func Book(c *world.Creator, t *row.Tx) *row.Tx {
	c.AddTx(t)
	c.Emit("money.received", map[string]any{"transaction": view.Tx(c, t)})
	return t
}

// Notify adds to the notification inbox and emits `notice.new`. kind is one of tips, subscriptions, likes, comments, purchases,
// mentions, promotions, system.
func Notify(c *world.Creator, n *row.Notice) *row.Notice {
	notices := c.Notices()
	n.ID, n.At = notices.NextID(), c.Now()
	notices.Put(n)
	c.Emit("notice.new", map[string]any{"notice": view.Notice(c, n)})
	return n
}

// Name is how a notice names someone.
func Name(p *row.Person) string { return fmt.Sprintf("%s (@%s)", p.Name, p.Username) }
