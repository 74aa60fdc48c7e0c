package testenv

import (
	"context"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// NoJobs discards jobs, which would only repeat announcements.
type NoJobs struct{}

// InsertTx does nothing.
func (NoJobs) InsertTx(
	context.Context, postgres.Tx, river.JobArgs, *river.InsertOpts,
) (*rivertype.JobInsertResult, error) {
	return &rivertype.JobInsertResult{}, nil
}
