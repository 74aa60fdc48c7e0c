package manage

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// window is a limit and what is left of it.
type window struct {
	Limit, Remaining, Reset int64
}

type usageBody struct {
	RateLimits struct {
		Org, OrgMonth, ConnectAttempts window
		Account                        *struct{ Read, Write window }
		AccountDefaults                struct{ ReadPerMinute, WritePerMinute int64 }
	}
	Usage struct {
		PeriodStart, PeriodEnd time.Time
		Calls                  struct{ Total, Read, Write, Failed, RateLimited int64 }
		Accounts               struct{ Connected, Limit int64 }
		Connect                struct{ Started, Succeeded, Failed int64 }
		Events                 struct{ Received, Streamed, Delivered, DeliveryFailed int64 }
		ByResource             map[string]int64
	}
}

func usage(app *core.App) *cobra.Command {
	var account string
	cmd := &cobra.Command{
		Use: "usage", Short: "Limits as they stand now, and what was used this month", Args: cobra.NoArgs,
		Long: "Limits as they stand now, and what was used this month.\n\nColumns in a pipe: what, used, limit (-1 is none), when the limit starts anew; then what and how many.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if account != "" {
				id, err := app.AccountID(cmd.Context(), account)
				if err != nil {
					return err
				}
				query.Set("accountId", id)
			}
			var got usageBody
			reply, err := app.Get(cmd.Context(), "/v1/me/usage", query, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			got.print(app)
			return nil
		},
	}
	cmd.Flags().StringVarP(&account, "account", "a", "", "also the limits of this account: its id, label or user name")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	return cmd
}

func (u usageBody) print(app *core.App) {
	table := out.Table{Columns: out.Columns("limit", ">used", ">of", "", "resets")}
	add := func(name string, w window) {
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
	counts := out.Table{Columns: out.Columns("since "+month.PeriodStart.Format("2 January"), ">count")}
	for _, row := range []struct {
		name string
		n    int64
	}{
		{"calls", month.Calls.Total}, {"of them reads on accounts", month.Calls.Read}, {"of them writes on accounts", month.Calls.Write}, {"failed", month.Calls.Failed},
		{"refused by a limit", month.Calls.RateLimited}, {"connects started", month.Connect.Started}, {"connects succeeded", month.Connect.Succeeded},
		{"events received", month.Events.Received}, {"events streamed", month.Events.Streamed}, {"events delivered", month.Events.Delivered}, {"deliveries failed", month.Events.DeliveryFailed},
	} {
		counts.Rows = append(counts.Rows, []out.Cell{out.Text(row.name), out.Number(row.n)})
	}
	if app.Out.TTY {
		app.Out.Data("")
	}
	app.Out.Table(counts)
}

// meter is a row that shows how much of a limit is used.
func meter(app *core.App, name string, used, limit int64, reset time.Time) []out.Cell {
	if limit < 0 {
		return []out.Cell{out.Text(name), out.Number(max(0, used)), {Text: "no limit", Raw: "-1"}, {Text: "–"}, {Text: "–"}}
	}
	bar, tone := "", out.Good
	if limit > 0 {
		full := int(min(20, used*20/limit))
		bar = strings.Repeat("█", full) + strings.Repeat("░", 20-full)
		if used*10 >= limit*8 {
			tone = out.Attention
		}
		if used >= limit {
			tone = out.Bad
		}
	}
	again := out.Cell{Text: "–", Tone: out.Faint}
	if !reset.IsZero() {
		again = out.Cell{Text: app.Out.Ago(reset), Raw: reset.UTC().Format(time.RFC3339)}
	}
	row := []out.Cell{out.Text(name), out.Number(used), out.Number(limit)}
	if app.Out.TTY {
		return append(row, out.Toned(tone, bar+" "+strconv.FormatInt(percent(used, limit), 10)+" %"), again)
	}
	return append(row, again)
}

func percent(used, limit int64) int64 {
	if limit <= 0 {
		return 0
	}
	return used * 100 / limit
}
