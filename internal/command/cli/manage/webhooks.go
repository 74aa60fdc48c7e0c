package manage

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

func webhooks(app *core.App) *cobra.Command {
	return core.Group("webhooks", "Manage webhooks and their deliveries",
		listWebhooks(app), getWebhook(app), setWebhook(app), testWebhook(app), removeWebhook(app), rotateSecret(app),
		listDeliveries(app), replayEvents(app))
}

func listWebhooks(app *core.App) *cobra.Command {
	var state string
	kinds := []string{"healthy", "failing", "paused", "disabled"}
	cmd := &cobra.Command{
		Use: "list", Short: "List the webhooks of all accounts", Args: cobra.NoArgs,
		Long: "List the webhooks of all accounts.\n\nColumns in a pipe: account id, account, state, last status, last attempt, URL.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if state != "" {
				if err := core.OneOf("state", state, kinds); err != nil {
					return err
				}
			}
			params := stagedoor.WebhooksListParams{State: state, Limit: 100}
			got, err := app.API().Webhooks.List(cmd.Context(), params, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			table := output.Table{
				Columns: output.Columns("account", "label~", "state", ">last", "tried", "url~"),
				Empty: "No webhooks yet. Add one with stagedoor webhooks set, " +
					"or try stagedoor listen --forward-to localhost:3000.",
			}
			if state != "" {
				table.Empty = "No " + state + " webhooks."
			}
			for _, w := range got.Webhooks {
				table.Rows = append(table.Rows, []output.Cell{
					output.Text(w.AccountID), output.Text(w.Label), output.State(w.Health.State),
					output.Status(core.Deref(w.Health.LastStatus)), app.Out.When(core.Deref(w.Health.LastDeliveryAt)),
					output.Text(w.URL),
				})
			}
			app.Out.Table(table)
			return nil
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only webhooks in this state: healthy, failing, paused or disabled")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func getWebhook(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "get <account>", Short: "Show an account's webhook and its health",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, _ []string) error {
			webhook, err := app.API().Webhooks.Get(cmd.Context(), id, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			showWebhook(app, webhook)
			return nil
		}),
	}
}

func showWebhook(app *core.App, w *stagedoor.Webhook) {
	events := "all"
	if len(w.Events) > 0 {
		events = strings.Join(w.Events, " ")
	}
	state := output.State(w.Health.State)
	if reason := core.Deref(w.DisabledReason); reason != "" {
		state = output.Toned(output.Attention, "off: "+reason)
	}
	fields := []output.Field{
		{Name: "url", Cell: output.Toned(output.Strong, w.URL)},
		{Name: "events", Cell: output.Text(events)},
		{Name: "state", Cell: state},
		{Name: "order", Cell: output.Text(w.Ordering)},
		{Name: "waiting", Cell: output.Number(w.Health.Backlog)},
		{Name: "last status", Cell: output.Status(core.Deref(w.Health.LastStatus))},
		{Name: "last sent", Cell: app.Out.When(core.Deref(w.Health.LastDeliveryAt))},
		{Name: "failing since", Cell: app.Out.When(core.Deref(w.Health.FailingSince))},
		{Name: "next attempt", Cell: app.Out.When(core.Deref(w.Health.NextAttemptAt))},
	}
	secret := cmp.Or(w.SigningSecret, "…"+w.SigningSecretLast4)
	fields = append(fields, output.Field{Name: "secret", Cell: output.Text(secret)})
	if w.PreviousSecretUntil != nil {
		fields = append(fields, output.Field{Name: "old secret until", Cell: app.Out.When(*w.PreviousSecretUntil)})
	}
	app.Out.Fields(fields)
}

func setWebhook(app *core.App) *cobra.Command {
	var events []string
	var secretFile, ordering string
	cmd := &cobra.Command{
		Use: "set <account> <url>", Short: "Send an account's events to a URL", Args: cobra.ExactArgs(2),
		Long: `Send an account's events to a URL.

Prints the signing secret once; save it. The service creates the secret unless you set your own with --secret-file.
Setting the webhook again keeps its secret and retries failed events immediately.`,
		Example: "  stagedoor webhooks set Maya https://example.com/hooks\n  stagedoor webhooks set Maya https://example.com/hooks --events 'message*,tips'",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return app.CompleteAccounts(cmd, args, begun)
		},
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, args []string) error {
			params := stagedoor.WebhooksSetParams{URL: args[1], Events: events, Ordering: ordering}
			if secretFile != "" {
				text, err := app.ReadFile(secretFile)
				if err != nil {
					return err
				}
				params.SigningSecret = strings.TrimSpace(string(text))
			}
			webhook, err := app.API().Webhooks.Set(cmd.Context(), id, params, app.Keep())
			if err != nil {
				return err
			}
			app.Out.Done("Events of %s are sent to %s.", args[0], webhook.URL)
			if !app.Out.JSON {
				app.Out.Say("Save the signing secret now; it will not be shown again:")
			}
			printSecret(app, webhook)
			app.Out.Hint("Test it: stagedoor webhooks test %s", core.Quote(args[0]))
			return nil
		}),
	}
	cmd.Flags().StringSliceVar(&events, "events", nil,
		"only these kinds: names, patterns such as 'message*', !name to exclude (default: all)")
	cmd.Flags().StringVar(&secretFile, "secret-file", "",
		"file with your own secret of 16 to 128 characters; - reads standard input")
	cmd.Flags().StringVar(&ordering, "ordering", "", "strict (one event after another) or none")
	_ = cmd.MarkFlagFilename("secret-file")
	return cmd
}

// printSecret prints only the secret to standard output, for scripts, or the response with --json.
func printSecret(app *core.App, w *stagedoor.Webhook) {
	if !app.Out.JSON {
		app.Out.Data("%s", w.SigningSecret)
	}
	_ = app.PrintResponse(nil)
}

func testWebhook(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "test <account>", Short: "Send a test event to an account's webhook",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Send a test event to an account's webhook and show the response. Exit codes: 0 for a 2xx response, 1 for any
other or none.

Columns in a pipe: delivered, status, milliseconds, response or, without one, the reason.`,
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, _ []string) error {
			spin := app.Out.Spin("Sending a test event")
			got, err := app.API().Webhooks.Test(cmd.Context(), id, app.Keep())
			spin.Stop()
			if err != nil {
				return err
			}
			return showTest(app, got)
		}),
	}
}

// showTest shows the response to a test event. It is a fault if the event was not accepted.
func showTest(app *core.App, got *stagedoor.WebhookTest) error {
	switch {
	case app.Out.JSON:
		_ = app.PrintResponse(nil)
	case !app.Out.TTY:
		app.Out.Data("%t\t%d\t%d\t%s", got.Delivered, got.Status, got.DurationMs, cmp.Or(strings.TrimSpace(output.OneLine(got.ResponseSnippet)), core.Deref(got.Error)))
	case got.Delivered:
		app.Out.Done("Delivered: %d after %s.", got.Status, output.Millis(float64(got.DurationMs)))
	}
	if got.Delivered {
		return nil
	}
	return deliveryFault(got)
}

// deliveryFault returns the fault of a test event that was not accepted. Status 0 means no response.
func deliveryFault(test *stagedoor.WebhookTest) error {
	if test.Status == 0 {
		return &core.Fault{
			Code: core.ExitOther, Text: "no response from the webhook: " + core.Deref(test.Error),
			Hint: "Check that the receiver is running and that the server can reach it.",
		}
	}
	text := fmt.Sprintf("the webhook returned %d", test.Status)
	if snippet := strings.TrimSpace(output.OneLine(test.ResponseSnippet)); snippet != "" {
		text += ": " + output.Cut(snippet, 120)
	}
	return &core.Fault{
		Code: core.ExitOther, Text: text,
		Hint: "Only a 2xx response counts as delivered. To check a signature, use stagedoor verify.",
	}
}

func removeWebhook(app *core.App) *cobra.Command {
	var confirmed string
	cmd := &cobra.Command{
		Use: "rm <account>", Short: "Remove an account's webhook",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Remove an account's webhook and its secret.

Undelivered events are not sent any more. They stay in the log and can be replayed to another webhook.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			account, err := app.ConfirmAccount(ctx, args[0], confirmed,
				"This removes the webhook of %s and its secret. Undelivered events are not sent any more.")
			if err != nil {
				return err
			}
			_, err = app.API().Webhooks.Delete(ctx, account.ID, app.Keep())
			if app.PrintResponse(err) != nil {
				return err
			}
			app.Out.Done("Removed the webhook of %s.", core.AccountName(account))
			return nil
		},
	}
	cmd.Flags().StringVar(&confirmed, "confirm", "", "the account's name or id, to skip the prompt")
	return cmd
}

func rotateSecret(app *core.App) *cobra.Command {
	var overlap time.Duration
	cmd := &cobra.Command{
		Use: "rotate <account>", Short: "Rotate the signing secret of an account's webhook",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Rotate the signing secret of an account's webhook.

During --overlap, deliveries are also signed with the old secret.`,
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, _ []string) error {
			params := stagedoor.WebhooksRotateSecretParams{OverlapSec: stagedoor.Ptr(int64(overlap.Seconds()))}
			webhook, err := app.API().Webhooks.RotateSecret(cmd.Context(), id, params, app.Keep())
			if err != nil {
				return err
			}
			app.Out.Done("Rotated. Deliveries are also signed with the old secret for %s. "+
				"Save the new secret now; it will not be shown again:", output.Short(overlap))
			printSecret(app, webhook)
			return nil
		}),
	}
	cmd.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long to sign with the old secret as well")
	return cmd
}

func listDeliveries(app *core.App) *cobra.Command {
	var failed bool
	var event string
	var limit int
	cmd := &cobra.Command{
		Use: "deliveries <account>", Short: "List deliveries to an account's webhook",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `List deliveries to an account's webhook, newest first.

Columns in a pipe: time, delivery id, event, event id, attempt, state, status, milliseconds, error.`,
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, _ []string) error {
			params := stagedoor.WebhooksListDeliveriesParams{Event: event, Limit: int64(limit)}
			if failed {
				params.State = "failed"
			}
			got, err := app.API().Webhooks.ListDeliveries(cmd.Context(), id, params, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			printDeliveries(app, got.Deliveries)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "only failed deliveries")
	cmd.Flags().StringVar(&event, "event", "", "only events of this kind, or the event with this id")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of deliveries, up to 100")
	return cmd
}

func printDeliveries(app *core.App, list []stagedoor.Delivery) {
	table := output.Table{
		Columns: output.Columns("when", "event", "event id", ">try", "state", ">status", ">took",
			"error~"), Empty: "No deliveries.",
	}
	if !app.Out.TTY {
		table.Columns = output.Columns("when", "id", "event", "event id", "try", "state", "status", "took", "error")
	}
	for _, d := range list {
		why := core.Deref(d.Error)
		if why == "" && d.State == "failed" {
			why = core.Deref(d.ResponseSnippet)
		}
		row := []output.Cell{app.Out.When(d.At)}
		if !app.Out.TTY {
			row = append(row, output.Text(d.ID))
		}
		table.Rows = append(table.Rows, append(row, output.Text(d.Event), output.Text(d.EventID),
			output.Text(strconv.FormatInt(d.Attempt, 10)), output.State(d.State), output.Status(d.Status),
			output.Cell{Text: output.Millis(d.DurationMs),
				Raw: strconv.FormatFloat(d.DurationMs, 'f', 0, 64)}, output.Text(why)))
	}
	app.Out.Table(table)
}

type replayOptions struct {
	failed       bool
	since, until string
	from         string
	delivery     string
	events       []string
}

func replayEvents(app *core.App) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use: "replay <account>", Short: "Resend stored events to an account's webhook",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Resend stored events to an account's webhook, with their original bytes and ids, in order. New events do not
wait for it.

Choose the start with --since or --from, or a single delivery with --delivery. With --failed, resend only events that
were never delivered successfully.`,
		Example: "  stagedoor webhooks replay Maya --failed --since 1h\n  stagedoor webhooks replay Maya --from evt_01k9x5ahzre4bb3069xb2way0g\n  stagedoor webhooks replay Maya --delivery whd_01k9x5ahzre4bb3069xb2way0g",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if o.delivery != "" {
				_, err = app.API().Webhooks.Redeliver(cmd.Context(), id, o.delivery, app.Keep())
			} else {
				var params stagedoor.WebhooksReplayParams
				if params, err = o.params(app); err != nil {
					return err
				}
				_, err = app.API().Webhooks.Replay(cmd.Context(), id, params, app.Keep())
			}
			if err != nil {
				return err
			}
			return app.PrintDone("Replay started. Watch it: stagedoor webhooks deliveries %s", core.Quote(args[0]))
		},
	}
	cmd.Flags().BoolVar(&o.failed, "failed", false, "only events that were never delivered successfully")
	cmd.Flags().StringVar(&o.since, "since", "", "start at 15m, 1h or 2d ago, or at a time (RFC 3339)")
	cmd.Flags().StringVar(&o.until, "until", "", "end at this time")
	cmd.Flags().StringVar(&o.from, "from", "", "start at this event")
	cmd.Flags().StringVar(&o.delivery, "delivery", "", "resend only the event of this delivery")
	cmd.Flags().StringSliceVar(&o.events, "events", nil, "only these kinds")
	cmd.MarkFlagsMutuallyExclusive("since", "from", "delivery")
	return cmd
}

func (o replayOptions) params(app *core.App) (stagedoor.WebhooksReplayParams, error) {
	params := stagedoor.WebhooksReplayParams{FromID: o.from, OnlyFailed: o.failed, Events: o.events}
	if o.from == "" && o.since == "" {
		return params, core.UsageHint("Add --since 1h or --from evt_….", "the start of the replay is required")
	}
	var err error
	if o.from == "" {
		if params.FromTime, err = app.Since(o.since); err != nil {
			return params, err
		}
	}
	if o.until != "" {
		params.ToTime, err = app.Since(o.until)
	}
	return params, err
}

// accountNames returns account names by id, for tables that have only ids. It returns an empty map if the request
// fails, for example for a key without accounts:read.
func accountNames(ctx context.Context, app *core.App) map[string]string {
	names := map[string]string{}
	page, err := app.API().Accounts.List(ctx, stagedoor.AccountsListParams{Limit: 100})
	if err != nil {
		return names
	}
	for _, a := range page.Accounts {
		names[a.ID] = core.AccountName(a.Account)
	}
	return names
}
