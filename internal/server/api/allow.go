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

// What a key is limited to is kept by the table where a path names an account, by the passthrough where it names a method, and here
// for all else: what names no account must not become a way around the list.

// KeyLimits are what a key is limited to, beyond its scopes.
type KeyLimits struct {
	Methods   []string   `json:"methods,omitempty" doc:"Patterns of the SDK methods that the key may call. Left out, all of them."`
	Inherited [][]string `json:"inheritedMethods,omitempty" doc:"Lists of the keys that it was minted by; they hold as well."`
	Accounts  []string   `json:"accountIds,omitempty" doc:"The accounts that the key may use. Left out, all of them."`
}

func viewKeyLimits(a *apikey.Allow) KeyLimits {
	var l KeyLimits
	l.Methods, l.Inherited = a.Lists()
	l.Accounts = id.Texts(a.Accounts)
	return l
}

// mayConnect says why the caller's key may not connect an account, if so. Whichever account signs in would be one that is not in its list.
func mayConnect(ctx context.Context, account id.Account) error {
	caller := endpoint.Caller(ctx)
	if caller.Key.Allow.Accounts != nil && account == "" {
		return problem.AccountNotAllowedForKey.New("This key is limited to certain accounts, so it cannot connect others. Name one of them in account_id to connect it again.")
	}
	return endpoint.MayUse(caller, account)
}

// mayAct reports whether the caller may see capability URLs. With such a URL an attempt can be finished or cancelled without
// a key.
func mayAct(ctx context.Context) bool {
	return endpoint.From(ctx).Identity.Scopes.Has(scope.AccountsWrite)
}

// visible is an attempt as the caller may see it.
func visible(ctx context.Context, a connect.Attempt) connect.Attempt {
	if mayAct(ctx) {
		return a
	}
	return a.WithoutLinks()
}

// attempt reads the id of an attempt that the caller's key may see. To a key that is limited to certain accounts there are no attempts but theirs.
func (a *API) attempt(ctx context.Context, text string) (id.Attempt, error) {
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
