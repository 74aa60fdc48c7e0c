package manage

import (
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

func notices(app *core.App) *cobra.Command {
	return core.Group("notices", "Choose the notices about what needs attention, and who gets them",
		listNotices(app), addNotices(app), removeNotices(app))
}

func listNotices(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Show which notices are sent, and to whom", Args: cobra.NoArgs,
		Long: `Show which notices are sent, and to whom.

The service sends a notice when a webhook has been failing for 10 minutes, when an account needs a person, at 80 % and
100 % of the month's calls, and before an API key expires: at most one of each kind per hour.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			got, err := app.API().Team.GetNotices(cmd.Context(), app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			showNotices(app, got)
			return nil
		},
	}
}

func showNotices(app *core.App, n *stagedoor.NoticeSettings) {
	mail := output.Text("enabled")
	if n.Mail != "enabled" {
		mail = output.Toned(output.Attention, "the service has no mail server")
	}
	fields := []output.Field{
		{Name: "kinds", Cell: output.Text(strings.Join(n.Kinds, " "))},
		{Name: "language", Cell: output.Text(n.Locale)},
		{Name: "slack", Cell: output.Text(core.Deref(n.SlackHost))},
		{Name: "email", Cell: mail},
	}
	for _, r := range n.Recipients {
		who := output.Text(r.Email)
		if !r.Subscribed {
			who = output.Text(r.Email + " (unsubscribed)")
		}
		fields = append(fields, output.Field{Name: "recipient", Cell: who})
	}
	app.Out.Fields(fields)
}

func addNotices(app *core.App) *cobra.Command {
	var urlFile, locale string
	var kinds []string
	cmd := &cobra.Command{
		Use: "add", Short: "Send notices to Slack, or choose their kinds and language", Args: cobra.NoArgs,
		Long: `Send notices to Slack, or choose their kinds and language. Settings without a flag stay as they are.

The URL is an incoming webhook of Slack, or of anything that takes Slack's format. It is a secret, so it is read from a
file or from standard input.

Kinds: webhook_failing, account_attention, usage, key_expiring.`,
		Example: "  stagedoor notices add --slack-url-file url.txt\n  stagedoor notices add --kinds webhook_failing,account_attention --locale en",
		RunE: func(cmd *cobra.Command, _ []string) error {
			params := stagedoor.TeamSetNoticesParams{Kinds: kinds, Locale: locale}
			if urlFile != "" {
				text, err := app.ReadFile(urlFile)
				if err != nil {
					return err
				}
				params.SlackURL = strings.TrimSpace(string(text))
			}
			got, err := app.API().Team.SetNotices(cmd.Context(), params, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			showNotices(app, got)
			return nil
		},
	}
	cmd.Flags().StringVar(&urlFile, "slack-url-file", "", "file with a Slack-compatible URL; - reads standard input")
	cmd.Flags().StringSliceVar(&kinds, "kinds", nil, "the notices to send")
	cmd.Flags().StringVar(&locale, "locale", "", "their language: en or es")
	cmd.MarkFlagsOneRequired("slack-url-file", "kinds", "locale")
	_ = cmd.MarkFlagFilename("slack-url-file")
	return cmd
}

func removeNotices(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "remove", Short: "Stop notices to Slack, and send all kinds by email again", Args: cobra.NoArgs,
		Long: "Delete the Slack-compatible URL and the choice of kinds and language. All notices are sent by email again; recipients who have unsubscribed stay unsubscribed.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := app.API().Team.ResetNotices(cmd.Context(), app.Keep()); err != nil {
				return err
			}
			return app.PrintDone("All notices are sent by email, and none to Slack.")
		},
	}
}
