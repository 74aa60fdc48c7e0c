package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/agent"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/dev"
	"github.com/stagedoor/stagedoor/internal/command/cli/events"
	"github.com/stagedoor/stagedoor/internal/command/cli/manage"
)

// streamCommands are the commands that run until they are stopped. The group events is here because its subcommand
// replay shares the forwarder of listen.
func streamCommands(app *core.App) []*cobra.Command {
	group := manage.Events(app, events.Replay(app))
	return slices.Concat(dev.Commands(app), events.Commands(app), agent.Commands(app), []*cobra.Command{group})
}
