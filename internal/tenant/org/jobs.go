package org

import (
	"context"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Enqueuer adds a job in a transaction; *river.Client[pgx.Tx] has it.
type Enqueuer interface {
	InsertTx(ctx context.Context, tx postgres.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// announceArgs asks for an epoch to be told to every node, in case the fast way failed after the commit.
type announceArgs struct {
	Org   id.Org `json:"org"`
	Epoch int64  `json:"epoch"`
}

// Kind names the job in the queue.
func (announceArgs) Kind() string { return "org_announce_epoch" }

func enqueueAnnounce(ctx context.Context, jobs Enqueuer, tx postgres.Tx, org id.Org, epoch int64) error {
	if _, err := jobs.InsertTx(ctx, tx, announceArgs{org, epoch}, nil); err != nil {
		return fmt.Errorf("enqueue epoch %d of %s: %w", epoch, org, err)
	}
	return nil
}

// AnnounceWorker tells an epoch again until it is known to have arrived. Telling it twice is harmless:
// an epoch only ever grows.
type AnnounceWorker struct {
	river.WorkerDefaults[announceArgs]
	Announcer announcer
}

// Work does one job.
func (w *AnnounceWorker) Work(ctx context.Context, job *river.Job[announceArgs]) error {
	return w.Announcer.Announce(ctx, job.Args.Org, job.Args.Epoch)
}

// Register adds this package's workers.
func Register(workers *river.Workers, a announcer) {
	river.AddWorker(workers, &AnnounceWorker{Announcer: a})
}
