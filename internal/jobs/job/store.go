package job

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/jobs/job/internal/db"
)

// fromRow converts the result of a query for one job.
func fromRow(row db.Job, err error) (Job, error) {
	if errors.Is(err, postgres.ErrNoRows) {
		return Job{}, notFound()
	}
	if err != nil {
		return Job{}, err
	}
	j := Job{
		Org: row.OrgID, ID: row.ID, Kind: row.Kind, State: State(row.State), Params: row.Params,
		Progress: Progress{
			AccountsDone: row.AccountsDone, AccountsTotal: row.AccountsTotal, Items: row.Items, Failed: row.Failures, Percent: int(row.Percent),
		},
		ErrorCode: row.ErrorCode, ErrorDetail: row.ErrorDetail, CreatedAt: row.CreatedAt, StartedAt: row.StartedAt,
		Awaits: row.Awaits, FinishedAt: row.FinishedAt, ExpiredAt: row.ExpiredAt, checkpoint: row.Checkpoint, parts: int(row.Parts), epoch: row.Epoch, tries: int(row.Tries),
	}
	if len(row.Input) > 0 {
		if err := json.Unmarshal(row.Input, &j.input); err != nil {
			return Job{}, fmt.Errorf("read the input of job %s: %w", j.ID, err)
		}
	}
	if err := json.Unmarshal(row.AskedBy, &j.askedBy); err != nil {
		return Job{}, fmt.Errorf("read who asked for job %s: %w", j.ID, err)
	}
	return j, nil
}
