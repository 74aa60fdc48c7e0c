// Package call has the commands methods, call, api, explain and verify.
//
// call checks method names and converts arguments with the built-in catalog, so that most mistakes are found without a
// request. The server may be newer and has the last word: a method that the catalog does not have is sent unchecked.
package call

import (
	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// Commands returns methods, call, api, explain and verify.
func Commands(app *core.App) []*cobra.Command {
	return []*cobra.Command{methodsCommand(app), callCommand(app), apiCommand(app), explainCommand(app),
		verifyCommand(app)}
}
