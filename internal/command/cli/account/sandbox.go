package account

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

func sandbox(app *core.App) *cobra.Command {
	cmd := core.Group("sandbox", "Control the sandbox platform: personas, faults, fan actions",
		listPersonas(app), expireSession(app),
		injectFault(app, fault{"challenge", "otp_next", "Ask for a code at the account's next sign-in",
			"asks for a code at the next sign-in of %s"}),
		injectFault(app,
			fault{"ratelimit", "rate_limit", "Respond to an account's calls with 429 for a while", "responds to %s with 429"}),
		injectFault(app,
			fault{"down", "down", "Respond to an account's calls with 503 for a while", "responds to %s with 503"}),
		injectFault(app, fault{"slow", "slow", "Respond slowly to an account's calls for a while", "responds slowly to %s"}),
		clearFaults(app), fanAction(app), generateEvents(app), advanceAttempt(app), openSession(app))
	cmd.Long = `Control the sandbox platform: list personas to sign in as, inject faults, and make fans act.

Only for sandbox organisations.`
	return cmd
}

func listPersonas(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "persona [name]", Short: "List sandbox logins and their behaviour", Args: cobra.MaximumNArgs(1),
		Long: "List sandbox logins and their behaviour, or show one of them.\n\nColumns in a pipe: login, group, effect.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var res stagedoor.Response
			got, err := app.API().Sandbox.ListPersonas(cmd.Context(), stagedoor.WithResponse(&res))
			if err != nil {
				return err
			}
			if len(args) == 1 {
				names := []string{}
				for _, p := range got.Personas {
					names = append(names, p.Persona)
				}
				name, _, _ := strings.Cut(args[0], "@")
				if err := core.OneOf("persona", name, names); err != nil {
					return err
				}
				i := slices.Index(names, name)
				if app.Out.JSON {
					var raw struct{ Personas []json.RawMessage }
					if err := res.JSON(&raw); err != nil {
						return err
					}
					app.Out.Body(raw.Personas[i])
					return nil
				}
				got.Personas = got.Personas[i : i+1]
			}
			if app.Out.JSON {
				app.Out.Body(res.Body)
				return nil
			}
			table := output.Table{Columns: output.Columns("login", "group", "effect~")}
			for _, p := range got.Personas {
				table.Rows = append(table.Rows,
					[]output.Cell{output.Text(p.Login), output.Toned(output.Faint, p.Group), output.Text(p.Effect)})
			}
			app.Out.Table(table)
			app.Out.Say("Password: %s. Codes:", got.Password)
			for _, c := range got.Codes {
				app.Out.Say("  %s  %s", c.Code, c.Effect)
			}
			app.Out.Say("Use <persona>+anything@sandbox.test for another creator with the same behaviour.")
			return nil
		},
	}
}

func expireSession(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "expire <account>", Short: "End an account's session on the platform",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `End an account's session on the platform.

The next call returns 410, or signs in again if credentials are saved.`,
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, _ []string) error {
			account, err := app.API().Sandbox.ResetLogin(cmd.Context(), id, app.Keep())
			if err != nil {
				return err
			}
			return app.PrintDone("Ended the session of %s on the platform.", core.AccountName(*account))
		}),
	}
}

// fault describes a command that makes the platform misbehave for an account.
type fault struct {
	// name is the command, kind is the fault in the API.
	name, kind, short string
	// effect follows "The platform" in the success message; %s is the account.
	effect string
}

func injectFault(app *core.App, what fault) *cobra.Command {
	var length time.Duration
	var count int
	cmd := &cobra.Command{
		Use: what.name + " <account>", Short: what.short, Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, args []string) error {
			params := stagedoor.SandboxSetFaultParams{Kind: what.kind, Seconds: seconds(length), Count: int64(max(count, 0))}
			got, err := app.API().Sandbox.SetFault(cmd.Context(), id, params, app.Keep())
			if err != nil {
				return err
			}
			effect := fmt.Sprintf("The platform now "+what.effect, args[0])
			if got.Until == nil {
				return app.PrintDone("%s.", effect)
			}
			return app.PrintDone("%s. It stops %s, or with: stagedoor sandbox clear %s",
				effect, app.Out.Ago(*got.Until), core.Quote(args[0]))
		}),
	}
	if what.kind != "otp_next" {
		cmd.Flags().DurationVar(&length, "for", 0, "duration, up to 1h (default 60s)")
		cmd.Flags().IntVar(&count, "count", 0, "maximum number of affected calls")
	}
	return cmd
}

func clearFaults(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "clear <account>", Short: "Stop all faults and generated events of an account",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, args []string) error {
			if _, err := app.API().Sandbox.StopGenerator(cmd.Context(), id); err != nil {
				return err
			}
			got, err := app.API().Sandbox.ClearFaults(cmd.Context(), id, app.Keep())
			if err != nil {
				return err
			}
			return app.PrintDone("Cleared %s of %s.", output.Count(got.Cleared, "fault", "faults"), args[0])
		}),
	}
}

// fanActions are the values of the API's member `do`.
var fanActions = []string{"message", "tip", "subscribe", "unsubscribe", "like", "comment", "typing"}

func fanAction(app *core.App) *cobra.Command {
	var account, fan, text string
	var cents int64
	cmd := &cobra.Command{
		Use: "act <action>", Short: "Make a fan act: " + strings.Join(fanActions, ", "), Args: cobra.ExactArgs(1),
		Long: `Make a fan act, with all consequences: a tip also causes its transaction and its notification. To send a single
event, use stagedoor trigger.

Actions: ` + strings.Join(fanActions, ", ") + `.`,
		Example: `  stagedoor sandbox act message -a Maya --text 'Hello!'
  stagedoor sandbox act tip -a Maya --cents 2500`,
		ValidArgs: fanActions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := core.OneOf("action", args[0], fanActions); err != nil {
				return err
			}
			id, err := app.AccountID(cmd.Context(), account)
			if err != nil {
				return err
			}
			params := stagedoor.SandboxActParams{Do: args[0], FanID: fan, Text: text, AmountCents: max(cents, 0)}
			if _, err := app.API().Sandbox.Act(cmd.Context(), id, params, app.Keep()); err != nil {
				return err
			}
			return app.PrintDone("A fan did this: %s. Show the events: stagedoor events list -a %s", args[0], id)
		},
	}
	app.AccountFlag(cmd, &account)
	cmd.Flags().StringVar(&fan, "fan", "", "the fan's id on the platform (default: one of the creator's fans)")
	cmd.Flags().StringVar(&text, "text", "", "text of the message, tip or comment")
	cmd.Flags().Int64Var(&cents, "cents", 0, "amount of a tip in cents")
	return cmd
}

func generateEvents(app *core.App) *cobra.Command {
	var rate float64
	var length time.Duration
	cmd := &cobra.Command{
		Use: "generate <account>", Short: "Generate events for an account for a while",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Generate events for an account for a while: mostly messages, and some tips, likes and new fans.

Running it again replaces the previous run. Stop it with stagedoor sandbox clear.`,
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, args []string) error {
			params := stagedoor.SandboxStartGeneratorParams{PerSecond: rate, Seconds: seconds(length)}
			if _, err := app.API().Sandbox.StartGenerator(cmd.Context(), id, params, app.Keep()); err != nil {
				return err
			}
			return app.PrintDone("Generating about %g events per second for %s. Watch them: stagedoor tail events -a %s",
				rate, output.Short(length), core.Quote(args[0]))
		}),
	}
	cmd.Flags().Float64Var(&rate, "rate", 1, "events per second, 0.1 to 1000")
	cmd.Flags().DurationVar(&length, "for", time.Minute, "duration, up to 10m")
	return cmd
}

// attemptSteps are the values of the API's member `to`: what the creator does on the phone.
var attemptSteps = []string{"scan", "approve", "deny", "pass_selfie", "fail_selfie"}

func advanceAttempt(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use:     "advance <attempt> <step>",
		Short:   "Act as the creator on the phone: " + strings.Join(attemptSteps, ", "),
		Args:    cobra.ExactArgs(2),
		Example: "  stagedoor sandbox advance att_01k9x5ahzre4bb3069xb2way0g approve",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := core.OneOf("step", args[1], attemptSteps); err != nil {
				return err
			}
			params := stagedoor.SandboxAdvanceAttemptParams{To: args[1]}
			attempt, err := app.API().Sandbox.AdvanceAttempt(cmd.Context(), args[0], params, app.Keep())
			if err != nil {
				return err
			}
			return app.PrintDone("Done: %s. The attempt is now %s.", args[1], attempt.State)
		},
	}
}

func openSession(app *core.App) *cobra.Command {
	var curl bool
	cmd := &cobra.Command{
		Use: "session <login>", Short: "Create a browser session to try connect with cookie or curl",
		Args:    cobra.ExactArgs(1),
		Example: "  stagedoor sandbox session ok@sandbox.test | stagedoor connect --method cookie\n  stagedoor sandbox session ok@sandbox.test --curl | stagedoor connect --method curl",
		RunE: func(cmd *cobra.Command, args []string) error {
			params := stagedoor.SandboxOpenSessionParams{Login: args[0]}
			got, err := app.API().Sandbox.OpenSession(cmd.Context(), params, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			switch {
			case curl:
				app.Out.Data("%s", got.Curl)
			default:
				app.Out.Data("cookie: %s\nuser-agent: %s", got.Cookie, got.UserAgent)
				for name, value := range got.Headers {
					app.Out.Data("%s: %s", name, value)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&curl, "curl", false, "print it as a cURL command")
	return cmd
}
