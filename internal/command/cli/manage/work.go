// Package manage has the commands of every day around calls: webhooks, events, logs, keys, usage, and the way to the dashboard.
package manage

import (
	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/shell"
)

// Commands are webhooks, logs, keys, usage and open. Events are apart, because others add to them: see Events.
func Commands(app *shell.App) []*cobra.Command {
	return []*cobra.Command{webhooks(app), logs(app), keys(app), usage(app), open(app)}
}

// Events is the command events with what is added to it.
func Events(app *shell.App, more ...*cobra.Command) *cobra.Command {
	return shell.Group("events", "Events of the log: list, look at, send again", append([]*cobra.Command{listEvents(app), getEvent(app)}, more...)...)
}
