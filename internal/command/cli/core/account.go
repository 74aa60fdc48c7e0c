package core

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

// AccountName returns the first of label, display name and user name that is set, or the id.
func AccountName(a stagedoor.Account) string { return cmp.Or(a.Label, a.DisplayName, a.Username, a.ID) }

// AccountID resolves a command-line argument to an account id. An id is returned without a request; a label or name
// must match exactly one account. An empty text means the organisation's only account.
func (a *App) AccountID(ctx context.Context, text string) (string, error) {
	if strings.HasPrefix(text, "acct_") {
		return text, nil
	}
	account, err := a.Account(ctx, text)
	return account.ID, err
}

// Account resolves a command-line argument like AccountID and fetches the account. An id that does not
// exist is an error.
func (a *App) Account(ctx context.Context, text string) (stagedoor.Account, error) {
	if strings.HasPrefix(text, "acct_") {
		account, err := a.API().Accounts.Get(ctx, text)
		return Deref(account), err
	}
	page, err := a.API().Accounts.List(ctx, stagedoor.AccountsListParams{Q: text, Limit: 100})
	if err != nil {
		return stagedoor.Account{}, err
	}
	return chooseAccount(text, page.Accounts)
}

// chooseAccount picks the account that text names among the results of the server's search. An exact match wins over a
// partial one; a partial match counts if it is the only result.
func chooseAccount(text string, found []stagedoor.ListedAccount) (stagedoor.Account, error) {
	if text == "" && len(found) > 1 {
		return stagedoor.Account{}, UsageHint("List accounts: stagedoor accounts list",
			"several accounts exist; choose one with --account")
	}
	if text == "" && len(found) == 0 {
		return stagedoor.Account{}, &Fault{Code: ExitNotFound, Text: "no accounts yet",
			Hint: "Connect one: stagedoor connect"}
	}
	var exact []stagedoor.Account
	for _, acc := range found {
		if strings.EqualFold(acc.Label, text) || strings.EqualFold(acc.Username, text) || strings.EqualFold(acc.DisplayName, text) {
			exact = append(exact, acc.Account)
		}
	}
	switch {
	case len(exact) == 1:
		return exact[0], nil
	case len(found) > 1:
		return stagedoor.Account{}, UsageHint("Use an id: stagedoor accounts list "+Quote(text),
			"several accounts match %q", text)
	case len(found) == 0:
		return stagedoor.Account{}, &Fault{Code: ExitNotFound, Text: "no account matches " + text,
			Hint: "List accounts: stagedoor accounts list"}
	}
	return found[0].Account, nil
}

// ConfirmAccount is Account for a command that the user confirms with the account's name or id, given as confirmed or
// at a prompt. consequence has a %s for the name.
func (a *App) ConfirmAccount(ctx context.Context, text, confirmed, consequence string) (stagedoor.Account, error) {
	account, err := a.Account(ctx, text)
	if err != nil {
		return account, err
	}
	name := AccountName(account)
	if confirmed == account.ID {
		confirmed = name
	}
	return account, a.Confirm(ctx, fmt.Sprintf(consequence, name), name, confirmed)
}

// WithAccount returns the RunE of a command whose first argument is an account. run gets the account's id.
func (a *App) WithAccount(
	run func(cmd *cobra.Command, id string, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		id, err := a.AccountID(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return run(cmd, id, args)
	}
}

// AccountFlag adds --account with completion to a command.
func (a *App) AccountFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVarP(into, "account", "a", "", "account id, label or user name (default: the only account)")
	_ = cmd.RegisterFlagCompletionFunc("account", a.CompleteAccounts)
}

// CompleteAccounts completes account ids, with their names and states as descriptions. It asks the server and returns
// nothing if that fails.
func (a *App) CompleteAccounts(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	page, err := a.API().Accounts.List(cmd.Context(), stagedoor.AccountsListParams{Limit: 100})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []cobra.Completion
	for _, acc := range page.Accounts {
		if strings.HasPrefix(acc.ID, begun) {
			ids = append(ids, cobra.CompletionWithDesc(acc.ID, AccountName(acc.Account)+" · "+acc.State))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// CompleteRegions completes the regions that an account can have. It asks the server and returns nothing if that fails.
func (a *App) CompleteRegions(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	me, err := a.API().Me.Get(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return me.Limits.ProxyCountries, cobra.ShellCompDirectiveNoFileComp
}

// EventData returns the data of an event as the service sent it.
func EventData(e *stagedoor.Event) json.RawMessage {
	var raw struct{ Data json.RawMessage }
	_ = json.Unmarshal(e.Raw, &raw) // the client has decoded it before
	return raw.Data
}
