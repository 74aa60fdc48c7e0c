package app

import (
	"context"
	"log/slog"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
)

// watchDecisions applies the operators' decisions to the parts that do not ask for them on each use.
func (n *Node) watchDecisions() {
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
			n.api.Recheck(one) // Ends its streams.
		}
	})
}

// readDecisions reads the operators' decisions before anything starts that they may have switched off. If the database
// is down, those parts do not start until it can be read.
func (n *Node) readDecisions(ctx context.Context) {
	if err := n.control.Read(ctx); err != nil {
		n.log.LogAttrs(ctx, slog.LevelWarn, "cannot read operators' decisions", slog.Any("error", err))
	}
}
