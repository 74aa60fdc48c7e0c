// Package ops has the group ops: everything that operators can do in their console, as commands.
//
// Each command is a row of the tables in commands.go and sends one request to the admin API, on the operators' listener.
// command.go makes the commands from the rows and print.go prints what they return. A test fails if an operation of the
// admin API, or one of its parameters, has no command. Start at Commands.
package ops

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/profile"
)

// about describes each group. Groups without commands of their own are not listed.
var about = map[string]string{
	"access": "Request access to what is inside an organisation", "banner": "Show a sentence to all customers",
	"dead-letters": "List, store and delete events that could not be stored", "egress": "List and drain proxies",
	"jobs": "List, retry and cancel jobs of the workers",
	"orgs": "Manage organisations", "sessions": "List and end sessions of operators in browsers",
	"switches": "Switch parts of the service on and off", "webhooks": "List, retry, pause and resume webhooks of all organisations",
}

// Commands returns the group ops.
func Commands(app *core.App) []*cobra.Command {
	group := core.Group("ops", "Operate the service", login(app), logout(app), usage(app))
	group.Long = `Operate the service. These commands do what operators can do in their console.

They call the admin API on the operators' listener, which customers cannot reach, with an operator token. The first of
these decides: --profile, the file STAGEDOOR_OPS_TOKEN_FILE with the listener STAGEDOOR_OPS_URL (default:
http://127.0.0.1:8081), the profile of the last stagedoor ops login. Commands never take a token from a flag.

What you change is in the audit log, by "token".`
	group.Example = "  stagedoor ops login --url https://ops.internal.example.com\n  stagedoor ops egress list\n  stagedoor ops orgs list acme"
	groups := map[string]*cobra.Command{}
	for _, c := range commands {
		under, name, nested := strings.Cut(c.use, " ")
		if _, isGroup := about[under]; !nested || !isGroup {
			group.AddCommand(c.build(app))
			continue
		}
		if groups[under] == nil {
			groups[under] = core.Group(under, about[under])
			group.AddCommand(groups[under])
		}
		c.use = name
		groups[under].AddCommand(c.build(app))
	}
	return []*cobra.Command{group}
}

func login(app *core.App) *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use: "login", Short: "Save an operator token on this machine as a profile", Args: cobra.NoArgs,
		Long: `Save an operator token on this machine as a profile.

The command prompts for the token without showing it, or reads it from standard input. The token is checked with the
server and saved like an API key, apart from the profiles of customers.`,
		Example: "  stagedoor ops login --url https://ops.internal.example.com --profile production\n  pass show stagedoor/ops | stagedoor ops login",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			base, err := core.CleanURL(cmp.Or(address, app.OperatorURL()))
			if err != nil {
				return err
			}
			store, err := app.Operators()
			if err != nil {
				return err
			}
			token, err := app.ReadSecret(ctx, "Operator token")
			if err != nil {
				return err
			}
			p := profile.Profile{BaseURL: base, Key: secret.New(token), Name: cmp.Or(app.ProfileName, host(base))}
			app.ActAs(p)
			res, err := app.API().Request(ctx, stagedoor.Request{Path: "/admin/v1/me"})
			if err != nil {
				return err
			}
			var me struct{ Name, Role string }
			if err := res.JSON(&me); err != nil {
				return err
			}
			where, err := store.Save(p)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				return app.Out.Value(map[string]string{"profile": p.Name, "baseUrl": base, "name": me.Name, "role": me.Role})
			}
			app.Out.Done("Logged in to %s as %s with the role %s.", base, me.Name, me.Role)
			app.Out.Say("  Profile %s. The token is stored in %s.", p.Name, where)
			return nil
		},
	}
	cmd.Flags().StringVar(&address, "url", "", "address of the operators' listener (default STAGEDOOR_OPS_URL or http://127.0.0.1:8081)")
	return cmd
}

// host returns the host of an address without its port, as the name of a profile.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Hostname()
}

func logout(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "Delete an operator's profile and its token from this machine", Args: cobra.NoArgs,
		Long: "Delete an operator's profile and its token from this machine. Default: the current profile. The token itself stays valid.",
		RunE: func(*cobra.Command, []string) error {
			store, err := app.Operators()
			if err != nil {
				return err
			}
			profiles, current, err := store.List()
			if err != nil {
				return err
			}
			name := cmp.Or(app.ProfileName, current)
			if name == "" {
				app.Out.Say("Not logged in; nothing to delete.")
				return nil
			}
			if err := store.Remove(name); errors.Is(err, profile.ErrNone) {
				known := make([]string, len(profiles))
				for i, p := range profiles {
					known[i] = p.Name
				}
				slices.Sort(known)
				return core.OneOf("operator's profile", name, known)
			} else if err != nil {
				return err
			}
			app.Out.Done("Deleted profile %s and its token from this machine. The token itself is still valid.", name)
			return nil
		},
	}
}
