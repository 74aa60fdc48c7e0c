package cli

import (
	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/cli/shell"
	"github.com/stagedoor/stagedoor/internal/cli/work"
)

// streams are the commands that go on until they are stopped, and events, which one of them is part of.
func streams(app *shell.App) []*cobra.Command {
	return []*cobra.Command{work.Events(app)}
}
