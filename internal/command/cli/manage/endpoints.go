package manage

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

func endpoints(app *core.App) *cobra.Command {
	return core.Group("endpoints", "Manage webhook endpoints: URLs that receive the events of many accounts",
		listEndpoints(app), getEndpoint(app), addEndpoint(app), updateEndpoint(app), testEndpoint(app), removeEndpoint(app), rotateEndpoint(app),
		endpointDeliveries(app), getEndpointDelivery(app), replayEndpoint(app))
}

func listEndpoints(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the webhook endpoints", Args: cobra.NoArgs,
		Long: "List the webhook endpoints.\n\nColumns in a pipe: id, state, waiting events, late accounts, last status, last attempt, description, URL.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := app.API().WebhookEndpoints.List(cmd.Context(), app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			table := output.Table{
				Columns: output.Columns("id", "state", ">waiting", ">late", ">last", "tried", "description~", "url~"),
				Empty:   "No endpoints yet. Add one with stagedoor endpoints add.",
			}
			for i := range got.Endpoints {
				e := &got.Endpoints[i]
				table.Rows = append(table.Rows, []output.Cell{
					output.Text(e.ID), output.State(e.Health.State), output.Number(e.Health.Backlog), output.Number(e.Health.AccountsBehind),
					output.Status(core.Deref(e.Health.LastStatus)), app.Out.When(core.Deref(e.Health.LastDeliveryAt)), output.Text(e.Description), output.Text(e.URL),
				})
			}
			app.Out.Table(table)
			return nil
		},
	}
}

func getEndpoint(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "get <endpoint>", Short: "Show a webhook endpoint and its health", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := app.API().WebhookEndpoints.Get(cmd.Context(), args[0], app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			showEndpoint(app, e)
			return nil
		},
	}
}

func showEndpoint(app *core.App, e *stagedoor.WebhookEndpoint) {
	all := func(list []string) output.Cell {
		if len(list) == 0 {
			return output.Text("all")
		}
		return output.Text(strings.Join(list, " "))
	}
	state := output.State(e.Health.State)
	if reason := core.Deref(e.DisabledReason); reason != "" {
		state = output.Toned(output.Attention, "off: "+reason)
	}
	fields := []output.Field{
		{Name: "id", Cell: output.Text(e.ID)},
		{Name: "url", Cell: output.Toned(output.Strong, e.URL)},
		{Name: "description", Cell: output.Text(e.Description)},
		{Name: "events", Cell: all(e.Events)},
		{Name: "accounts", Cell: all(e.AccountIDs)},
		{Name: "platforms", Cell: all(e.Platforms)},
		{Name: "state", Cell: state},
		{Name: "order", Cell: output.Text(e.Ordering)},
		{Name: "waiting", Cell: output.Number(e.Health.Backlog)},
		{Name: "late accounts", Cell: output.Number(e.Health.AccountsBehind)},
		{Name: "last status", Cell: output.Status(core.Deref(e.Health.LastStatus))},
		{Name: "last sent", Cell: app.Out.When(core.Deref(e.Health.LastDeliveryAt))},
		{Name: "failing since", Cell: app.Out.When(core.Deref(e.Health.FailingSince))},
		{Name: "next attempt", Cell: app.Out.When(core.Deref(e.Health.NextAttemptAt))},
		{Name: "secret", Cell: output.Text(cmp.Or(e.SigningSecret, "…"+e.SigningSecretLast4))},
	}
	if e.PreviousSecretUntil != nil {
		fields = append(fields, output.Field{Name: "old secret until", Cell: app.Out.When(*e.PreviousSecretUntil)})
	}
	app.Out.Fields(fields)
}

// endpointFlags are the settings that add and update share.
type endpointFlags struct {
	events, accounts, platforms []string
	description, ordering       string
}

func (f *endpointFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&f.events, "events", nil, "only these kinds: names, patterns such as 'message*', !name to exclude (default: all)")
	cmd.Flags().StringSliceVar(&f.accounts, "accounts", nil, "only events of these accounts, by id (default: all)")
	cmd.Flags().StringSliceVar(&f.platforms, "platforms", nil, "only events of accounts on these platforms (default: all)")
	cmd.Flags().StringVar(&f.description, "description", "", "a note for people")
	cmd.Flags().StringVar(&f.ordering, "ordering", "", "account (the events of an account one after another) or none")
}

func addEndpoint(app *core.App) *cobra.Command {
	var f endpointFlags
	var secretFile string
	var replace bool
	cmd := &cobra.Command{
		Use: "add <url>", Short: "Send the events of all accounts to a URL", Args: cobra.ExactArgs(1),
		Long: `Send the events of all accounts, and of the organisation, to a URL.

Prints the signing secret once; save it. The service creates the secret unless you set your own with --secret-file.

With --replace-webhooks, the endpoint takes over the webhooks of accounts that have the same URL: they are removed, and
the endpoint continues where they stopped. Nothing is lost; events of the last seconds may arrive twice, with the same id.`,
		Example: "  stagedoor endpoints add https://example.com/hooks\n  stagedoor endpoints add https://example.com/hooks --events 'message*,connect.*'\n  stagedoor endpoints add https://example.com/hooks --replace-webhooks",
		RunE: func(cmd *cobra.Command, args []string) error {
			params := stagedoor.WebhookEndpointsCreateParams{
				URL: args[0], Description: f.description, Events: f.events, AccountIDs: f.accounts, Platforms: f.platforms, Ordering: f.ordering, ReplaceWebhooks: replace,
			}
			if secretFile != "" {
				text, err := app.ReadFile(secretFile)
				if err != nil {
					return err
				}
				params.SigningSecret = strings.TrimSpace(string(text))
			}
			e, err := app.API().WebhookEndpoints.Create(cmd.Context(), params, app.Keep())
			if err != nil {
				return err
			}
			app.Out.Done("Events are sent to %s. The endpoint is %s.", e.URL, e.ID)
			if replace {
				app.Out.Say("Webhooks of accounts that it replaced: %d.", e.ReplacedWebhooks)
			}
			if !app.Out.JSON {
				app.Out.Say("Save the signing secret now; it will not be shown again:")
			}
			printEndpointSecret(app, e)
			app.Out.Hint("Test it: stagedoor endpoints test %s", e.ID)
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "file with your own secret of 16 to 128 characters; - reads standard input")
	cmd.Flags().BoolVar(&replace, "replace-webhooks", false, "take over the webhooks of accounts that have the same URL")
	_ = cmd.MarkFlagFilename("secret-file")
	return cmd
}

// printEndpointSecret prints only the secret to standard output, for scripts, or the response with --json.
func printEndpointSecret(app *core.App, e *stagedoor.WebhookEndpoint) {
	if !app.Out.JSON {
		app.Out.Data("%s", e.SigningSecret)
	}
	_ = app.PrintResponse(nil)
}

func updateEndpoint(app *core.App) *cobra.Command {
	var f endpointFlags
	var url string
	var enable, disable bool
	cmd := &cobra.Command{
		Use: "update <endpoint>", Short: "Change a webhook endpoint", Args: cobra.ExactArgs(1),
		Long: `Change a webhook endpoint. Settings without a flag stay as they are. Failed deliveries are retried immediately.

With --disable, events wait; with --enable, delivery continues where it stopped.`,
		Example: "  stagedoor endpoints update whe_01k9x5ahzre4bb3069xb2way0g --disable\n  stagedoor endpoints update whe_01k9x5ahzre4bb3069xb2way0g --events 'message*'",
		RunE: func(cmd *cobra.Command, args []string) error {
			params := stagedoor.WebhookEndpointsUpdateParams{Events: f.events, AccountIDs: f.accounts, Platforms: f.platforms, Ordering: f.ordering}
			if cmd.Flags().Changed("description") {
				params.Description = &f.description
			}
			if url != "" {
				params.URL = &url
			}
			if enable || disable {
				params.Enabled = &enable
			}
			e, err := app.API().WebhookEndpoints.Update(cmd.Context(), args[0], params, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			showEndpoint(app, e)
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&url, "url", "", "the new URL")
	cmd.Flags().BoolVar(&enable, "enable", false, "continue delivery")
	cmd.Flags().BoolVar(&disable, "disable", false, "hold the events")
	cmd.MarkFlagsMutuallyExclusive("enable", "disable")
	return cmd
}

func testEndpoint(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "test <endpoint>", Short: "Send a test event to a webhook endpoint", Args: cobra.ExactArgs(1),
		Long: `Send a test event to a webhook endpoint and show the response. Exit codes: 0 for a 2xx response, 1 for any other or
none.

Columns in a pipe: delivered, status, milliseconds, response or, without one, the reason.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			spin := app.Out.Spin("Sending a test event")
			got, err := app.API().WebhookEndpoints.Test(cmd.Context(), args[0], app.Keep())
			spin.Stop()
			if err != nil {
				return err
			}
			return showTest(app, got)
		},
	}
}

func removeEndpoint(app *core.App) *cobra.Command {
	var confirmed string
	cmd := &cobra.Command{
		Use: "rm <endpoint>", Short: "Remove a webhook endpoint", Args: cobra.ExactArgs(1),
		Long: `Remove a webhook endpoint and its secret.

Undelivered events are not sent any more. They stay in the log and can be replayed to another endpoint.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := app.Confirm(ctx, "This removes the endpoint and its secret. Undelivered events are not sent any more.", args[0], confirmed); err != nil {
				return err
			}
			_, err := app.API().WebhookEndpoints.Delete(ctx, args[0], app.Keep())
			if app.PrintResponse(err) != nil {
				return err
			}
			app.Out.Done("Removed the endpoint %s.", args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&confirmed, "confirm", "", "the endpoint's id, to skip the prompt")
	return cmd
}

func rotateEndpoint(app *core.App) *cobra.Command {
	var overlap time.Duration
	cmd := &cobra.Command{
		Use: "rotate <endpoint>", Short: "Rotate the signing secret of a webhook endpoint", Args: cobra.ExactArgs(1),
		Long: `Rotate the signing secret of a webhook endpoint.

During --overlap, deliveries are also signed with the old secret.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			params := stagedoor.WebhookEndpointsRotateSecretParams{OverlapSec: stagedoor.Ptr(int64(overlap.Seconds()))}
			e, err := app.API().WebhookEndpoints.RotateSecret(cmd.Context(), args[0], params, app.Keep())
			if err != nil {
				return err
			}
			app.Out.Done("Rotated. Deliveries are also signed with the old secret for %s. "+
				"Save the new secret now; it will not be shown again:", output.Short(overlap))
			printEndpointSecret(app, e)
			return nil
		},
	}
	cmd.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long to sign with the old secret as well")
	return cmd
}

func endpointDeliveries(app *core.App) *cobra.Command {
	var failed bool
	var event string
	var limit int
	cmd := &cobra.Command{
		Use: "deliveries <endpoint>", Short: "List deliveries to a webhook endpoint", Args: cobra.ExactArgs(1),
		Long: `List deliveries to a webhook endpoint, newest first.

Columns in a pipe: time, delivery id, event, event id, attempt, state, status, milliseconds, error.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			params := stagedoor.WebhookEndpointsListDeliveriesParams{Event: event, Limit: int64(limit)}
			if failed {
				params.State = "failed"
			}
			got, err := app.API().WebhookEndpoints.ListDeliveries(cmd.Context(), args[0], params, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			printDeliveries(app, got.Deliveries)
			return nil
		},
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "only failed deliveries")
	cmd.Flags().StringVar(&event, "event", "", "only events of this kind, or the event with this id")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of deliveries, up to 100")
	return cmd
}

func getEndpointDelivery(app *core.App) *cobra.Command {
	var curl bool
	cmd := &cobra.Command{
		Use: "delivery <endpoint> <delivery>", Short: "Show a delivery with its request", Args: cobra.ExactArgs(2),
		Long: "Show a delivery to a webhook endpoint with its request.\n\nWith --curl, print only the command that sends the request again.",
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := app.API().WebhookEndpoints.GetDelivery(cmd.Context(), args[0], args[1], app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			if curl {
				app.Out.Data("%s", d.Curl)
				return nil
			}
			app.Out.Fields([]output.Field{
				{Name: "id", Cell: output.Text(d.ID)},
				{Name: "event", Cell: output.Text(d.Event)},
				{Name: "event id", Cell: output.Text(d.EventID)},
				{Name: "account", Cell: output.Text(d.AccountID)},
				{Name: "when", Cell: app.Out.When(d.At)},
				{Name: "attempt", Cell: output.Text(strconv.FormatInt(d.Attempt, 10))},
				{Name: "state", Cell: output.State(d.State)},
				{Name: "status", Cell: output.Status(d.Status)},
				{Name: "error", Cell: output.Text(core.Deref(d.Error))},
				{Name: "url", Cell: output.Text(d.Request.URL)},
				{Name: "body", Cell: output.Text(core.Deref(d.Request.Body))},
			})
			return nil
		},
	}
	cmd.Flags().BoolVar(&curl, "curl", false, "print a curl command that sends the request again")
	return cmd
}

func replayEndpoint(app *core.App) *cobra.Command {
	var since, until, delivery string
	var accounts, events []string
	cmd := &cobra.Command{
		Use: "replay <endpoint>", Short: "Resend stored events to a webhook endpoint", Args: cobra.ExactArgs(1),
		Long: `Resend stored events to a webhook endpoint, with their original bytes and ids. Those of an account are in order. New events do
not wait for it.

Choose the start with --since, or a single delivery with --delivery.`,
		Example: "  stagedoor endpoints replay whe_01k9x5ahzre4bb3069xb2way0g --since 1h\n  stagedoor endpoints replay whe_01k9x5ahzre4bb3069xb2way0g --delivery whd_01k9x5ahzre4bb3069xb2way0g",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			switch {
			case delivery != "":
				_, err = app.API().WebhookEndpoints.Redeliver(cmd.Context(), args[0], delivery, app.Keep())
			case since == "":
				return core.UsageHint("Add --since 1h or --delivery whd_….", "the start of the replay is required")
			default:
				params := stagedoor.WebhookEndpointsReplayParams{AccountIDs: accounts, Events: events}
				if params.FromTime, err = app.Since(since); err != nil {
					return err
				}
				if until != "" {
					if params.ToTime, err = app.Since(until); err != nil {
						return err
					}
				}
				_, err = app.API().WebhookEndpoints.Replay(cmd.Context(), args[0], params, app.Keep())
			}
			if err != nil {
				return err
			}
			return app.PrintDone("Replay started. Watch it: stagedoor endpoints deliveries %s", args[0])
		},
	}
	cmd.Flags().StringVar(&since, "since", "", "start at 15m, 1h or 2d ago, or at a time (RFC 3339)")
	cmd.Flags().StringVar(&until, "until", "", "end at this time")
	cmd.Flags().StringVar(&delivery, "delivery", "", "resend only the event of this delivery")
	cmd.Flags().StringSliceVar(&accounts, "accounts", nil, "only events of these accounts, by id")
	cmd.Flags().StringSliceVar(&events, "events", nil, "only these kinds")
	cmd.MarkFlagsMutuallyExclusive("since", "delivery")
	return cmd
}
