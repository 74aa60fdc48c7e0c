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

// streams are the commands that go on until they are stopped, and events, which one of them is part of.
func streams(app *core.App) []*cobra.Command {
	return slices.Concat(dev.Commands(app), events.Commands(app), agent.Commands(app), []*cobra.Command{manage.Events(app, events.Replay(app))})
}
