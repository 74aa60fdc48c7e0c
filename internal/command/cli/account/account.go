// Package account has the commands about creators' accounts: connecting them, looking after them, and playing them in the sandbox.
//
// Connecting is one loop over the attempt (attempt.go) whatever began it (connect.go, import.go).
package account

import (
	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// Commands are connect, accounts and sandbox.
func Commands(app *core.App) []*cobra.Command {
	return []*cobra.Command{connect(app), accounts(app), sandbox(app)}
}
