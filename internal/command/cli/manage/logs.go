package manage

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// entry is a request in the log.
type entry struct {
	RequestID  string    `json:"requestId"`
	At         time.Time `json:"at"`
	Method     string    `json:"method"`
	HTTP       string    `json:"http"`
	Status     int       `json:"status"`
	DurationMs float64   `json:"durationMs"`
	UpstreamMs *float64  `json:"upstreamMs"`
	KeyID      string    `json:"keyId"`
	Source     string    `json:"source"`
	AccountID  *string   `json:"accountId"`
	Code       *string   `json:"code"`
	Reason     *string   `json:"reason"`
	Retryable  *bool     `json:"retryable"`
	Errors     []struct {
		Pointer string `json:"pointer"`
		Code    string `json:"code"`
	} `json:"errors"`
	UpstreamCode *int  `json:"upstreamCode"`
	BytesIn      int64 `json:"bytesIn"`
	BytesOut     int64 `json:"bytesOut"`
	Replayed     bool  `json:"replayed"`
	DryRun       bool  `json:"dryRun"`
}

func logs(app *core.App) *cobra.Command {
	return core.Group("logs", "Requests that your keys made", listLogs(app), getLog(app), listErrors(app))
}

// filter are the flags that choose requests.
type filter struct{ account, status, method, code, key, source, since string }

func (f *filter) flags(app *core.App, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.account, "account", "a", "", "only about this account: its id, label or user name")
	flags.StringVar(&f.status, "status", "", "only this status or class: 404, 2xx, 4xx, 5xx")
	flags.StringVar(&f.method, "method", "", "only this SDK method or operation: messages.send, listAccounts")
	flags.StringVar(&f.code, "code", "", "only those that ended with this problem")
	flags.StringVar(&f.key, "key", "", "only those of the key with this id")
	flags.StringVar(&f.source, "source", "", "only api, dashboard or cli")
	flags.StringVar(&f.since, "since", "", "only since then: 15m, 1h, 2d, or a time in RFC 3339")
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	_ = cmd.RegisterFlagCompletionFunc("source", cobra.FixedCompletions([]string{"api", "dashboard", "cli"}, cobra.ShellCompDirectiveNoFileComp))
}

func (f *filter) query(cmd *cobra.Command, app *core.App) (url.Values, error) {
	query := url.Values{}
	for name, value := range map[string]string{"status": f.status, "method": f.method, "code": f.code, "keyId": f.key, "source": f.source} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.account != "" {
		id, err := app.AccountID(cmd.Context(), f.account)
		if err != nil {
			return nil, err
		}
		query.Set("accountId", id)
	}
	if f.since != "" {
		at, err := app.Since(f.since)
		if err != nil {
			return nil, err
		}
		query.Set("since", at.UTC().Format(time.RFC3339Nano))
	}
	return query, nil
}

func listLogs(app *core.App) *cobra.Command {
	var f filter
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List requests, newest first", Args: cobra.NoArgs,
		Long: `List requests that your keys made, newest first. What was sent and answered is never in the log.

Columns in a pipe: time, request id, status, HTTP method, method or operation, account id, problem, milliseconds, source, reason.`,
		Example: "  stagedoor logs list --status 5xx --since 1h\n  stagedoor logs list -a Maya --method messages.send",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query, err := f.query(cmd, app)
			if err != nil {
				return err
			}
			query.Set("limit", strconv.Itoa(limit))
			var got struct{ Logs []entry }
			reply, err := app.Get(cmd.Context(), "/v1/logs", query, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			app.Out.Table(logTable(app, got.Logs))
			return nil
		},
	}
	f.flags(app, cmd)
	cmd.Flags().IntVar(&limit, "limit", 20, "at most so many, 100 at most")
	return cmd
}

func logTable(app *core.App, list []entry) out.Table {
	table := out.Table{Columns: out.Columns("when", "request", ">status", "method~", "problem~", ">took"), Empty: "No request matches. They are here a second or two after their answer."}
	if !app.Out.TTY {
		table.Columns = out.Columns("when", "request", "status", "http", "method", "account", "problem", "took", "source", "reason")
	}
	for _, e := range list {
		took := out.Cell{Text: out.Millis(e.DurationMs), Raw: strconv.FormatFloat(e.DurationMs, 'f', 0, 64)}
		what, reason := out.Text(core.Deref(e.Code)), core.Deref(e.Reason)
		if app.Out.TTY && reason != "" {
			what.Text += " (" + reason + ")"
		}
		row := []out.Cell{app.Out.When(e.At), out.Text(e.RequestID), out.Status(e.Status), out.Text(e.Method), what, took}
		if !app.Out.TTY {
			row = []out.Cell{row[0], row[1], row[2], out.Text(e.HTTP), row[3], out.Text(core.Deref(e.AccountID)), row[4], took, out.Text(e.Source), out.Text(reason)}
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

func getLog(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "get <request>", Short: "Show a request by its id", Args: cobra.ExactArgs(1),
		Long: "Show a request by its id, as errors of this program and X-Request-Id tell it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var got struct{ Log entry }
			reply, err := app.Get(cmd.Context(), "/v1/logs/"+url.PathEscape(args[0]), nil, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			e := got.Log
			app.Out.Fields([]out.Field{
				{Name: "request", Cell: out.Text(e.RequestID)}, {Name: "when", Cell: app.Out.When(e.At)}, {Name: "method", Cell: out.Text(e.HTTP + " " + e.Method)},
				{Name: "status", Cell: out.Status(e.Status)}, {Name: "problem", Cell: out.Text(core.Deref(e.Code))}, {Name: "reason", Cell: out.Text(core.Deref(e.Reason))},
				{Name: "wrong fields", Cell: out.Text(wrongFields(e))},
				{Name: "account", Cell: out.Text(core.Deref(e.AccountID))}, {Name: "key", Cell: out.Text(e.KeyID)}, {Name: "source", Cell: out.Text(e.Source)},
				{Name: "took", Cell: out.Text(out.Millis(e.DurationMs))}, {Name: "of it platform", Cell: out.Text(platform(e))},
				{Name: "received", Cell: out.Size(e.BytesIn)}, {Name: "sent", Cell: out.Size(e.BytesOut)}, {Name: "notes", Cell: out.Text(notes(e))},
			})
			if code := core.Deref(e.Code); code != "" {
				app.Out.Hint("What it means: stagedoor explain %s", code)
			}
			return nil
		},
	}
}

// wrongFields lists where the request was wrong, and how.
func wrongFields(e entry) string {
	var words []string
	for _, f := range e.Errors {
		at := f.Pointer
		if at == "" {
			at = "body"
		}
		words = append(words, at+" ("+f.Code+")")
	}
	return strings.Join(words, ", ")
}

func platform(e entry) string {
	if e.UpstreamMs == nil {
		return "not asked"
	}
	text := out.Millis(*e.UpstreamMs)
	if e.UpstreamCode != nil {
		text += ", its code " + strconv.Itoa(*e.UpstreamCode)
	}
	return text
}

func notes(e entry) string {
	var words []string
	if e.DryRun {
		words = append(words, "dry run")
	}
	if e.Replayed {
		words = append(words, "answered again by its idempotency key")
	}
	return strings.Join(words, ", ")
}

func listErrors(app *core.App) *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use: "errors", Short: "What goes wrong most", Args: cobra.NoArgs,
		Long: "What goes wrong most, by problem and method.\n\nColumns in a pipe: times, status, problem, reason, method, accounts, last time, last request.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := app.Since(since)
			if err != nil {
				return err
			}
			var got struct {
				Errors []struct {
					Accounts, Count int64
					Code, Method    string
					Reason          *string
					Status          int
					LastAt          time.Time
					LastRequestID   string
				}
			}
			reply, err := app.Get(cmd.Context(), "/v1/errors", url.Values{"since": {at.UTC().Format(time.RFC3339Nano)}}, &got)
			if err != nil {
				return err
			}
			if app.Out.JSON {
				app.Out.Body(reply.Body)
				return nil
			}
			table := out.Table{Columns: out.Columns(">times", ">status", "problem~", "method~", "last", "last request"), Empty: "No errors in this time."}
			for _, e := range got.Errors {
				what, reason := out.Text(e.Code), core.Deref(e.Reason)
				if app.Out.TTY && reason != "" {
					what.Text += " (" + reason + ")"
				}
				row := []out.Cell{out.Number(e.Count), out.Status(e.Status), what, out.Text(e.Method), app.Out.When(e.LastAt), out.Text(e.LastRequestID)}
				if !app.Out.TTY {
					row = slices.Insert(slices.Insert(row, 4, out.Number(e.Accounts)), 3, out.Text(reason))
				}
				table.Rows = append(table.Rows, row)
			}
			app.Out.Table(table)
			return nil
		},
	}
	cmd.Flags().StringVar(&since, "since", "24h", "since then: 15m, 1h, 2d, or a time in RFC 3339")
	return cmd
}
