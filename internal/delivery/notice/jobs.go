package notice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
)

// Queue is the River queue of messages.
const Queue = "notices"

// maxTries is how often a message is tried, with River's growing pauses: for about a day.
const maxTries = 15

// enqueuer adds a job to the queue in a transaction; implemented by *river.Client[pgx.Tx].
type enqueuer interface {
	InsertTx(ctx context.Context, tx postgres.Tx, args river.JobArgs, opts *river.InsertOpts) (*rivertype.JobInsertResult, error)
}

// postArgs identify what an organisation was told at one time.
type postArgs struct {
	Org  id.Org    `json:"org"`
	Told mail.Kind `json:"kind"`
	At   time.Time `json:"at"`
}

func (postArgs) Kind() string { return "post_notice" }

func (s *Notices) enqueuePost(ctx context.Context, tx postgres.Tx, args postArgs) error {
	if _, err := s.deps.Queue.InsertTx(ctx, tx, args, &river.InsertOpts{Queue: Queue, MaxAttempts: maxTries}); err != nil {
		return fmt.Errorf("enqueue a message: %w", err)
	}
	return nil
}

type worker struct {
	river.WorkerDefaults[postArgs]
	notices *Notices
}

// Timeout is longer than a request takes.
func (*worker) Timeout(*river.Job[postArgs]) time.Duration { return time.Minute }

// Work posts one message.
func (w *worker) Work(ctx context.Context, job *river.Job[postArgs]) error {
	err := w.notices.post(postgres.WithOrg(ctx, job.Args.Org), job.Args)
	if errors.Is(err, errRevoked) {
		return river.JobCancel(err)
	}
	return err
}

// Register adds this package's worker.
func Register(workers *river.Workers, s *Notices) { river.AddWorker(workers, &worker{notices: s}) }
