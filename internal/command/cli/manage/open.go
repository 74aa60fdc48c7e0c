package manage

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// pages maps the names that open accepts to paths.
var pages = map[string]string{
	"dashboard": "/app/", "start": "/app/start", "accounts": "/app/accounts", "connect": "/app/connect", "events": "/app/events", "logs": "/app/logs", "errors": "/app/errors",
	"webhooks": "/app/webhooks", "signature": "/app/webhooks/signature", "explorer": "/app/explorer", "keys": "/app/keys", "usage": "/app/usage", "audit": "/app/audit",
	"sandbox": "/app/sandbox", "settings": "/app/settings", "docs": "/docs",
}

// idPaths maps the prefix of an id to the path of its page, without the id.
var idPaths = map[string]string{
	"acct_": "/app/accounts/", "evt_": "/app/events/", "req_": "/app/logs/", "att_": "/app/connect/attempts/", "cs_": "/app/connect/links/", "whd_": "/app/webhooks/deliveries/",
}

func open(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "open [page|id]", Short: "Open the dashboard in the browser", Args: cobra.MaximumNArgs(1),
		Long: `Open the dashboard in the browser. Name a page, the id of an account, event, request, attempt, link or
delivery, or a method such as messages.send for the explorer. In a pipe, print the address instead.

Pages: ` + strings.Join(output.SortedKeys(pages), ", ") + ".",
		Example:   "  stagedoor open\n  stagedoor open webhooks\n  stagedoor open evt_01k9x5ahzre4bb3069xb2way0g\n  stagedoor open messages.send",
		ValidArgs: output.SortedKeys(pages),
		RunE: func(cmd *cobra.Command, args []string) error {
			word := "dashboard"
			if len(args) == 1 {
				word = args[0]
			}
			path, err := pagePath(word)
			if err != nil {
				return err
			}
			base := app.BaseURL
			if p, err := app.Identity(); err == nil {
				base = p.BaseURL
			} else if base == "" {
				base = app.DefaultURL()
			}
			address := strings.TrimRight(base, "/") + path
			switch {
			case app.Out.JSON:
				return app.Out.Value(map[string]string{"url": address})
			case !app.Out.TTY:
				app.Out.Data("%s", address)
				return nil
			}
			app.Out.Say("Opening %s", address)
			if err := app.Browse(cmd.Context(), address); err != nil {
				app.Out.Warn("%s; open the address manually", err)
			}
			return nil
		},
	}
}

// pagePath returns the path for the name of a page, an id, or a method.
func pagePath(word string) (string, error) {
	if path, ok := pages[word]; ok {
		return path, nil
	}
	for prefix, path := range idPaths {
		if strings.HasPrefix(word, prefix) {
			return path + word, nil
		}
	}
	if resource, method, ok := strings.Cut(word, "."); ok && resource != "" && method != "" {
		return "/app/explorer/" + word, nil
	}
	return "", core.OneOf("page", word, output.SortedKeys(pages))
}
