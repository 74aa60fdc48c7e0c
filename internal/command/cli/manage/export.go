package manage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
	"github.com/stagedoor/stagedoor/internal/command/cli/core"
)

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

// awaitJob waits until a job is over. It returns an error if the job has failed.
func awaitJob(ctx context.Context, app *core.App, job *stagedoor.Job) (*stagedoor.Job, error) {
	progress := app.Out.Spin("Exporting")
	defer progress.Stop()
	for job.FinishedAt == nil {
		var err error
		if job, err = app.API().Jobs.Get(ctx, job.ID, stagedoor.JobsGetParams{Wait: 2}, app.Keep()); err != nil {
			return nil, err
		}
		progress.Text(fmt.Sprintf("Exporting: %d %%, %d records", job.Progress.Percent, job.Progress.Items))
	}
	if job.State == "completed" {
		return job, nil
	}
	why := job.State
	if job.Error != nil {
		why = job.Error.Detail
	}
	return nil, &core.Fault{Code: core.ExitOther, Text: "the export " + job.ID + " did not complete: " + why}
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
		return fmt.Errorf("create a file for the export: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(draft.Name())
		}
	}()
	_, err = io.Copy(draft, result.Body)
	if err = errors.Join(err, draft.Close()); err != nil {
		return fmt.Errorf("download the export: %w", err)
	}
	if err := os.Rename(draft.Name(), file); err != nil {
		return fmt.Errorf("save the export: %w", err)
	}
	return nil
}
