package manage

import (
	"cmp"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

func listEvents(app *core.App) *cobra.Command {
	var account string
	var kinds []string
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List the latest events", Args: cobra.NoArgs,
		Long: `List the latest events, newest first. To follow new events, use stagedoor listen or stagedoor tail events.

Columns in a pipe: time, event, event id, account id, data.`,
		Example: "  stagedoor events list\n  stagedoor events list -a Maya --events 'message*,tips' --limit 50",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return core.Usage("--limit must be at least 1")
			}
			params := stagedoor.EventsListParams{Latest: int64(limit), Events: kinds}
			if account != "" {
				id, err := app.AccountID(cmd.Context(), account)
				if err != nil {
					return err
				}
				params.AccountID = id
			}
			got, err := app.API().Events.List(cmd.Context(), params, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			table := output.Table{
				Columns: output.Columns("when", "event", "id", "account~", "data~"),
				Empty:   "No events yet. Trigger one in the sandbox: stagedoor trigger message",
			}
			names := map[string]string{}
			if app.Out.TTY && len(got.Events) > 0 {
				names = accountNames(cmd.Context(), app)
			}
			for _, e := range got.Events {
				who := output.Cell{Text: cmp.Or(names[e.AccountID], e.AccountID), Raw: e.AccountID}
				table.Rows = append(table.Rows, []output.Cell{app.Out.When(e.Time), output.Toned(output.Accent, string(e.Kind)),
					output.Text(e.ID), who, output.Toned(output.Faint, string(core.EventData(&e)))})
			}
			app.Out.Table(table)
			return nil
		},
	}
	cmd.Flags().StringVarP(&account, "account", "a", "", "only this account (id, label or user name)")
	cmd.Flags().StringSliceVar(&kinds, "events", nil,
		"only these kinds: names, patterns such as 'message*', !name to exclude")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of events, up to 100")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	return cmd
}

func getEvent(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "get <event>", Short: "Show an event and its deliveries", Args: cobra.ExactArgs(1),
		Long: "Show an event as it was sent, and each attempt to deliver it to the account's webhook.",
		RunE: func(cmd *cobra.Command, args []string) error {
			event, err := app.API().Events.Get(cmd.Context(), args[0], app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			app.Out.Body(event.Raw)
			params := stagedoor.WebhooksListEventDeliveriesParams{Event: args}
			sent, err := app.API().Webhooks.ListEventDeliveries(cmd.Context(), params)
			if err != nil {
				return nil //nolint:nilerr // a key without webhooks:read still gets the event
			}
			for _, d := range sent.Deliveries {
				app.Out.Say("%s  attempt %d  %s  %d  %s", output.Clock(d.At), d.Attempt, d.State, d.Status,
					output.Millis(d.DurationMs))
			}
			if len(sent.Deliveries) == 0 {
				app.Out.Hint("Not sent to a webhook. Send it to a local receiver: "+
					"stagedoor events replay %s --forward-to localhost:3000", args[0])
			}
			return nil
		},
	}
}
