package job

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Queue is the River queue of runs.
const Queue = "jobs"

// enqueuer adds a job to the queue in a transaction; implemented by *river.Client[pgx.Tx].
type enqueuer interface {
	InsertTx(ctx context.Context, tx postgres.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// runArgs identify a job to be run. A run of a job that another worker has, or that is over, does nothing.
type runArgs struct {
	Org id.Org `json:"org"`
	Job id.Job `json:"job"`
}

func (runArgs) Kind() string { return "run_job" }

func (s *Jobs) enqueue(ctx context.Context, tx postgres.Tx, owner id.Org, which id.Job) error {
	// One try: if the run is lost, the row's timer enqueues another (Due).
	_, err := s.deps.Queue.InsertTx(ctx, tx, runArgs{owner, which}, &river.InsertOpts{Queue: Queue, MaxAttempts: 1})
	if err != nil {
		return fmt.Errorf("enqueue job %s: %w", which, err)
	}
	return nil
}

type worker struct {
	river.WorkerDefaults[runArgs]
	jobs *Jobs
}

// Timeout is longer than any run takes.
func (*worker) Timeout(*river.Job[runArgs]) time.Duration { return sliceLimit + 2*settleTimeout }

// Work runs a job for a while.
func (w *worker) Work(ctx context.Context, j *river.Job[runArgs]) error {
	if err := w.jobs.Take(ctx, j.Args.Org, j.Args.Job); err != nil {
		w.jobs.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot run job",
			slog.String(logkey.JobID, string(j.Args.Job)), slog.Any(logkey.Error, err))
	}
	return nil // the row decides what happens next, not the queue
}

// Register adds this package's worker.
func Register(workers *river.Workers, s *Jobs) { river.AddWorker(workers, &worker{jobs: s}) }
