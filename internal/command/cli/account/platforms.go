package account

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

func platforms(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "platforms", Short: "List the platforms that accounts can be on", Args: cobra.NoArgs,
		Long: `List the platforms that accounts of your organisation can be on. The first one is the default of the flag --platform.

If creators have sites of their own, name the site with stagedoor connect --site.

Columns in a pipe: id, name, connect methods, source of events (socket, poll or none), number of methods, example of a
site.`,
		Example: "  stagedoor platforms\n  stagedoor platforms --json | jq '.platforms[].id'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := app.API().Connect.ListPlatforms(cmd.Context(), app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			table := output.Table{
				Columns: output.Columns("id", "name~", "connect", "events", ">methods", "site~"),
				Empty:   "The server has no platform for your organisation. Ask its operator.",
			}
			for _, p := range got.Platforms {
				events := output.Text(core.Deref(p.EventSource))
				if p.EventSource == nil {
					events = output.Toned(output.Faint, "none")
				}
				table.Rows = append(table.Rows, []output.Cell{
					output.Toned(output.Strong, p.ID), output.Text(p.Name), output.Text(strings.Join(methodsOf(p), ",")), events,
					output.Number(p.Methods), output.Text(core.Deref(p.SiteExample)),
				})
			}
			app.Out.Table(table)
			return nil
		},
	}
}

// flows maps the values of --method to the names of the API.
var flows = map[string]string{"oauth": "oauth", "token": "token", "mobile": "mobile_app", "login": "credentials", "cookie": "cookie", "curl": "curl"}

// methodsOf returns the values of --method that a platform has.
func methodsOf(p stagedoor.Platform) []string {
	return slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return !slices.Contains(p.Flows, flows[m]) })
}
