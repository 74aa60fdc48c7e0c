package job

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/jobs/job/internal/db"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

const (
	// lease is how long a worker may be silent before another one continues its job, and renewEvery how often it says
	// that it lives. Both are by the database's clock.
	lease, renewEvery = 20 * time.Second, 5 * time.Second
	// slice is how long a run may take before it makes room for other jobs. It ends with the next checkpoint, at the latest
	// after sliceLimit.
	slice, sliceLimit = 2 * time.Minute, 4 * time.Minute
	// settleTimeout bounds the end of a run.
	settleTimeout = 10 * time.Second
	// holdFor is the pause of a job that cannot run now: its organisation is suspended, or this node does not know its kind.
	holdFor = time.Minute
	// maxTries is how often a job may fail in a row before it is over; longestPause is the longest time between two tries.
	maxTries, longestPause = 40, 5 * time.Minute
)

var (
	// errLost means that the job is over, or that another worker has it.
	errLost = errors.New("the job is no longer this worker's")
	// errYield means that another run must continue.
	errYield = errors.New("another run continues the job")
	// errTooOften means that runs ended without a result, for example because the job brings its node down.
	errTooOften = errors.New("runs of the job end without a result")
	// errHold means that the job cannot run for a while.
	errHold = errors.New("the job cannot run now")
)

// refusal is a problem that ends a job, because the caller who asked for it may no longer have it done.
type refusal struct{ because *problem.Error }

func (r refusal) Error() string { return r.because.Error() }

// pause means that the job waits, and that another run continues it.
type pause struct {
	wait time.Duration
	// byLimit says that it waits for a limit.
	byLimit bool
}

func (pause) Error() string { return "the job waits" }

// Take runs a job for a while, unless it is over or another worker has it.
func (s *Jobs) Take(ctx context.Context, owner id.Org, which id.Job) error {
	// Row-level security keeps a job from the rows of other organisations.
	ctx = postgres.WithOrg(ctx, owner)
	now, err := s.deps.DB.Now(ctx, s.deps.DB)
	if err != nil {
		return err
	}
	until := now.Add(lease)
	row, err := db.New(s.deps.DB).Take(ctx, db.TakeParams{
		OrgID: owner, ID: which, Holder: s.deps.Config.Process, LeaseEnd: &until, Now: &now,
	})
	if errors.Is(err, postgres.ErrNoRows) {
		return nil
	}
	j, err := fromRow(row, err)
	if err != nil {
		return err
	}
	running, cancel := context.WithTimeout(ctx, sliceLimit)
	defer cancel()
	go s.renew(running, &j, cancel)
	return s.settle(context.WithoutCancel(ctx), &j, s.execute(running, &j))
}

// renew keeps the lease of a run until ctx ends. If the lease is lost, it ends the run.
func (s *Jobs) renew(ctx context.Context, j *Job, lost func()) {
	which, owner, epoch := j.ID, j.Org, j.epoch
	tick, stop := s.deps.Ticker(renewEvery)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		now, err := s.deps.DB.Now(ctx, s.deps.DB)
		if err != nil {
			continue // if this lasts, another worker takes the job, and this one saves nothing more
		}
		until := now.Add(lease)
		n, err := db.New(s.deps.DB).Renew(ctx, db.RenewParams{OrgID: owner, ID: which, Epoch: epoch, LeaseEnd: &until})
		if err == nil && n == 0 {
			lost()
			return
		}
	}
}

// execute runs a job until it is done, or until it returns why it is not.
func (s *Jobs) execute(ctx context.Context, j *Job) error {
	k, ok := s.kind(j.Kind)
	if !ok || s.deps.Objects == nil {
		return errHold
	}
	if j.tries > maxTries {
		return errTooOften
	}
	r := newRun(s, j, k)
	if _, err := r.Caller(ctx); err != nil {
		return err
	}
	if j.Awaits {
		return refusal{problem.ValidationFailed.New("The job has no items: none were uploaded within a day.")}
	}
	if err := s.deps.Seal.Prepare(ctx, j.Org, string(j.Org)); err != nil {
		return fmt.Errorf("prepare the key of %s: %w", j.Org, err)
	}
	if err := k.Run(ctx, r); err != nil {
		return err
	}
	return r.commit(ctx)
}

// settle writes how a run ended.
func (s *Jobs) settle(ctx context.Context, j *Job, err error) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	refused, isRefused := errors.AsType[refusal](err)
	waits, isPause := errors.AsType[pause](err)
	var failed error
	switch {
	case err == nil:
		state := Completed
		if j.Progress.Failed > 0 {
			state = CompletedWithErrors
		}
		failed = s.end(ctx, j, state, nil)
	case errors.Is(err, errLost):
		return nil
	case isRefused:
		failed = s.end(ctx, j, Failed, refused.because)
	case errors.Is(err, errYield), errors.Is(err, seal.ErrShredded): // an account was deleted in the meantime
		failed = s.release(ctx, j, Running, 0, false)
	case errors.Is(err, errHold):
		failed = s.release(ctx, j, Running, holdFor, false)
	case isPause && waits.byLimit:
		failed = s.release(ctx, j, PausedByLimit, waits.wait, false)
	case isPause:
		failed = s.release(ctx, j, Running, waits.wait, false)
	case j.tries >= maxTries:
		failed = errors.Join(err, s.end(ctx, j, Failed, problem.Internal.New("The job failed too often. The service's log says why.")))
	default:
		failed = errors.Join(err, s.release(ctx, j, Running, min(longestPause, time.Duration(j.tries*j.tries)*2*time.Second), true))
	}
	if errors.Is(failed, errLost) {
		return nil
	}
	return failed
}

// end ends a job that this worker has.
func (s *Jobs) end(ctx context.Context, j *Job, state State, because *problem.Error) error {
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		_, err := s.finish(ctx, tx, *j, state, j.epoch, because)
		return err
	})
	if err == nil {
		s.deleteInput(ctx, j)
	}
	return err
}

// release gives a job back in a state. Another run continues after a pause. hasFailed says whether the run counts as a try.
func (s *Jobs) release(ctx context.Context, j *Job, state State, pause time.Duration, hasFailed bool) error {
	return s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		now, err := s.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		wake := now.Add(startWithin)
		if pause > 0 {
			wake = now.Add(pause)
		}
		n, err := db.New(tx).Release(ctx, db.ReleaseParams{
			OrgID: j.Org, ID: j.ID, Epoch: j.epoch, State: string(state), WakeAt: wake, HasFailed: hasFailed,
		})
		if err != nil || n == 0 {
			return errors.Join(err, lostUnless(n))
		}
		if pause > 0 {
			return nil // Due enqueues it
		}
		return s.enqueue(ctx, tx, j.Org, j.ID)
	})
}

func lostUnless(rows int64) error {
	if rows == 0 {
		return errLost
	}
	return nil
}

// finish ends a job in a transaction, with its event. epoch is that of this worker's lease, or 0 to end a job that any
// worker may have.
func (s *Jobs) finish(ctx context.Context, tx postgres.Tx, j Job, state State, epoch int64, because *problem.Error) (Job, error) {
	now, err := s.deps.DB.Now(ctx, tx)
	if err != nil {
		return Job{}, err
	}
	p := db.FinishParams{OrgID: j.Org, ID: j.ID, State: string(state), Epoch: epoch, Now: &now, WakeAt: now.Add(KeepResult)}
	if because != nil {
		p.ErrorCode, p.ErrorDetail = because.Kind.Code, because.Detail
	}
	row, err := db.New(tx).Finish(ctx, p)
	if errors.Is(err, postgres.ErrNoRows) {
		return Job{}, errLost
	}
	after, err := fromRow(row, err)
	if err != nil {
		return Job{}, err
	}
	var event contract.Event
	switch state {
	case Completed, CompletedWithErrors:
		event = contract.JobCompleted{Job: s.View(&after, now)}
	case Failed:
		event = contract.JobFailed{Job: s.View(&after, now)}
	case Queued, Running, PausedByLimit, Cancelled:
		return after, nil
	}
	s.deps.Log.LogAttrs(ctx, slog.LevelInfo, "job over", slog.String(logkey.JobID, string(j.ID)), slog.String(logkey.OrgID, string(j.Org)),
		slog.String(logkey.Kind, j.Kind), slog.String(logkey.Status, string(state)), slog.String(logkey.Problem, after.ErrorCode),
		slog.Duration(logkey.Took, now.Sub(after.CreatedAt)))
	return after, s.deps.Outbox.Add(ctx, tx, outbox.Event{Org: j.Org, Data: event})
}

// isStopping reports whether the node is about to stop.
func (s *Jobs) isStopping() bool {
	select {
	case <-s.stopping:
		return true
	default:
		return false
	}
}

// sliceEnd returns when a run that starts now makes room for others. The clock is this machine's: it only measures.
func sliceEnd() time.Time { return clock.Now().Add(slice) }
