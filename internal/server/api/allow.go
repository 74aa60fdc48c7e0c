package api

import (
	"context"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

// The limits of a key are enforced in three places: by the table where a path names an account, by package sdk where it
// names a method, and here for all other operations, so that none of them bypasses the list of accounts.

// KeyLimits are the limits of a key beyond its scopes.
type KeyLimits struct {
	Methods   []string   `json:"methods,omitempty" doc:"Patterns of the SDK methods that the key may call. Absent if it may call all."`
	Inherited [][]string `json:"inheritedMethods,omitempty" doc:"The lists of the keys from which this key was created. They apply as well."`
	Accounts  []string   `json:"accountIds,omitempty" doc:"The accounts that the key may use. Absent if it may use all."`
}

func viewKeyLimits(a *apikey.Allow) KeyLimits {
	var l KeyLimits
	l.Methods, l.Inherited = a.Lists()
	l.Accounts = id.Texts(a.Accounts)
	return l
}

// mayConnect returns a problem if the caller's key may not connect an account. A key that is limited to accounts cannot
// connect a new one, which would not be in its list.
func mayConnect(ctx context.Context, account id.Account) error {
	caller := endpoint.Caller(ctx)
	if caller.Key.Allow.Accounts != nil && account == "" {
		return problem.AccountNotAllowedForKey.New("This key is limited to certain accounts and cannot connect others. To reconnect one of them, send its id in account_id.")
	}
	return endpoint.MayUse(caller, account)
}

// mayAct reports whether the caller may see capability URLs. Such a URL is enough to finish or cancel an attempt
// without a key.
func mayAct(ctx context.Context) bool {
	return endpoint.From(ctx).Identity.Scopes.Has(scope.AccountsWrite)
}

// visible returns an attempt as the caller may see it.
func visible(ctx context.Context, a connect.Attempt) connect.Attempt {
	if mayAct(ctx) {
		return a
	}
	return a.WithoutLinks()
}

// findAttempt parses the id of an attempt that the caller's key may see. A key that is limited to accounts sees only
// attempts for these accounts.
func (a *API) findAttempt(ctx context.Context, text string) (id.Attempt, error) {
	at, err := parseAttempt(text)
	caller := endpoint.Caller(ctx)
	if err != nil || caller.Key.Allow.Accounts == nil {
		return at, err
	}
	f, err := a.Connects.Get(ctx, caller.Org.ID, at)
	if err != nil {
		return "", err
	}
	if f.About() == "" || !caller.Key.Allow.MayUse(f.About()) {
		return "", attemptNotFound()
	}
	return at, nil
}
