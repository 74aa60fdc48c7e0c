// Package manage has the commands of every day around calls: webhooks, events, logs, keys, usage, and the way to the dashboard.
package manage

import (
	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// Commands are webhooks, logs, keys, usage and open. Events are apart, because others add to them: see Events.
func Commands(app *core.App) []*cobra.Command {
	return []*cobra.Command{webhooks(app), logs(app), keys(app), usage(app), open(app)}
}

// Events is the command events with what is added to it.
func Events(app *core.App, more ...*cobra.Command) *cobra.Command {
	return core.Group("events", "Events of the log: list, look at, send again", append([]*cobra.Command{listEvents(app), getEvent(app)}, more...)...)
}
