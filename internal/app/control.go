package app

import (
	"context"
	"log/slog"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
)

// obey has those parts follow the operators' decisions that do not ask each time.
func (n *Node) obey() {
	n.control.Watch(func(s switches.State) {
		drained, off := map[string]bool{}, map[string]bool{}
		for proxy := range s.Drained {
			drained[proxy] = true
		}
		for one := range s.Off {
			if region := one.Region(); region != "" {
				off[region] = true
			}
		}
		n.egress.Steer(drained, off)
	})
	n.control.Watch(func(s switches.State) {
		_, off := s.Off[switches.Webhooks]
		n.webhooks.Halt(off)
	})
	n.suspensions.Watch(n.webhooks.Suspend)
	n.suspensions.Watch(func(suspended map[id.Org]struct{}) {
		for one := range suspended {
			n.api.Recheck(one) // its streams end
		}
	})
}

// firstDecisions reads what operators have decided before anything begins that they may have switched off. A node whose database is away
// begins nothing of it, and reads them as soon as it can.
func (n *Node) firstDecisions(ctx context.Context) {
	if err := n.control.Read(ctx); err != nil {
		n.log.LogAttrs(ctx, slog.LevelWarn, "operators' decisions not read yet", slog.Any("error", err))
	}
}
