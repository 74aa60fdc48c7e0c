// Package call has the commands methods, call, api, explain and verify, and those of jobs: export, bulk, jobs and export-org.
//
// call checks method names and converts arguments with the catalogue of the account's platform. Those of some platforms
// are built in, so that completion needs no request. The server may be newer and has the last word: it is asked about
// a method that is not built in, and a method that it does not know either is sent unchecked.
package call

import (
	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// Commands returns the commands.
func Commands(app *core.App) []*cobra.Command {
	return []*cobra.Command{methodsCommand(app), callCommand(app), apiCommand(app), explainCommand(app),
		verifyCommand(app), exportCommand(app), bulkCommand(app), jobsCommand(app), exportOrg(app)}
}
