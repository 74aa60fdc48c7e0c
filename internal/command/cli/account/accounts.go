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
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// states are those that an account can be in.
var states = []string{"connecting", "active", "degraded", "reauthenticating", "reconnect_required", "restricted", "paused"}

func accounts(app *core.App) *cobra.Command {
	return core.Group("accounts", "Connected accounts: list, look at, reconnect, pause, remove",
		listAccounts(app), getAccount(app), health(app), reconnect(app), pause(app, "pause", "Stop an account: no calls, no events, until it is resumed"),
		pause(app, "resume", "Let a paused account go on"), remove(app))
}

func listAccounts(app *core.App) *cobra.Command {
	var state, reference string
	var limit int
	cmd := &cobra.Command{
		Use: "list [text]", Short: "List accounts", Args: cobra.MaximumNArgs(1),
		Long: `List accounts, all or those that have a text in their label, names or ids.

Columns in a pipe: id, label, state, user name, region, last seen, your reference.`,
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
	cmd.Flags().StringVar(&reference, "reference", "", "only accounts with this id of yours")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many, 100 at most (all, if left out)")
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
	table := out.Table{Columns: out.Columns("id", "label~", "state", "user~", "region", "last seen"), Empty: "No accounts yet. Connect one: stagedoor connect"}
	if len(query) > 0 {
		table.Empty = "No account matches."
	}
	if !app.Out.TTY {
		table.Columns = append(table.Columns, out.Column{Name: "reference"})
	}
	broken := ""
	for _, a := range got.Accounts {
		row := []out.Cell{out.Text(a.ID), out.Text(a.Label), out.State(a.State), out.Text(a.Username), out.Text(a.ProxyCountry), app.Out.When(core.Deref(a.LastSeenAt))}
		if !app.Out.TTY {
			row = append(row, out.Text(core.Deref(a.ReferenceID)))
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
			return show(app, reply.Body, got.Account)
		},
	}
}

func show(app *core.App, body []byte, a core.Account) error {
	if app.Out.JSON {
		app.Out.Body(body)
		return nil
	}
	app.Out.Fields(fields(app, a))
	return nil
}

func fields(app *core.App, a core.Account) []out.Field {
	state := out.State(a.State)
	if reason := core.Deref(a.StateReason); reason != "" {
		state.Raw, state.Text = state.Text, state.Text+" ("+strings.ReplaceAll(reason, "_", " ")+")"
	}
	return []out.Field{
		{Name: "id", Cell: out.Text(a.ID)}, {Name: "label", Cell: out.Toned(out.Strong, a.Label)}, {Name: "state", Cell: state},
		{Name: "since", Cell: app.Out.When(a.StateChangedAt)}, {Name: "to do", Cell: out.Text(strings.ReplaceAll(a.UserAction, "_", " "))},
		{Name: "user", Cell: out.Text(a.Username)}, {Name: "name", Cell: out.Text(a.DisplayName)}, {Name: "platform id", Cell: out.Text(a.OfUserID)},
		{Name: "region", Cell: out.Text(a.ProxyCountry)}, {Name: "reference", Cell: out.Text(core.Deref(a.ReferenceID))},
		{Name: "credentials", Cell: out.Text(remembered(a.Remember))}, {Name: "listener", Cell: out.State(a.Listener.State)},
		{Name: "last event", Cell: app.Out.When(core.Deref(a.Listener.LastEventAt))}, {Name: "last seen", Cell: app.Out.When(core.Deref(a.LastSeenAt))},
		{Name: "session ends", Cell: app.Out.When(core.Deref(a.SessionExpiresAt))}, {Name: "connected", Cell: app.Out.When(a.CreatedAt)},
	}
}

func remembered(yes bool) string {
	if yes {
		return "remembered, sealed"
	}
	return "not remembered"
}

func health(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "health <account>", Short: "Ask the platform now whether an account works", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Ask the platform now whether an account works.

It makes one read call through the account's own region. The exit code says how it went: 0 works, 8 the creator has to sign in
again, 7 the platform or the way to it fails.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			account, err := app.Account(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			begun := app.Now()
			spin := app.Out.Spin("Asking the platform")
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
			probe := out.Cell{Text: "answered in " + out.Short(took), Raw: "ok", Tone: out.Good}
			if failed != nil {
				probe = out.Cell{Text: "failed", Tone: out.Bad}
			}
			app.Out.Fields([]out.Field{
				{Name: "account", Cell: out.Cell{Text: account.ID + " (" + account.Name() + ")", Raw: account.ID}}, {Name: "state", Cell: out.State(account.State)},
				{Name: "platform", Cell: probe}, {Name: "listener", Cell: out.State(account.Listener.State)},
				{Name: "last event", Cell: app.Out.When(core.Deref(account.Listener.LastEventAt))}, {Name: "session ends", Cell: app.Out.When(core.Deref(account.SessionExpiresAt))},
			})
			return failed
		},
	}
}

func reconnect(app *core.App) *cobra.Command {
	var supersede bool
	cmd := &cobra.Command{
		Use: "reconnect <account>", Short: "Sign an account in again with its remembered credentials", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Sign an account in again with its remembered credentials.

If the platform asks for a code, it is asked for here. Where no credentials are remembered, the creator has to sign in:
stagedoor connect --account <account>, or with --link to send them a page.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := app.AccountID(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			f := &follower{App: app}
			if err := f.start(cmd.Context(), "/v1/accounts/"+url.PathEscape(id)+"/reauthenticate", map[string]any{"supersede": supersede}); err != nil {
				return err
			}
			return f.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&supersede, "supersede", false, "end an attempt that is under way")
	return cmd
}

func pause(app *core.App, verb, short string) *cobra.Command {
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

func remove(app *core.App) *cobra.Command {
	var confirmed string
	cmd := &cobra.Command{
		Use: "rm <account>", Short: "Disconnect an account and destroy its session", Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		Long: `Disconnect an account and destroy its session.

It is signed out on the platform, and the key of its sealed session is destroyed; this cannot be undone. It has to be confirmed
by typing the account's name, or with --confirm.`,
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
			if err := app.Confirm(ctx, "This disconnects "+account.Name()+" and destroys its session for good. Its events stay until they expire.", account.Name(), confirmed); err != nil {
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
	cmd.Flags().StringVar(&confirmed, "confirm", "", "the account's name or id, to do it without being asked")
	return cmd
}

// seconds reads a duration as whole seconds.
func seconds(d time.Duration) int { return int(d.Round(time.Second).Seconds()) }
