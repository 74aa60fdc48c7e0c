package job

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/jobs/job/internal/db"
)

const (
	// dueEvery is how often a worker looks for jobs that are due, and dueRows how many it handles in one transaction.
	dueEvery, dueRows = 2 * time.Second, 50
	// startWithin is how long a run may wait in the queue before it is taken for lost.
	startWithin = 10 * time.Second
	// handleAgain is when what failed for a job is repeated: the deletion of its result, or reading its row.
	handleAgain = 5 * time.Minute
)

// Run handles jobs that are due until ctx ends. Then the runs of this node end with their next checkpoint.
func (s *Jobs) Run(ctx context.Context) error {
	defer close(s.stopping)
	tick, stop := s.deps.Ticker(dueEvery)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		if err := s.Due(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot handle due jobs", slog.Any(logkey.Error, err))
		}
	}
}

// Due handles the jobs that are due: it enqueues those that no worker has, deletes results that have expired, and deletes
// jobs that are old.
func (s *Jobs) Due(ctx context.Context) error {
	for {
		handled, expired, err := s.handleSome(ctx)
		if err != nil {
			return err
		}
		for _, j := range expired {
			if err := s.deleteResult(ctx, &j); err != nil {
				return fmt.Errorf("delete the result of job %s: %w", j.ID, err)
			}
		}
		if handled < dueRows {
			return nil
		}
	}
}

// handleSome handles up to dueRows jobs in one transaction, and returns those whose result has to be deleted.
func (s *Jobs) handleSome(ctx context.Context) (handled int, expired []Job, err error) {
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		expired = nil // the transaction may be repeated
		now, err := s.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		rows, err := db.New(tx).LockDue(ctx, db.LockDueParams{Now: now, MaxRows: dueRows})
		if err != nil {
			return err
		}
		handled = len(rows)
		for _, row := range rows {
			j, err := fromRow(row, nil)
			if err != nil {
				// Perhaps a newer version wrote it. It must not keep the other jobs waiting.
				s.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot read job", slog.String(logkey.JobID, string(row.ID)), slog.Any(logkey.Error, err))
				if err := db.New(tx).Wake(ctx, db.WakeParams{OrgID: row.OrgID, ID: row.ID, WakeAt: now.Add(handleAgain)}); err != nil {
					return err
				}
				continue
			}
			if err := s.handleDue(ctx, tx, &j, now); err != nil {
				return fmt.Errorf("job %s: %w", row.ID, err)
			}
			if j.State.IsOver() && j.ExpiredAt == nil {
				expired = append(expired, j)
			}
		}
		return nil
	})
	return handled, expired, err
}

// handleDue does what is due for a job, and sets its timer.
func (s *Jobs) handleDue(ctx context.Context, tx postgres.Tx, j *Job, now time.Time) error {
	q := db.New(tx)
	switch {
	case !j.State.IsOver():
		if err := q.Wake(ctx, db.WakeParams{OrgID: j.Org, ID: j.ID, WakeAt: now.Add(startWithin)}); err != nil {
			return err
		}
		return s.enqueue(ctx, tx, j.Org, j.ID)
	case j.ExpiredAt == nil:
		// deleteResult follows. If it fails, it is repeated.
		return q.Wake(ctx, db.WakeParams{OrgID: j.Org, ID: j.ID, WakeAt: now.Add(handleAgain)})
	default:
		return q.Drop(ctx, db.DropParams{OrgID: j.Org, ID: j.ID})
	}
}

// deleteResult deletes the result of a job that is over.
func (s *Jobs) deleteResult(ctx context.Context, j *Job) error {
	if s.deps.Objects != nil {
		if err := s.deps.Objects.Delete(ctx, j.Org, folderName(j.ID)); err != nil {
			return err
		}
	}
	return s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		now, err := s.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		q := db.New(tx)
		if err := q.DropParts(ctx, db.DropPartsParams{OrgID: j.Org, JobID: j.ID}); err != nil {
			return err
		}
		return q.Expire(ctx, db.ExpireParams{OrgID: j.Org, ID: j.ID, Now: &now, WakeAt: now.Add(KeepJob - KeepResult)})
	})
}
