// Package account has the commands connect, accounts, platforms and sandbox: connecting creators' accounts, managing
// them, listing the platforms that they can be on, and controlling the sandbox platform.
//
// connect.go and import.go start a connect attempt in one of several ways; attempt.go follows every attempt to its end.
package account

import (
	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

// Commands returns connect, accounts, platforms and sandbox.
func Commands(app *core.App) []*cobra.Command {
	return []*cobra.Command{connect(app), accounts(app), platforms(app), sandbox(app)}
}
