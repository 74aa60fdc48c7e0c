package core

import (
	"context"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

// LogFilter holds the flags that select requests of the log.
type LogFilter struct {
	// Account is an id, a label or a user name.
	Account                           string
	status, method, code, key, source string
	reason, text                      string
}

// AddFlags adds the flags to a command.
func (f *LogFilter) AddFlags(app *App, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.Account, "account", "a", "", "only this account (id, label or user name)")
	flags.StringVar(&f.status, "status", "", "only this status or class: 429, 2xx, 4xx, 5xx")
	flags.StringVar(&f.method, "method", "", "only this SDK method or operation: messages.send, listAccounts")
	flags.StringVar(&f.code, "code", "", "only requests with this error code")
	flags.StringVar(&f.reason, "reason", "", "only requests that this limit refused: org_rpm")
	flags.StringVar(&f.text, "search", "", "only requests with this text in the method, problem, limit or id")
	flags.StringVar(&f.key, "key", "", "only requests of the key with this id")
	flags.StringVar(&f.source, "source", "", "only requests from api, dashboard or cli")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	_ = cmd.RegisterFlagCompletionFunc("source",
		cobra.FixedCompletions([]string{"api", "dashboard", "cli"}, cobra.ShellCompDirectiveNoFileComp))
}

// Params returns the flags as parameters of the API. It resolves the account.
func (f *LogFilter) Params(ctx context.Context, app *App) (params stagedoor.LogsListParams, err error) {
	params = stagedoor.LogsListParams{Status: f.status, Method: f.method, Code: f.code, KeyID: f.key, Source: f.source, Reason: f.reason, Q: f.text}
	if f.Account != "" {
		params.AccountID, err = app.AccountID(ctx, f.Account)
	}
	return params, err
}
