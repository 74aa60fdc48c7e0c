package manage

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// webhook is what commands show of one.
type webhook struct {
	URL            string     `json:"url"`
	Events         []string   `json:"events"`
	Enabled        bool       `json:"enabled"`
	DisabledReason *string    `json:"disabledReason"`
	Ordering       string     `json:"ordering"`
	Last4          string     `json:"signingSecretLast4"`
	Secret         string     `json:"signingSecret"`
	PreviousUntil  *time.Time `json:"previousSecretUntil"`
	UpdatedAt      time.Time  `json:"updatedAt"`
	Health         struct {
		State         string     `json:"state"`
		Backlog       int64      `json:"backlog"`
		LastStatus    *int       `json:"lastStatus"`
		LastError     *string    `json:"lastError"`
		LastDelivery  *time.Time `json:"lastDeliveryAt"`
		FailingSince  *time.Time `json:"failingSince"`
		NextAttemptAt *time.Time `json:"nextAttemptAt"`
	} `json:"health"`
}

func webhooks(app *core.App) *cobra.Command {
	return core.Group("webhooks", "Where accounts' events are sent: set, test, watch, replay",
		listWebhooks(app), getWebhook(app), setWebhook(app), testWebhook(app), removeWebhook(app), rotate(app), deliveries(app), replay(app))
}

func hookPath(id, rest string) string {
	return "/v1/accounts/" + url.PathEscape(id) + "/webhook" + rest
}

func listWebhooks(app *core.App) *cobra.Command {
	var state string
	kinds := []string{"healthy", "failing", "paused", "disabled"}
	cmd := &cobra.Command{
		Use: "list", Short: "List the webhooks of all accounts", Args: cobra.NoArgs,
		Long: "List the webhooks of all accounts.\n\nColumns in a pipe: account id, account, state, last status, last attempt, URL.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{"limit": {"100"}}
			if state != "" {
				if err := core.OneOf("state", state, kinds); err != nil {
					return err
				}
				query.Set("state", state)
			}
			var got struct {
				Webhooks []struct {
					AccountID, Label string
					webhook
				}
			}
			reply, err := app.Get(cmd.Context(), "/v1/webhooks", query, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			table := out.Table{Columns: out.Columns("account", "label~", "state", ">last", "tried", "url~"), Empty: "No webhook yet. Add one with stagedoor webhooks set, or try stagedoor listen --forward-to localhost:3000."}
			if state != "" {
				table.Empty = "No webhook is " + state + "."
			}
			for _, w := range got.Webhooks {
				table.Rows = append(table.Rows, []out.Cell{out.Text(w.AccountID), out.Text(w.Label), out.State(w.Health.State), out.Status(core.Deref(w.Health.LastStatus)), app.Out.When(core.Deref(w.Health.LastDelivery)), out.Text(w.URL)})
			}
			app.Out.Table(table)
			return nil
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only healthy, failing, paused or disabled ones")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(kinds, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func getWebhook(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "get <account>", Short: "Show an account's webhook and how it fares", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var got struct{ Webhook webhook }
			reply, err := app.Get(cmd.Context(), hookPath(id, ""), nil, &got)
			if err != nil {
				return err
			}
			return showWebhook(app, reply, got.Webhook)
		},
	}
}

func showWebhook(app *core.App, reply core.Reply, w webhook) error {
	if app.Out.JSON {
		app.Out.Body(reply.Body)
		return nil
	}
	events := "all"
	if len(w.Events) > 0 {
		events = strings.Join(w.Events, " ")
	}
	state := out.State(w.Health.State)
	if reason := core.Deref(w.DisabledReason); reason != "" {
		state = out.Toned(out.Attention, "off: "+reason)
	}
	fields := []out.Field{
		{Name: "url", Cell: out.Toned(out.Strong, w.URL)}, {Name: "events", Cell: out.Text(events)}, {Name: "state", Cell: state}, {Name: "order", Cell: out.Text(w.Ordering)},
		{Name: "waiting", Cell: out.Number(w.Health.Backlog)}, {Name: "last status", Cell: out.Status(core.Deref(w.Health.LastStatus))},
		{Name: "last sent", Cell: app.Out.When(core.Deref(w.Health.LastDelivery))}, {Name: "failing since", Cell: app.Out.When(core.Deref(w.Health.FailingSince))},
		{Name: "next try", Cell: app.Out.When(core.Deref(w.Health.NextAttemptAt))},
	}
	if w.Secret != "" {
		fields = append(fields, out.Field{Name: "secret", Cell: out.Text(w.Secret)})
	} else {
		fields = append(fields, out.Field{Name: "secret", Cell: out.Text("…" + w.Last4)})
	}
	if w.PreviousUntil != nil {
		fields = append(fields, out.Field{Name: "old secret ends", Cell: app.Out.When(*w.PreviousUntil)})
	}
	app.Out.Fields(fields)
	return nil
}

func setWebhook(app *core.App) *cobra.Command {
	var events []string
	var secretFile, ordering string
	cmd := &cobra.Command{
		Use: "set <account> <url>", Short: "Send an account's events to a URL", Args: cobra.ExactArgs(2),
		Long: `Send an account's events to a URL.

The answer shows the signing secret; store it, it is not shown again. One is made unless you bring your own with --secret-file.
Setting a webhook anew keeps its secret, and tries at once what failed.`,
		Example: "  stagedoor webhooks set Maya https://example.com/hooks\n  stagedoor webhooks set Maya https://example.com/hooks --events 'message*,tips'",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return app.CompleteAccounts(cmd, args, begun)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			body := map[string]any{"url": args[1]}
			if len(events) > 0 {
				body["events"] = events
			}
			if ordering != "" {
				body["ordering"] = ordering
			}
			if secretFile != "" {
				text, err := app.ReadFile(secretFile)
				if err != nil {
					return err
				}
				body["signingSecret"] = strings.TrimSpace(string(text))
			}
			var got struct{ Webhook webhook }
			reply, err := app.Send(cmd.Context(), http.MethodPut, hookPath(id, ""), body, &got)
			if err != nil {
				return err
			}
			app.Out.Done("Events of %s go to %s.", args[0], got.Webhook.URL)
			if !app.Out.JSON {
				app.Out.Say("Store the signing secret now; it is not shown again:")
			}
			if err := secretOnly(app, reply, got.Webhook); err != nil {
				return err
			}
			app.Out.Hint("Try it: stagedoor webhooks test %s", core.Quote(args[0]))
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&events, "events", nil, "only these: names, families such as 'message*', !name to leave out (all, if left out)")
	cmd.Flags().StringVar(&secretFile, "secret-file", "", "a file with a secret of your own, 16 to 128 characters; - for standard input")
	cmd.Flags().StringVar(&ordering, "ordering", "", "strict (one after the other) or none")
	_ = cmd.MarkFlagFilename("secret-file")
	return cmd
}

// secretOnly prints the secret alone, so that a script can take it from standard output.
func secretOnly(app *core.App, reply core.Reply, w webhook) error {
	if app.Out.JSON {
		app.Out.Body(reply.Body)
		return nil
	}
	app.Out.Data("%s", w.Secret)
	return nil
}

func testWebhook(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "test <account>", Short: "Send a test event to an account's webhook now", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: "Send a test event to an account's webhook now, and tell what it answered. Exit code 0 is an answer of 2xx, 1 any other or none.\n\nColumns in a pipe: delivered, status, milliseconds, answer.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			spin := app.Out.Spin("Sending a test event")
			var got struct {
				Delivered       bool
				Status          int
				DurationMs      float64
				ResponseSnippet string
			}
			reply, err := app.Send(cmd.Context(), http.MethodPost, hookPath(id, "/test"), nil, &got)
			spin.Stop()
			if err != nil {
				return err
			}
			switch {
			case app.Out.JSON:
				app.Out.Body(reply.Body)
			case !app.Out.TTY:
				app.Out.Data("%t\t%d\t%.0f\t%s", got.Delivered, got.Status, got.DurationMs, strings.TrimSpace(out.OneLine(got.ResponseSnippet)))
			case got.Delivered:
				app.Out.Done("Delivered: %d after %s.", got.Status, out.Millis(got.DurationMs))
			}
			if got.Delivered {
				return nil
			}
			return undelivered(got.Status, got.DurationMs, got.ResponseSnippet)
		},
	}
}

func undelivered(status int, ms float64, snippet string) error {
	if status == 0 {
		return &core.Fault{Code: core.ExitOther, Text: "the webhook did not answer within " + out.Millis(ms), Hint: "Is the receiver running, and can the server reach it?"}
	}
	text := "the webhook answered " + strconv.Itoa(status)
	if snippet = strings.TrimSpace(out.OneLine(snippet)); snippet != "" {
		text += ": " + out.Cut(snippet, 120)
	}
	return &core.Fault{Code: core.ExitOther, Text: text, Hint: "Only an answer of 2xx counts as delivered. A wrong signature? stagedoor verify says why."}
}

func removeWebhook(app *core.App) *cobra.Command {
	var confirmed string
	cmd := &cobra.Command{
		Use: "rm <account>", Short: "Remove an account's webhook", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: "Remove an account's webhook. What has not been delivered is not sent any more; events stay in the log and can be replayed to another one.",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			account, err := app.Account(ctx, args[0])
			if err != nil {
				return err
			}
			if confirmed == account.ID {
				confirmed = account.Name()
			}
			if err := app.Confirm(ctx, "This removes the webhook of "+account.Name()+" and its secret; what waits is not sent any more.", account.Name(), confirmed); err != nil {
				return err
			}
			reply, err := app.Send(ctx, http.MethodDelete, hookPath(account.ID, ""), nil, nil)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
			}
			app.Out.Done("Removed the webhook of %s.", account.Name())
			return nil
		},
	}
	cmd.Flags().StringVar(&confirmed, "confirm", "", "the account's name or id, to do it without being asked")
	return cmd
}

func rotate(app *core.App) *cobra.Command {
	var overlap time.Duration
	cmd := &cobra.Command{
		Use: "rotate <account>", Short: "Give an account's webhook a new signing secret", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: "Give an account's webhook a new signing secret. For the time of --overlap deliveries are signed with the old one as well.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var got struct{ Webhook webhook }
			reply, err := app.Send(cmd.Context(), http.MethodPost, hookPath(id, "/rotate-secret"), map[string]any{"overlapSec": int(overlap.Seconds())}, &got)
			if err != nil {
				return err
			}
			app.Out.Done("The new secret signs from now on; the old one as well for %s. Store the new one, it is not shown again:", out.Short(overlap))
			return secretOnly(app, reply, got.Webhook)
		},
	}
	cmd.Flags().DurationVar(&overlap, "overlap", 24*time.Hour, "how long the old secret signs as well")
	return cmd
}

// delivery is one attempt to send an event.
type delivery struct {
	ID              string    `json:"id"`
	At              time.Time `json:"at"`
	Attempt         int       `json:"attempt"`
	Cause           string    `json:"cause"`
	DurationMs      float64   `json:"durationMs"`
	Error           *string   `json:"error"`
	Event           string    `json:"event"`
	EventID         string    `json:"eventId"`
	ResponseSnippet *string   `json:"responseSnippet"`
	State           string    `json:"state"`
	Status          int       `json:"status"`
}

func deliveries(app *core.App) *cobra.Command {
	var failed bool
	var event string
	var limit int
	cmd := &cobra.Command{
		Use: "deliveries <account>", Short: "List what was sent to an account's webhook", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: "List what was sent to an account's webhook, newest first.\n\nColumns in a pipe: time, delivery id, event, event id, attempt, state, status, milliseconds, why it failed.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			query := url.Values{"limit": {strconv.Itoa(limit)}}
			if failed {
				query.Set("state", "failed")
			}
			if event != "" {
				query.Set("event", event)
			}
			var got struct{ Deliveries []delivery }
			reply, err := app.Get(cmd.Context(), hookPath(id, "/deliveries"), query, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			printDeliveries(app, got.Deliveries)
			return nil
		},
	}
	cmd.Flags().BoolVar(&failed, "failed", false, "only those that were not accepted")
	cmd.Flags().StringVar(&event, "event", "", "only events of this kind, or the event with this id")
	cmd.Flags().IntVar(&limit, "limit", 20, "at most so many, 100 at most")
	return cmd
}

func printDeliveries(app *core.App, list []delivery) {
	table := out.Table{Columns: out.Columns("when", "event", "event id", ">try", "state", ">status", ">took", "why~"), Empty: "Nothing was sent."}
	if !app.Out.TTY {
		table.Columns = out.Columns("when", "id", "event", "event id", "try", "state", "status", "took", "why")
	}
	for _, d := range list {
		why := core.Deref(d.Error)
		if why == "" && d.State == "failed" {
			why = core.Deref(d.ResponseSnippet)
		}
		row := []out.Cell{app.Out.When(d.At)}
		if !app.Out.TTY {
			row = append(row, out.Text(d.ID))
		}
		table.Rows = append(table.Rows, append(row, out.Text(d.Event), out.Text(d.EventID), out.Text(strconv.Itoa(d.Attempt)), out.State(d.State), out.Status(d.Status),
			out.Cell{Text: out.Millis(d.DurationMs), Raw: strconv.FormatFloat(d.DurationMs, 'f', 0, 64)}, out.Text(why)))
	}
	app.Out.Table(table)
}

// replayOrder are the flags of replay.
type replayOrder struct {
	failed       bool
	since, until string
	from         string
	delivery     string
	events       []string
}

func replay(app *core.App) *cobra.Command {
	var o replayOrder
	cmd := &cobra.Command{
		Use: "replay <account>", Short: "Send events of the log to an account's webhook again", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Send events of the log to an account's webhook again, with their first bytes and ids, in order, beside live ones.

Say from where: --since a time, --from an event; or name one delivery with --delivery. With --failed only what was not accepted.`,
		Example: "  stagedoor webhooks replay Maya --failed --since 1h\n  stagedoor webhooks replay Maya --from evt_01k9x5ahzre4bb3069xb2way0g\n  stagedoor webhooks replay Maya --delivery whd_01k9x5ahzre4bb3069xb2way0g",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if o.delivery != "" {
				reply, err := app.Send(cmd.Context(), http.MethodPost, hookPath(id, "/deliveries/"+url.PathEscape(o.delivery)+"/redeliver"), nil, nil)
				return sentAgain(app, "It is", args[0], reply, err)
			}
			body, err := o.body(app)
			if err != nil {
				return err
			}
			reply, err := app.Send(cmd.Context(), http.MethodPost, hookPath(id, "/replay"), body, nil)
			return sentAgain(app, "They are", args[0], reply, err)
		},
	}
	cmd.Flags().BoolVar(&o.failed, "failed", false, "only events that were not accepted")
	cmd.Flags().StringVar(&o.since, "since", "", "from this time on: 15m, 1h, 2d, or a time in RFC 3339")
	cmd.Flags().StringVar(&o.until, "until", "", "up to this time")
	cmd.Flags().StringVar(&o.from, "from", "", "from this event on")
	cmd.Flags().StringVar(&o.delivery, "delivery", "", "the event of this delivery, once")
	cmd.Flags().StringSliceVar(&o.events, "events", nil, "only these kinds")
	cmd.MarkFlagsMutuallyExclusive("since", "from", "delivery")
	return cmd
}

func (o replayOrder) body(app *core.App) (map[string]any, error) {
	body := map[string]any{}
	switch {
	case o.from != "":
		body["fromId"] = o.from
	case o.since != "":
		at, err := app.Since(o.since)
		if err != nil {
			return nil, err
		}
		body["fromTime"] = at.UTC().Format(time.RFC3339Nano)
	default:
		return nil, core.UsageHint("Add --since 1h, or --from evt_….", "say from where on to send again")
	}
	if o.until != "" {
		at, err := app.Since(o.until)
		if err != nil {
			return nil, err
		}
		body["toTime"] = at.UTC().Format(time.RFC3339Nano)
	}
	if o.failed {
		body["onlyFailed"] = true
	}
	if len(o.events) > 0 {
		body["events"] = o.events
	}
	return body, nil
}

func sentAgain(app *core.App, who, account string, reply core.Reply, err error) error {
	if err != nil {
		return err
	}
	if app.Out.JSON {
		app.Out.Body(reply.Body)
		return nil
	}
	app.Out.Done("%s on the way. Watch: stagedoor webhooks deliveries %s", who, core.Quote(account))
	return nil
}

// labels are the names of accounts by id, for tables that only have ids; without the right to read them, ids must do.
func labels(ctx context.Context, app *core.App) map[string]string {
	var got struct{ Accounts []core.Account }
	names := map[string]string{}
	if _, err := app.Get(ctx, "/v1/accounts", url.Values{"limit": {"100"}}, &got); err != nil {
		return names
	}
	for _, a := range got.Accounts {
		names[a.ID] = a.Name()
	}
	return names
}
