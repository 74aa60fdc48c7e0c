package org

import (
	"context"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Enqueuer inserts a job in the caller's transaction. *river.Client[pgx.Tx] implements it.
type Enqueuer interface {
	InsertTx(ctx context.Context, tx postgres.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// announceArgs are the arguments of the job that announces an epoch to every node. Its transaction also changes the
// epoch, so the nodes learn of the change even if the announcement right after the commit fails.
type announceArgs struct {
	Org   id.Org `json:"org"`
	Epoch int64  `json:"epoch"`
}

func (announceArgs) Kind() string { return "org_announce_epoch" }

func enqueueAnnounce(ctx context.Context, jobs Enqueuer, tx postgres.Tx, org id.Org, epoch int64) error {
	if _, err := jobs.InsertTx(ctx, tx, announceArgs{org, epoch}, nil); err != nil {
		return fmt.Errorf("enqueue epoch %d of %s: %w", epoch, org, err)
	}
	return nil
}

// AnnounceWorker announces an epoch; River retries the job until the announcement succeeds. Repeats are harmless
// because receivers keep the highest epoch they have seen.
type AnnounceWorker struct {
	river.WorkerDefaults[announceArgs]
	Announcer announcer
}

// Work announces the epoch of one job.
func (w *AnnounceWorker) Work(ctx context.Context, job *river.Job[announceArgs]) error {
	return w.Announcer.Announce(ctx, job.Args.Org, job.Args.Epoch)
}

// Register adds this package's workers to River.
func Register(workers *river.Workers, a announcer) {
	river.AddWorker(workers, &AnnounceWorker{Announcer: a})
}
