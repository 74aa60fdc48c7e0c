package account

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// states are the values of --state.
var states = []string{"connecting", "active", "degraded", "reauthenticating", "reconnect_required", "restricted", "paused"}

func accounts(app *core.App) *cobra.Command {
	return core.Group("accounts", "Manage connected accounts",
		listAccounts(app), getAccount(app), accountHealth(app), reconnectAccount(app),
		setPaused(app, "pause", "Pause an account: no calls and no events until you resume it"),
		setPaused(app, "resume", "Resume a paused account"), removeAccount(app))
}

func listAccounts(app *core.App) *cobra.Command {
	var state, reference string
	var limit int
	cmd := &cobra.Command{
		Use: "list [text]", Short: "List accounts", Args: cobra.MaximumNArgs(1),
		Long: `List accounts. With a text, list only accounts with that text in their label, names or ids.

Columns in a pipe: id, label, state, user name, region, last seen, reference id.`,
		Example: "  stagedoor accounts list\n  stagedoor accounts list --state reconnect_required\n  stagedoor accounts list maya --json | jq '.accounts[].id'",
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if len(args) == 1 {
				query.Set("q", args[0])
			}
			if state != "" {
				if err := core.OneOf("state", state, states); err != nil {
					return err
				}
				query.Set("state", state)
			}
			if reference != "" {
				query.Set("reference_id", reference)
			}
			if limit > 0 {
				query.Set("limit", strconv.Itoa(limit))
			}
			return printAccounts(cmd.Context(), app, query)
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only accounts in this state")
	cmd.Flags().StringVar(&reference, "reference", "", "only accounts with this reference id")
	cmd.Flags().IntVar(&limit, "limit", 0, "maximum number of accounts, up to 100 (default: all)")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func printAccounts(ctx context.Context, app *core.App, query url.Values) error {
	var got struct{ Accounts []core.Account }
	reply, err := app.Get(ctx, "/v1/accounts", query, &got)
	if err != nil {
		return err
	}
	if app.Out.JSON {
		app.Out.Body(reply.Body)
		return nil
	}
	table := output.Table{
		Columns: output.Columns("id", "label~", "state", "user~", "region", "last seen"),
		Empty:   "No accounts yet. Connect one: stagedoor connect",
	}
	if len(query) > 0 {
		table.Empty = "No matching accounts."
	}
	if !app.Out.TTY {
		table.Columns = append(table.Columns, output.Column{Name: "reference"})
	}
	broken := ""
	for _, a := range got.Accounts {
		row := []output.Cell{output.Text(a.ID), output.Text(a.Label), output.State(a.State), output.Text(a.Username),
			output.Text(a.ProxyCountry), app.Out.When(core.Deref(a.LastSeenAt))}
		if !app.Out.TTY {
			row = append(row, output.Text(core.Deref(a.ReferenceID)))
		}
		table.Rows = append(table.Rows, row)
		if a.State == "reconnect_required" {
			broken = a.ID
		}
	}
	app.Out.Table(table)
	if broken != "" {
		app.Out.Hint("Sign in again: stagedoor accounts reconnect %s", broken)
	}
	return nil
}

func getAccount(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "get <account>", Short: "Show an account", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: "Show an account, named by its id, label or user name.",
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var got struct{ Account core.Account }
			reply, err := app.Get(cmd.Context(), "/v1/accounts/"+url.PathEscape(id), nil, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			app.Out.Fields(accountFields(app, got.Account))
			return nil
		},
	}
}

func accountFields(app *core.App, a core.Account) []output.Field {
	state := output.State(a.State)
	if reason := core.Deref(a.StateReason); reason != "" {
		state.Raw, state.Text = state.Text, state.Text+" ("+strings.ReplaceAll(reason, "_", " ")+")"
	}
	return []output.Field{
		{Name: "id", Cell: output.Text(a.ID)},
		{Name: "label", Cell: output.Toned(output.Strong, a.Label)},
		{Name: "state", Cell: state},
		{Name: "since", Cell: app.Out.When(a.StateChangedAt)},
		{Name: "to do", Cell: output.Text(strings.ReplaceAll(a.UserAction, "_", " "))},
		{Name: "user", Cell: output.Text(a.Username)},
		{Name: "name", Cell: output.Text(a.DisplayName)},
		{Name: "platform id", Cell: output.Text(a.OfUserID)},
		{Name: "region", Cell: output.Text(a.ProxyCountry)},
		{Name: "reference", Cell: output.Text(core.Deref(a.ReferenceID))},
		{Name: "credentials", Cell: output.Text(credentialsText(a.Remember))},
		{Name: "listener", Cell: output.State(a.Listener.State)},
		{Name: "last event", Cell: app.Out.When(core.Deref(a.Listener.LastEventAt))},
		{Name: "last seen", Cell: app.Out.When(core.Deref(a.LastSeenAt))},
		{Name: "session ends", Cell: app.Out.When(core.Deref(a.SessionExpiresAt))},
		{Name: "connected", Cell: app.Out.When(a.CreatedAt)},
	}
}

func credentialsText(remembered bool) string {
	if remembered {
		return "saved, encrypted"
	}
	return "not saved"
}

func accountHealth(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "health <account>", Short: "Check with the platform whether an account works",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Check with the platform whether an account works.

Makes one read call through the account's region. Exit codes: 0 if the account works, 8 if the creator has to sign in
again, 7 if the platform or the connection to it fails.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			account, err := app.Account(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			begun := app.Now()
			spin := app.Out.Spin("Calling the platform")
			var me struct{ Me map[string]any }
			reply, failed := app.Get(cmd.Context(), "/v1/accounts/"+url.PathEscape(account.ID)+"/me", nil, &me)
			spin.Stop()
			took := app.Now().Sub(begun)
			if app.Out.JSON {
				if failed == nil {
					app.Out.Body(reply.Body)
				}
				return failed
			}
			probe := output.Cell{Text: "responded in " + output.Short(took), Raw: "ok", Tone: output.Good}
			if failed != nil {
				probe = output.Cell{Text: "failed", Tone: output.Bad}
			}
			app.Out.Fields([]output.Field{
				{Name: "account", Cell: output.Cell{Text: account.ID + " (" + account.Name() + ")", Raw: account.ID}},
				{Name: "state", Cell: output.State(account.State)},
				{Name: "platform", Cell: probe}, {Name: "listener", Cell: output.State(account.Listener.State)},
				{Name: "last event", Cell: app.Out.When(core.Deref(account.Listener.LastEventAt))},
				{Name: "session ends", Cell: app.Out.When(core.Deref(account.SessionExpiresAt))},
			})
			return failed
		},
	}
}

func reconnectAccount(app *core.App) *cobra.Command {
	var supersede bool
	cmd := &cobra.Command{
		Use: "reconnect <account>", Short: "Sign an account in again with its saved credentials",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Sign an account in again with its saved credentials.

If the platform asks for a code, this command prompts for it. If no credentials are saved, the creator has to sign in:
run stagedoor connect --account <account>, or add --link to create a page for the creator.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			f := &follower{App: app}
			path := "/v1/accounts/" + url.PathEscape(id) + "/reauthenticate"
			if err := f.start(cmd.Context(), path, map[string]any{"supersede": supersede}); err != nil {
				return err
			}
			return f.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&supersede, "supersede", false, "cancel an attempt that is in progress")
	return cmd
}

// setPaused returns the command pause or resume; the verb is also the last part of the API path.
func setPaused(app *core.App, verb, short string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " <account>", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			var got struct{ Account core.Account }
			reply, err := app.Send(cmd.Context(), http.MethodPost, "/v1/accounts/"+url.PathEscape(id)+"/"+verb, nil, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			app.Out.Done("%s is %s.", got.Account.Name(), strings.ReplaceAll(got.Account.State, "_", " "))
			return nil
		},
	}
}

func removeAccount(app *core.App) *cobra.Command {
	var confirmed string
	cmd := &cobra.Command{
		Use: "rm <account>", Short: "Disconnect an account and destroy its session",
		Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Disconnect an account and destroy its session.

Signs the account out on the platform and destroys the key that encrypts its session. This cannot be undone. Confirm by
typing the account's name, or with --confirm.`,
		Example: "  stagedoor accounts rm Maya\n  stagedoor accounts rm acct_01k9x5ahzre4bb3069xb2way0g --confirm=Maya",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			account, err := app.Account(ctx, args[0])
			if err != nil {
				return err
			}
			if confirmed == account.ID {
				confirmed = account.Name()
			}
			consequence := "This disconnects " + account.Name() + " and destroys its session permanently. " +
				"Its events are kept until they expire."
			if err := app.Confirm(ctx, consequence, account.Name(), confirmed); err != nil {
				return err
			}
			reply, err := app.Send(ctx, http.MethodDelete, "/v1/accounts/"+url.PathEscape(account.ID), nil, nil)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
			}
			app.Out.Done("Disconnected %s (%s).", account.Name(), account.ID)
			return nil
		},
	}
	cmd.Flags().StringVar(&confirmed, "confirm", "", "the account's name or id, to skip the prompt")
	return cmd
}

// seconds rounds a duration to whole seconds, the unit of the API.
func seconds(d time.Duration) int { return int(d.Round(time.Second).Seconds()) }
