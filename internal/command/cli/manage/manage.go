// Package manage has the commands webhooks, endpoints, events, logs, keys, notices, usage and open.
//
// They show and change the organisation with single requests. Commands that follow a stream are in package events.
package manage

import (
	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// Commands returns webhooks, endpoints, logs, keys, notices, usage and open. Events is separate because package events adds a subcommand.
func Commands(app *core.App) []*cobra.Command {
	return []*cobra.Command{webhooks(app), endpoints(app), logs(app), keys(app), notices(app), usage(app), open(app)}
}

// Events returns the group events with additional subcommands.
func Events(app *core.App, more ...*cobra.Command) *cobra.Command {
	return core.Group("events", "List, show and replay events",
		append([]*cobra.Command{listEvents(app), getEvent(app)}, more...)...)
}
