package manage

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// event is the envelope.
type event struct {
	ID        string          `json:"id"`
	Event     string          `json:"event"`
	AccountID *string         `json:"accountId"`
	TS        time.Time       `json:"ts"`
	Data      json.RawMessage `json:"data"`
}

func listEvents(app *core.App) *cobra.Command {
	var account string
	var kinds []string
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List the latest events", Args: cobra.NoArgs,
		Long:    "List the latest events, newest first. To follow them as they happen, use stagedoor listen or stagedoor tail events.\n\nColumns in a pipe: time, event, event id, account id, data.",
		Example: "  stagedoor events list\n  stagedoor events list -a Maya --events 'message*,tips' --limit 50",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{"latest": {strconv.Itoa(limit)}}
			if account != "" {
				id, err := app.AccountID(cmd.Context(), account)
				if err != nil {
					return err
				}
				query.Set("accountId", id)
			}
			if len(kinds) > 0 {
				query["events"] = kinds
			}
			var got struct{ Events []event }
			reply, err := app.Get(cmd.Context(), "/v1/events", query, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			table := out.Table{Columns: out.Columns("when", "event", "id", "account~", "data~"), Empty: "No events yet. In the sandbox, make one: stagedoor trigger message"}
			names := map[string]string{}
			if app.Out.TTY && len(got.Events) > 0 {
				names = labels(cmd.Context(), app)
			}
			for _, e := range got.Events {
				id := core.Deref(e.AccountID)
				who := out.Cell{Text: names[id], Raw: id}
				if who.Text == "" {
					who.Text = id
				}
				table.Rows = append(table.Rows, []out.Cell{app.Out.When(e.TS), out.Toned(out.Accent, e.Event), out.Text(e.ID), who, out.Toned(out.Faint, string(e.Data))})
			}
			app.Out.Table(table)
			return nil
		},
	}
	cmd.Flags().StringVarP(&account, "account", "a", "", "only of this account: its id, label or user name")
	cmd.Flags().StringSliceVar(&kinds, "events", nil, "only these: names, families such as 'message*', !name to leave out")
	cmd.Flags().IntVar(&limit, "limit", 20, "at most so many, 100 at most")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	return cmd
}

func getEvent(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "get <event>", Short: "Show an event, and what became of it", Args: cobra.ExactArgs(1),
		Long: "Show an event as it was sent, and what became of it: each attempt to deliver it to the account's webhook.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var got struct{ Event json.RawMessage }
			reply, err := app.Get(cmd.Context(), "/v1/events/"+url.PathEscape(args[0]), nil, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			app.Out.Body(got.Event)
			var sent struct{ Deliveries []delivery }
			if _, err := app.Get(cmd.Context(), "/v1/deliveries", url.Values{"event": {args[0]}}, &sent); err != nil {
				return nil //nolint:nilerr // a key without webhooks:read still gets the event itself
			}
			for _, d := range sent.Deliveries {
				app.Out.Say("%s  try %d  %s  %d  %s", out.Clock(d.At), d.Attempt, d.State, d.Status, out.Millis(d.DurationMs))
			}
			if len(sent.Deliveries) == 0 {
				app.Out.Hint("It was not sent to a webhook. Send it to a program of yours: stagedoor events replay %s --forward-to localhost:3000", args[0])
			}
			return nil
		},
	}
}
