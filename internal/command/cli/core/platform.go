package core

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

// Platforms returns the platforms of the organisation, the default first.
func (a *App) Platforms(ctx context.Context) ([]stagedoor.Platform, error) {
	got, err := a.API().Connect.ListPlatforms(ctx)
	if err != nil {
		return nil, err
	}
	return got.Platforms, nil
}

// AccountPlatform resolves a command-line argument like AccountID, and returns the account's platform too. The platform
// is empty if the key may not read accounts and the organisation has several platforms.
func (a *App) AccountPlatform(ctx context.Context, text string) (id, platform string, err error) {
	account, err := a.Account(ctx, text)
	if !stagedoor.IsProblem(err, stagedoor.CodeScopeMissing) || !strings.HasPrefix(text, "acct_") {
		return account.ID, account.Platform, err
	}
	if list, err := a.Platforms(ctx); err == nil && len(list) == 1 {
		platform = list[0].ID
	}
	return text, platform, nil
}

// CompletePlatforms completes the ids of platforms, with their names as descriptions. It asks the server and returns
// nothing if that fails.
func (a *App) CompletePlatforms(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	list, err := a.Platforms(cmd.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []cobra.Completion
	for _, p := range list {
		if strings.HasPrefix(p.ID, begun) {
			ids = append(ids, cobra.CompletionWithDesc(p.ID, p.Name))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

// SiteName returns the address of an account's site without the scheme, or an empty string if it has none.
func SiteName(site *string) string {
	name := strings.TrimSuffix(Deref(site), "/")
	return strings.TrimPrefix(name, "https://")
}
