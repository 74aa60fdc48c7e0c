// Package call has the commands that reach the API and explain what it said: methods, call, api, explain and verify.
//
// Names, arguments and kinds of arguments come from the catalog that is built in, so that most mistakes are told without a server;
// the server has the last word.
package call

import (
	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// Commands are methods, call, api, explain and verify.
func Commands(app *core.App) []*cobra.Command {
	return []*cobra.Command{methods(app), invoke(app), raw(app), explain(app), verify(app)}
}
