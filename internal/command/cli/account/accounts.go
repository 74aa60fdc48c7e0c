package account

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// states are the values of --state.
var states = []string{"connecting", "active", "degraded", "reauthenticating", "reconnect_required", "restricted", "paused"}

func accounts(app *core.App) *cobra.Command {
	return core.Group("accounts", "Manage connected accounts",
		listAccounts(app), getAccount(app), accountHealth(app), reconnectAccount(app),
		setPaused(app, "pause", "Pause an account: no calls and no events until you resume it",
			(*stagedoor.AccountsService).Pause),
		setPaused(app, "resume", "Resume a paused account", (*stagedoor.AccountsService).Resume), removeAccount(app))
}

func listAccounts(app *core.App) *cobra.Command {
	var state, platform, reference string
	var limit int
	cmd := &cobra.Command{
		Use: "list [text]", Short: "List accounts", Args: cobra.MaximumNArgs(1),
		Long: `List accounts. With a text, list only accounts with that text in their label, names or ids.

Columns in a pipe: id, label, state, user name, region, last seen, reference id, platform, site.`,
		Example: "  stagedoor accounts list\n  stagedoor accounts list --state reconnect_required\n" +
			"  stagedoor accounts list --platform ghost\n  stagedoor accounts list maya --json | jq '.accounts[].id'",
		RunE: func(cmd *cobra.Command, args []string) error {
			query := stagedoor.AccountsListParams{
				State: state, Platform: platform, ReferenceID: reference, Limit: int64(max(limit, 0)),
			}
			if len(args) == 1 {
				query.Q = args[0]
			}
			if state != "" {
				if err := core.OneOf("state", state, states); err != nil {
					return err
				}
			}
			return printAccounts(cmd.Context(), app, query)
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "only accounts in this state")
	cmd.Flags().StringVar(&platform, "platform", "", "only accounts on this platform")
	cmd.Flags().StringVar(&reference, "reference", "", "only accounts with this reference id")
	cmd.Flags().IntVar(&limit, "limit", 0, "maximum number of accounts, up to 100 (default: all)")
	_ = cmd.RegisterFlagCompletionFunc("platform", app.CompletePlatforms)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func printAccounts(ctx context.Context, app *core.App, query stagedoor.AccountsListParams) error {
	page, err := app.API().Accounts.List(ctx, query, app.Keep())
	if err != nil || app.Out.JSON {
		return app.PrintResponse(err)
	}
	table := output.Table{
		Columns: output.Columns("id", "label~", "state", "user~", "region", "last seen"),
		Empty:   "No accounts yet. Connect one: stagedoor connect",
	}
	if query != (stagedoor.AccountsListParams{}) {
		table.Empty = "No matching accounts."
	}
	if !app.Out.TTY {
		table.Columns = append(table.Columns, output.Columns("reference", "platform", "site")...)
	}
	// On a terminal the platform is shown only if it distinguishes accounts.
	isMixed := slices.ContainsFunc(page.Accounts, func(a stagedoor.ListedAccount) bool {
		return a.Platform != page.Accounts[0].Platform || a.Site != nil
	})
	if app.Out.TTY && isMixed {
		table.Columns = append(table.Columns, output.Columns("platform~")...)
	}
	broken := ""
	for _, a := range page.Accounts {
		row := []output.Cell{output.Text(a.ID), output.Text(a.Label), output.State(a.State), output.Text(a.Username),
			output.Text(a.ProxyCountry), app.Out.When(core.Deref(a.LastSeenAt))}
		switch {
		case !app.Out.TTY:
			row = append(row, output.Text(core.Deref(a.ReferenceID)), output.Text(a.Platform), output.Text(core.Deref(a.Site)))
		case isMixed:
			row = append(row, output.Text(strings.TrimSpace(a.Platform+" "+core.SiteName(a.Site))))
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
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, _ []string) error {
			account, err := app.API().Accounts.Get(cmd.Context(), id, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			app.Out.Fields(accountFields(app, account))
			return nil
		}),
	}
}

func accountFields(app *core.App, a *stagedoor.Account) []output.Field {
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
		{Name: "platform", Cell: output.Text(a.Platform)},
		{Name: "site", Cell: output.Text(core.Deref(a.Site))},
		{Name: "user", Cell: output.Text(a.Username)},
		{Name: "name", Cell: output.Text(a.DisplayName)},
		{Name: "platform id", Cell: output.Text(a.OfUserID)},
		{Name: "region", Cell: output.Text(a.ProxyCountry)},
		{Name: "reference", Cell: output.Text(core.Deref(a.ReferenceID))},
		{Name: "credentials", Cell: output.Text(credentialsText(a))},
		{Name: "listener", Cell: output.State(a.Listener.State)},
		{Name: "last event", Cell: app.Out.When(core.Deref(a.Listener.LastEventAt))},
		{Name: "last seen", Cell: app.Out.When(core.Deref(a.LastSeenAt))},
		{Name: "session ends", Cell: app.Out.When(core.Deref(a.SessionExpiresAt))},
		{Name: "connected", Cell: app.Out.When(a.CreatedAt)},
	}
}

func credentialsText(a *stagedoor.Account) string {
	switch {
	case a.Credentials == "token":
		return "a key of the platform, encrypted"
	case a.Credentials == "oauth":
		return "authorised by OAuth"
	case a.RememberCredentials:
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
			_, failed := app.API().Accounts.GetMe(cmd.Context(), account.ID, app.Keep())
			spin.Stop()
			took := app.Now().Sub(begun)
			if app.Out.JSON {
				return app.PrintResponse(failed)
			}
			probe := output.Cell{Text: "responded in " + output.Short(took), Raw: "ok", Tone: output.Good}
			if failed != nil {
				probe = output.Cell{Text: "failed", Tone: output.Bad}
			}
			app.Out.Fields([]output.Field{
				{Name: "account", Cell: output.Cell{Text: account.ID + " (" + core.AccountName(account) + ")", Raw: account.ID}},
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
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, _ []string) error {
			f := &follower{App: app}
			params := stagedoor.AccountsReauthenticateParams{Supersede: supersede}
			if err := f.start(func(keep stagedoor.CallOption) (*stagedoor.Attempt, error) {
				return app.API().Accounts.Reauthenticate(cmd.Context(), id, params, keep)
			}); err != nil {
				return err
			}
			return f.run(cmd.Context())
		}),
	}
	cmd.Flags().BoolVar(&supersede, "supersede", false, "cancel an attempt that is in progress")
	return cmd
}

// setPaused returns the command pause or resume.
func setPaused(app *core.App, verb, short string, set func(
	s *stagedoor.AccountsService, ctx context.Context, id string, options ...stagedoor.CallOption,
) (*stagedoor.Account, error)) *cobra.Command {
	return &cobra.Command{
		Use: verb + " <account>", Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: app.CompleteAccounts,
		RunE: app.WithAccount(func(cmd *cobra.Command, id string, _ []string) error {
			account, err := set(app.API().Accounts, cmd.Context(), id, app.Keep())
			if err != nil {
				return err
			}
			return app.PrintDone("%s is %s.", core.AccountName(*account), strings.ReplaceAll(account.State, "_", " "))
		}),
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
			account, err := app.ConfirmAccount(ctx, args[0], confirmed,
				"This disconnects %s and destroys its session permanently. Its events are kept until they expire.")
			if err != nil {
				return err
			}
			_, err = app.API().Accounts.Disconnect(ctx, account.ID, app.Keep())
			if app.PrintResponse(err) != nil {
				return err
			}
			app.Out.Done("Disconnected %s (%s).", core.AccountName(account), account.ID)
			return nil
		},
	}
	cmd.Flags().StringVar(&confirmed, "confirm", "", "the account's name or id, to skip the prompt")
	return cmd
}

// seconds rounds a duration to whole seconds, the unit of the API.
func seconds(d time.Duration) int64 { return int64(d.Round(time.Second).Seconds()) }
