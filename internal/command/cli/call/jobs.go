package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

type exportOptions struct {
	accounts, metadata    []string
	platform, state, file string
	all                   bool
	share                 float64
}

func exportCommand(app *core.App) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use: "export <method> [name=value | name:=json | @file | -]...", Short: "Read all pages of a method over one or many accounts",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeCall(app),
		Long: `Read all pages of a method over one or many accounts, into a gzip file with a line of JSON per item:
{"accountId", "item"}, or {"accountId", "problem"} for an account that cannot be read to its end.

The export is a job on the server, which uses at most half of each limit. If this command is interrupted, the job continues:
stagedoor jobs list shows it, and stagedoor jobs download saves its result, for 7 days.`,
		Example: `  stagedoor export fans.list --all-accounts -o fans.ndjson.gz
  stagedoor export messages.list chatId=3438267820000000001 -a Maya -o chat.ndjson.gz
  stagedoor export fans.list limit=100 --metadata team=b --state connected -o team-b.ndjson.gz`,
		RunE: func(cmd *cobra.Command, args []string) error { return runExport(cmd.Context(), app, o, args) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.accounts, "account", "a", nil, "account id, label or user name; repeatable")
	flags.BoolVar(&o.all, "all-accounts", false, "all accounts that the key may use and whose platform has the method")
	flags.StringArrayVar(&o.metadata, "metadata", nil, "only accounts with this metadata, such as team=b; repeatable")
	flags.StringVar(&o.platform, "platform", "", "only accounts of this platform")
	flags.StringVar(&o.state, "state", "", "only accounts in this state")
	resultFlags(cmd, &o.file, &o.share)
	_ = cmd.RegisterFlagCompletionFunc("account", app.CompleteAccounts)
	_ = cmd.RegisterFlagCompletionFunc("platform", app.CompletePlatforms)
	return cmd
}

// resultFlags adds the flags of commands that start a job and save its result.
func resultFlags(cmd *cobra.Command, file *string, share *float64) {
	cmd.Flags().StringVarP(file, "output", "o", "", "the file to write")
	cmd.Flags().Float64Var(share, "share", 0, "the part of each limit to use, at most 0.5 (default 0.5)")
}

var errNoFile = core.Usage("name the file with --output, such as -o result.ndjson.gz")

func runExport(ctx context.Context, app *core.App, o exportOptions, args []string) error {
	if o.file == "" {
		return errNoFile
	}
	chosen := len(o.accounts) > 0 || len(o.metadata) > 0 || o.platform != "" || o.state != ""
	if chosen == o.all {
		return core.Usage("choose accounts with --account, --metadata, --platform or --state, or all of them with --all-accounts")
	}
	resource, verb, err := splitMethod(app, args[0])
	if err != nil {
		return err
	}
	choice, platform := stagedoor.AccountChoice{Platform: o.platform, State: o.state}, o.platform
	for _, text := range o.accounts {
		account, of, err := app.AccountPlatform(ctx, text)
		if err != nil {
			return err
		}
		choice.IDs, platform = append(choice.IDs, account), of
	}
	for _, pair := range o.metadata {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return core.UsageHint("Use name=value.", "%q is not metadata", pair)
		}
		if choice.Metadata == nil {
			choice.Metadata = map[string]string{}
		}
		choice.Metadata[name] = value
	}
	if platform == "" { // the usual arguments are those of the first platform
		if list, err := app.Platforms(ctx); err == nil && len(list) > 0 {
			platform = list[0].ID
		}
	}
	given, err := parseArguments(app, findMethod(ctx, app, platform, resource, verb), args[1:])
	if err != nil {
		return err
	}
	job, err := app.API().Jobs.Start(ctx, stagedoor.JobsStartParams{Kind: "export", Method: args[0], Args: given, Accounts: &choice, Share: o.share}, app.Keep())
	if err != nil {
		return err
	}
	return finishJob(ctx, app, job, o.file)
}

func bulkCommand(app *core.App) *cobra.Command {
	var (
		from, file string
		share      float64
	)
	cmd := &cobra.Command{
		Use: "bulk <method>", Short: "Make one call for each line of a file", Args: cobra.ExactArgs(1), ValidArgsFunction: completeCall(app),
		Long: `Make one call for each line of a file, up to 100,000. A line is {"accountId": "acct_…", "args": {…}}. All lines are checked
first; if one is invalid, nothing is called.

The result is a gzip file with a line of JSON per call: {"index", "accountId", "result"} or {"index", "accountId", "problem"}.
No call is made twice, even if servers fail. The job continues on the server if this command is interrupted, and uses at
most half of each limit.`,
		Example: `  stagedoor bulk messages.send --from items.ndjson -o sent.ndjson.gz
  gzip -dc sent.ndjson.gz | jq -c 'select(.problem)'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return errNoFile
			}
			if from == "" {
				return core.Usage("name the file with the items with --from, or - for standard input")
			}
			items, err := readItems(app, from)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			job, err := app.API().Jobs.Start(ctx, stagedoor.JobsStartParams{Kind: "bulk", Method: args[0], Share: share})
			if err != nil {
				return err
			}
			if _, err = app.API().Jobs.PutItems(ctx, job.ID, items); err != nil {
				_, _ = app.API().Jobs.Cancel(context.WithoutCancel(ctx), job.ID) // it would wait for a day
				return err
			}
			return finishJob(ctx, app, job, file)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the file with the items; - for standard input")
	resultFlags(cmd, &file, &share)
	return cmd
}

// readItems reads items, one on each line.
func readItems(app *core.App, file string) ([]stagedoor.JobItem, error) {
	text, err := app.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if file == "-" {
		file = "standard input"
	}
	var items []stagedoor.JobItem
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var one stagedoor.JobItem
		read := json.NewDecoder(bytes.NewReader(line))
		read.UseNumber()
		read.DisallowUnknownFields()
		if err := read.Decode(&one); err != nil || one.AccountID == "" {
			return nil, core.UsageHint(`Example: {"accountId": "acct_…", "args": {"chatId": "3438267820000000001", "text": "Hi"}}`, "line %d of %s is not an item", number, file)
		}
		items = append(items, one)
	}
	if len(items) == 0 {
		return nil, core.Usage("%s has no items", file)
	}
	return items, nil
}

func exportOrg(app *core.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "export-org", Short: "Download everything that is stored about the organisation", Args: cobra.NoArgs,
		Long: `Download everything that is stored about the organisation, as a gzip file with a line of JSON per record.

The export runs on the server. If this command is interrupted, it continues there; its result can be downloaded for 7 days.
The key needs every scope that reads and no limits to accounts or methods.`,
		Example: "  stagedoor export-org -o export.ndjson.gz\n  gzip -dc export.ndjson.gz | jq -r .kind | sort | uniq -c",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return core.Usage("name the file with --output, such as -o export.ndjson.gz")
			}
			ctx := cmd.Context()
			job, err := app.API().Jobs.Start(ctx, stagedoor.JobsStartParams{Kind: "org_export"}, app.Keep())
			if err != nil {
				return err
			}
			if job, err = awaitJob(ctx, app, job); err != nil {
				return err
			}
			if err := saveResult(ctx, app, job.ID, file); err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			app.Out.Done("Saved the export.")
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "the file to write")
	return cmd
}

// finishJob waits for a job, saves its result and says what it has come to.
func finishJob(ctx context.Context, app *core.App, job *stagedoor.Job, file string) error {
	started := job.ID
	job, err := awaitJob(ctx, app, job)
	if ctx.Err() != nil {
		app.Out.Hint("The job continues on the server: stagedoor jobs get %s", started)
	}
	if err != nil {
		return err
	}
	if err := saveResult(ctx, app, job.ID, file); err != nil || app.Out.JSON {
		return app.PrintResponse(err)
	}
	lines := count(job.Progress.Items, "line")
	if job.Progress.Failed > 0 {
		app.Out.Warn("Saved %s, of which %d are problems.", lines, job.Progress.Failed)
		return nil
	}
	app.Out.Done("Saved %s.", lines)
	return nil
}

func count(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.FormatInt(n, 10) + " " + noun + "s"
}

// awaitJob waits until a job is over. It returns an error if the job has failed.
func awaitJob(ctx context.Context, app *core.App, job *stagedoor.Job) (*stagedoor.Job, error) {
	progress := app.Out.Spin("Working")
	defer progress.Stop()
	for job.FinishedAt == nil {
		var err error
		if job, err = app.API().Jobs.Get(ctx, job.ID, stagedoor.JobsGetParams{Wait: 2}, app.Keep()); err != nil {
			return nil, err
		}
		progress.Text(progressOf(job))
	}
	if job.State == "completed" || job.State == "completed_with_errors" {
		return job, nil
	}
	why := job.State
	if job.Error != nil {
		why = job.Error.Detail
	}
	return nil, &core.Fault{Code: core.ExitOther, Text: "the job " + job.ID + " did not complete: " + why}
}

// barWidth is the width of a progress bar in characters.
const barWidth = 20

// progressOf returns a bar and what is done.
func progressOf(job *stagedoor.Job) string {
	p := job.Progress
	full := min(barWidth, int(p.Percent)*barWidth/100)
	text := fmt.Sprintf("%s%s %d %%, %s", strings.Repeat("█", full), strings.Repeat("░", barWidth-full), p.Percent, count(p.Items, "line"))
	if p.AccountsTotal > 1 {
		text += fmt.Sprintf(", %d of %d accounts", p.AccountsDone, p.AccountsTotal)
	}
	if job.State == "paused_by_limit" {
		text += ", waits for a limit"
	}
	return text
}

// saveResult writes the result of a job to a file, which is replaced once the download is complete.
func saveResult(ctx context.Context, app *core.App, job, file string) (err error) {
	result, err := app.API().Jobs.GetResult(ctx, job, stagedoor.DownloadOptions{})
	if err != nil {
		return err
	}
	defer result.Body.Close()
	draft, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*") // with mode 0600
	if err != nil {
		return fmt.Errorf("create a file for the result: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(draft.Name())
		}
	}()
	_, err = io.Copy(draft, result.Body)
	if err = errors.Join(err, draft.Close()); err != nil {
		return fmt.Errorf("download the result: %w", err)
	}
	if err := os.Rename(draft.Name(), file); err != nil {
		return fmt.Errorf("save the result: %w", err)
	}
	return nil
}

func jobsCommand(app *core.App) *cobra.Command {
	return core.Group("jobs", "List and cancel jobs, and download their results", listJobs(app), getJob(app), cancelJob(app), downloadJob(app))
}

func listJobs(app *core.App) *cobra.Command {
	var p stagedoor.JobsListParams
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs, newest first", Args: cobra.NoArgs, Example: "  stagedoor jobs list --kind bulk",
		RunE: func(cmd *cobra.Command, _ []string) error {
			page, err := app.API().Jobs.List(cmd.Context(), p, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			rows := make([][]output.Cell, len(page.Jobs))
			for i, j := range page.Jobs {
				rows[i] = []output.Cell{
					output.Text(j.ID), output.Text(j.Kind), output.Text(j.State), output.Text(strconv.FormatInt(j.Progress.Percent, 10) + " %"),
					output.Text(strconv.FormatInt(j.Progress.Items, 10)), output.Text(strconv.FormatInt(j.Progress.Failed, 10)), app.Out.When(j.CreatedAt),
				}
			}
			app.Out.Table(output.Table{
				Columns: output.Columns("id", "kind", "state", "done", "lines", "problems", "created"), Rows: rows, Empty: "No jobs in the last 30 days.",
			})
			return nil
		},
	}
	cmd.Flags().StringVar(&p.Kind, "kind", "", "only jobs of this kind: export, bulk or org_export")
	cmd.Flags().Int64Var(&p.Limit, "limit", 50, "the number of jobs")
	return cmd
}

func getJob(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "get <id>", Short: "Show a job", Args: cobra.ExactArgs(1), Example: "  stagedoor jobs get job_01k9x3m5v8e7rbq2n4t6w8y0zg",
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := app.API().Jobs.Get(cmd.Context(), args[0], stagedoor.JobsGetParams{}, app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			fields := []output.Field{
				{Name: "id", Cell: output.Text(job.ID)}, {Name: "kind", Cell: output.Text(job.Kind)}, {Name: "state", Cell: output.Text(job.State)},
				{Name: "progress", Cell: output.Text(progressOf(job))}, {Name: "problems", Cell: output.Text(strconv.FormatInt(job.Progress.Failed, 10))},
				{Name: "created", Cell: app.Out.When(job.CreatedAt)},
			}
			if job.Error != nil {
				fields = append(fields, output.Field{Name: "error", Cell: output.Text(job.Error.Detail)})
			}
			app.Out.Fields(fields)
			return nil
		},
	}
}

func cancelJob(app *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "cancel <id>", Short: "Cancel a job; what it has written can be downloaded", Args: cobra.ExactArgs(1), Example: "  stagedoor jobs cancel job_01k9x3m5v8e7rbq2n4t6w8y0zg",
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := app.API().Jobs.Cancel(cmd.Context(), args[0], app.Keep())
			if err != nil || app.Out.JSON {
				return app.PrintResponse(err)
			}
			app.Out.Done("The job is %s.", strings.ReplaceAll(job.State, "_", " "))
			return nil
		},
	}
}

func downloadJob(app *core.App) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "download <id>", Short: "Save the result of a job", Args: cobra.ExactArgs(1), Example: "  stagedoor jobs download job_01k9x3m5v8e7rbq2n4t6w8y0zg -o result.ndjson.gz",
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return errNoFile
			}
			if err := saveResult(cmd.Context(), app, args[0], file); err != nil {
				return err
			}
			app.Out.Done("Saved the result.")
			return nil
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "the file to write")
	return cmd
}
