package core

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Account is the part of an account that commands show.
type Account struct {
	ID               string     `json:"id"`
	OfUserID         string     `json:"ofUserId"`
	Label            string     `json:"label"`
	State            string     `json:"state"`
	StateReason      *string    `json:"stateReason"`
	StateChangedAt   time.Time  `json:"stateChangedAt"`
	UserAction       string     `json:"userAction"`
	Username         string     `json:"username"`
	DisplayName      string     `json:"displayName"`
	ProxyCountry     string     `json:"proxyCountry"`
	ReferenceID      *string    `json:"referenceId"`
	Remember         bool       `json:"rememberCredentials"`
	CreatedAt        time.Time  `json:"createdAt"`
	LastSeenAt       *time.Time `json:"lastSeenAt"`
	LastCheckedAt    *time.Time `json:"lastCheckedAt"`
	SessionExpiresAt *time.Time `json:"sessionExpiresAt"`
	PendingAttemptID *string    `json:"pendingAttemptId"`
	Listener         struct {
		State       string     `json:"state"`
		Since       *time.Time `json:"since"`
		LastEventAt *time.Time `json:"lastEventAt"`
	} `json:"listener"`
	Sandbox bool `json:"sandbox"`
}

// Name returns the first of label, display name and user name that is set, or the id.
func (a Account) Name() string {
	for _, name := range []string{a.Label, a.DisplayName, a.Username} {
		if name != "" {
			return name
		}
	}
	return a.ID
}

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
func (a *App) Account(ctx context.Context, text string) (Account, error) {
	if strings.HasPrefix(text, "acct_") {
		var got struct{ Account Account }
		_, err := a.Get(ctx, "/v1/accounts/"+url.PathEscape(text), nil, &got)
		return got.Account, err
	}
	query := url.Values{"limit": {"100"}}
	if text != "" {
		query.Set("q", text)
	}
	var got struct{ Accounts []Account }
	if _, err := a.Get(ctx, "/v1/accounts", query, &got); err != nil {
		return Account{}, err
	}
	return chooseAccount(text, got.Accounts)
}

// chooseAccount picks the account that text names among the results of the server's search. An exact match wins over a
// partial one; a partial match counts if it is the only result.
func chooseAccount(text string, found []Account) (Account, error) {
	if text == "" {
		switch len(found) {
		case 1:
			return found[0], nil
		case 0:
			return Account{}, &Fault{Code: ExitNotFound, Text: "no accounts yet", Hint: "Connect one: stagedoor connect"}
		}
		return Account{}, UsageHint("List accounts: stagedoor accounts list",
			"several accounts exist; choose one with --account")
	}
	var exact []Account
	for _, acc := range found {
		if strings.EqualFold(acc.Label, text) || strings.EqualFold(acc.Username, text) || strings.EqualFold(acc.DisplayName, text) {
			exact = append(exact, acc)
		}
	}
	if len(exact) == 1 {
		return exact[0], nil
	}
	if len(exact) > 1 || len(found) > 1 {
		return Account{}, UsageHint("Use an id: stagedoor accounts list "+Quote(text), "several accounts match %q", text)
	}
	if len(found) == 0 {
		return Account{}, &Fault{Code: ExitNotFound, Text: "no account matches " + text,
			Hint: "List accounts: stagedoor accounts list"}
	}
	return found[0], nil
}

// AccountFlag adds --account with completion to a command.
func (a *App) AccountFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVarP(into, "account", "a", "", "account id, label or user name (default: the only account)")
	_ = cmd.RegisterFlagCompletionFunc("account", a.CompleteAccounts)
}

// CompleteAccounts completes account ids, with their names and states as descriptions. It asks the server and returns
// nothing if that fails.
func (a *App) CompleteAccounts(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var got struct{ Accounts []Account }
	if _, err := a.Get(cmd.Context(), "/v1/accounts", url.Values{"limit": {"100"}}, &got); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []cobra.Completion
	for _, acc := range got.Accounts {
		if strings.HasPrefix(acc.ID, begun) {
			ids = append(ids, cobra.CompletionWithDesc(acc.ID, acc.Name()+" · "+acc.State))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
