package manage

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

func logs(app *core.App) *cobra.Command {
	return core.Group("logs", "Show your API requests and errors", listLogs(app), getLog(app), listErrors(app))
}

func listLogs(app *core.App) *cobra.Command {
	var f core.LogFilter
	var since string
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List requests, newest first", Args: cobra.NoArgs,
		Long: `List requests that your keys made, newest first. The log never contains request or response bodies.

Columns in a pipe: time, request id, status, HTTP method, method or operation, account id, error code, milliseconds,
source, reason.`,
		Example: "  stagedoor logs list --status 5xx --since 1h\n  stagedoor logs list -a Maya --method messages.send",
		RunE: func(cmd *cobra.Command, _ []string) error {
			params, err := f.Params(cmd.Context(), app)
			if err == nil && since != "" {
				params.Since, err = app.Since(since)
			}
			if err != nil {
				return err
			}
			params.Limit = int64(limit)
			got, err := app.API().Logs.List(cmd.Context(), params, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			app.Out.Table(logTable(app, got.Logs))
			return nil
		},
	}
	f.AddFlags(app, cmd)
	cmd.Flags().StringVar(&since, "since", "", "only requests since 15m, 1h or 2d ago, or since a time (RFC 3339)")
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of requests, up to 100")
	return cmd
}

func logTable(app *core.App, list []stagedoor.Log) output.Table {
	table := output.Table{
		Columns: output.Columns("when", "request", ">status", "method~", "problem~", ">took"),
		Empty:   "No matching requests. A request appears a second or two after its response.",
	}
	if !app.Out.TTY {
		table.Columns = output.Columns("when", "request", "status", "http", "method", "account", "problem", "took", "source",
			"reason")
	}
	for _, e := range list {
		took := output.Cell{Text: output.Millis(e.DurationMs), Raw: strconv.FormatFloat(e.DurationMs, 'f', 0, 64)}
		what, reason := output.Text(core.Deref(e.Code)), core.Deref(e.Reason)
		if app.Out.TTY && reason != "" {
			what.Text += " (" + reason + ")"
		}
		row := []output.Cell{app.Out.When(e.At), output.Text(e.RequestID), output.Status(e.Status), output.Text(e.Method),
			what, took}
		if !app.Out.TTY {
			row = []output.Cell{row[0], row[1], row[2], output.Text(e.Http), row[3], output.Text(core.Deref(e.AccountID)),
				row[4], took, output.Text(e.Source), output.Text(reason)}
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

func getLog(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "get <request>", Short: "Show a request by its id", Args: cobra.ExactArgs(1),
		Long: "Show a request by its id. Error messages and the header X-Request-Id contain the id.",
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := app.API().Logs.Get(cmd.Context(), args[0], app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			app.Out.Fields([]output.Field{
				{Name: "request", Cell: output.Text(e.RequestID)},
				{Name: "when", Cell: app.Out.When(e.At)},
				{Name: "method", Cell: output.Text(e.Http + " " + e.Method)},
				{Name: "status", Cell: output.Status(e.Status)},
				{Name: "problem", Cell: output.Text(core.Deref(e.Code))},
				{Name: "reason", Cell: output.Text(core.Deref(e.Reason))},
				{Name: "invalid fields", Cell: output.Text(invalidFields(e))},
				{Name: "account", Cell: output.Text(core.Deref(e.AccountID))},
				{Name: "key", Cell: output.Text(e.KeyID)},
				{Name: "source", Cell: output.Text(e.Source)},
				{Name: "took", Cell: output.Text(output.Millis(e.DurationMs))},
				{Name: "platform took", Cell: output.Text(platformTime(e))},
				{Name: "received", Cell: output.Size(e.BytesIn)},
				{Name: "sent", Cell: output.Size(e.BytesOut)},
				{Name: "notes", Cell: output.Text(notes(e))},
			})
			if code := core.Deref(e.Code); code != "" {
				app.Out.Hint("Explain it: stagedoor explain %s", code)
			}
			return nil
		},
	}
}

// invalidFields lists the invalid fields of the request and their error codes.
func invalidFields(e *stagedoor.Log) string {
	var words []string
	for _, f := range e.Errors {
		at := cmp.Or(f.Pointer, "body")
		words = append(words, at+" ("+f.Code+")")
	}
	return strings.Join(words, ", ")
}

// platformTime returns the platform's share of the duration and its error code, if any.
func platformTime(e *stagedoor.Log) string {
	if e.UpstreamMs == nil {
		return "not called"
	}
	text := output.Millis(*e.UpstreamMs)
	if code := strings.Trim(string(e.UpstreamCode), `"`); code != "" && code != "null" {
		text += ", code " + code
	}
	return text
}

func notes(e *stagedoor.Log) string {
	var words []string
	if e.DryRun {
		words = append(words, "dry run")
	}
	if e.Replayed {
		words = append(words, "replayed by its idempotency key")
	}
	return strings.Join(words, ", ")
}

func listErrors(app *core.App) *cobra.Command {
	var since string
	cmd := &cobra.Command{
		Use: "errors", Short: "List the most frequent errors", Args: cobra.NoArgs,
		Long: `List the most frequent errors, grouped by error code and method.

Columns in a pipe: count, status, error code, reason, method, accounts, last time, last request.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			at, err := app.Since(since)
			if err != nil {
				return err
			}
			params := stagedoor.LogsListErrorsParams{Since: at}
			got, err := app.API().Logs.ListErrors(cmd.Context(), params, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			table := output.Table{
				Columns: output.Columns(">count", ">status", "problem~", "method~", "last", "last request"),
				Empty:   "No errors in this period.",
			}
			for _, e := range got.Errors {
				what, reason := output.Text(e.Code), core.Deref(e.Reason)
				if app.Out.TTY && reason != "" {
					what.Text += " (" + reason + ")"
				}
				row := []output.Cell{output.Number(e.Count), output.Status(e.Status), what, output.Text(e.Method),
					app.Out.When(e.LastAt), output.Text(e.LastRequestID)}
				if !app.Out.TTY {
					row = slices.Insert(slices.Insert(row, 4, output.Number(e.Accounts)), 3, output.Text(reason))
				}
				table.Rows = append(table.Rows, row)
			}
			app.Out.Table(table)
			return nil
		},
	}
	cmd.Flags().StringVar(&since, "since", "24h", "start of the period: 15m, 1h or 2d ago, or a time (RFC 3339)")
	return cmd
}
