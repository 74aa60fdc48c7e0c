package core

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Account is what commands show of an account.
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

// Name is what a person calls the account.
func (a Account) Name() string {
	for _, name := range []string{a.Label, a.DisplayName, a.Username} {
		if name != "" {
			return name
		}
	}
	return a.ID
}

// AccountID turns what somebody wrote into an account's id: an id as it stands, else a label or a user name that only one account has.
// An empty text means the only account that there is.
func (a *App) AccountID(ctx context.Context, text string) (string, error) {
	if strings.HasPrefix(text, "acct_") {
		return text, nil
	}
	account, err := a.Account(ctx, text)
	return account.ID, err
}

// Account is AccountID with everything about the account.
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
	return choose(text, got.Accounts)
}

func choose(text string, found []Account) (Account, error) {
	if text == "" {
		switch len(found) {
		case 1:
			return found[0], nil
		case 0:
			return Account{}, &Fault{Code: ExitNotFound, Text: "there is no account yet", Hint: "Connect one: stagedoor connect"}
		}
		return Account{}, UsageHint("List them: stagedoor accounts list", "there are several accounts: name one with --account")
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
		return Account{}, &Fault{Code: ExitNotFound, Text: "no account matches " + text, Hint: "List them: stagedoor accounts list"}
	}
	return found[0], nil
}

// AccountFlag gives a command --account, completed from the server.
func (a *App) AccountFlag(cmd *cobra.Command, into *string) {
	cmd.Flags().StringVarP(into, "account", "a", "", "account: its id, label or user name (the only one, if left out)")
	_ = cmd.RegisterFlagCompletionFunc("account", a.CompleteAccounts)
}

// CompleteAccounts offers the ids of accounts to a shell, with their names.
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
