package connect

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// enqueuer adds a job in a transaction; implemented by *river.Client[pgx.Tx].
type enqueuer interface {
	InsertTx(ctx context.Context, tx postgres.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// Queue is the River queue of steps.
const Queue = "connect"

// stepArgs identify a step. A job for a step that is no longer the current one does nothing.
type stepArgs struct {
	Org     id.Org     `json:"org"`
	Attempt id.Attempt `json:"attempt"`
	Step    int64      `json:"step"`
}

func (stepArgs) Kind() string { return "connect_step" }

func (c *Connects) enqueue(ctx context.Context, tx postgres.Tx, r record) error {
	// One try: if the job is lost, the row's timers enqueue the step again (Due).
	_, err := c.deps.Jobs.InsertTx(ctx, tx, stepArgs{r.Org, r.ID, r.StepSeq}, &river.InsertOpts{Queue: Queue, MaxAttempts: 1})
	if err != nil {
		return fmt.Errorf("enqueue a step: %w", err)
	}
	return nil
}

type stepWorker struct {
	river.WorkerDefaults[stepArgs]
	connects *Connects
}

// Timeout is longer than any step may take; takeStep has its own timeout.
func (*stepWorker) Timeout(*river.Job[stepArgs]) time.Duration {
	return attempt.StepLimit + 30*time.Second
}

// Work runs one step.
func (w *stepWorker) Work(ctx context.Context, job *river.Job[stepArgs]) error {
	err := w.connects.takeStep(ctx, job.Args)
	if err != nil {
		w.connects.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot run step of attempt",
			slog.String(logkey.AttemptID, string(job.Args.Attempt)), slog.Any(logkey.Error, err))
	}
	return nil // the row decides what happens next, not the queue
}

// Register adds this package's workers.
func Register(workers *river.Workers, c *Connects) {
	river.AddWorker(workers, &stepWorker{connects: c})
}
