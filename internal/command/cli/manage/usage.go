package manage

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

func usage(app *core.App) *cobra.Command {
	var account string
	cmd := &cobra.Command{
		Use: "usage", Short: "Show current limits and this month's usage", Args: cobra.NoArgs,
		Long: `Show current limits and this month's usage.

Columns in a pipe: limit, used, maximum (-1 is unlimited), reset time; then this month's counters and their values.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var params stagedoor.UsageGetParams
			if account != "" {
				id, err := app.AccountID(cmd.Context(), account)
				if err != nil {
					return err
				}
				params.AccountID = id
			}
			got, err := app.API().Usage.Get(cmd.Context(), params, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			printUsage(app, got)
			return nil
		},
	}
	cmd.Flags().StringVarP(&account, "account", "a", "", "also show the limits of this account (id, label or user name)")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	return cmd
}

func printUsage(app *core.App, u *stagedoor.Usage) {
	table := output.Table{Columns: output.Columns("limit", ">used", ">of", "", "resets")}
	add := func(name string, w stagedoor.UsageWindow) {
		table.Rows = append(table.Rows, meter(app, name, w.Limit-w.Remaining, w.Limit, time.Unix(w.Reset, 0)))
	}
	add("calls this minute", u.RateLimits.Org)
	add("calls this month", u.RateLimits.OrgMonth)
	add("connects this hour", u.RateLimits.ConnectAttempts)
	if a := u.RateLimits.Account; a != nil {
		add("account reads this minute", a.Read)
		add("account writes this minute", a.Write)
	}
	table.Rows = append(table.Rows, meter(app, "accounts", u.Usage.Accounts.Connected, u.Usage.Accounts.Limit, time.Time{}))
	app.Out.Table(table)
	month := u.Usage
	counts := output.Table{Columns: output.Columns("since "+month.PeriodStart.Format("2 January"), ">count")}
	for _, row := range []struct {
		name string
		n    int64
	}{
		{"calls", month.Calls.Total}, {"account reads", month.Calls.Read}, {"account writes", month.Calls.Write}, {"failed",
			month.Calls.Failed},
		{"rate limited", month.Calls.RateLimited}, {"connects started", month.Connect.Started}, {"connects succeeded",
			month.Connect.Succeeded},
		{"events received", month.Events.Received}, {"events streamed", month.Events.Streamed}, {"events delivered", month.Events.Delivered}, {"deliveries failed", month.Events.DeliveryFailed},
	} {
		counts.Rows = append(counts.Rows, []output.Cell{output.Text(row.name), output.Number(row.n)})
	}
	if app.Out.TTY {
		app.Out.Data("")
	}
	app.Out.Table(counts)
}

// meter returns a row that shows how much of a limit is used; a bar only on a terminal.
func meter(app *core.App, name string, used, limit int64, reset time.Time) []output.Cell {
	if limit < 0 {
		return []output.Cell{output.Text(name), output.Number(max(0, used)), {Text: "no limit", Raw: "-1"}, {Text: "–"},
			{Text: "–"}}
	}
	bar, tone := "", output.Good
	if limit > 0 {
		full := int(min(20, used*20/limit))
		bar = strings.Repeat("█", full) + strings.Repeat("░", 20-full)
		if used*10 >= limit*8 {
			tone = output.Attention
		}
		if used >= limit {
			tone = output.Bad
		}
	}
	again := output.Cell{Text: "–", Tone: output.Faint}
	if !reset.IsZero() {
		again = output.Cell{Text: app.Out.Ago(reset), Raw: reset.UTC().Format(time.RFC3339)}
	}
	row := []output.Cell{output.Text(name), output.Number(used), output.Number(limit)}
	if app.Out.TTY {
		return append(row, output.Toned(tone, bar+" "+strconv.FormatInt(percent(used, limit), 10)+" %"), again)
	}
	return append(row, again)
}

func percent(used, limit int64) int64 {
	if limit <= 0 {
		return 0
	}
	return used * 100 / limit
}
