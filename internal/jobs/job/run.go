package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/jobs/job/internal/db"
)

const (
	// partBytes is about how many bytes of lines a part of a result has before they are compressed.
	partBytes = 4 << 20
	// saveEvery is how often a run saves at least.
	saveEvery = 5 * time.Second
)

// Run is a job that this worker has. It is used by one goroutine.
type Run struct {
	*Job
	jobs *Jobs
	kind Kind
	// until is when it makes room for other jobs, and saved when it saved last.
	until, saved time.Time
	lines        lines
	latest       json.RawMessage
	// keyless are accounts that were found to have no key.
	keyless map[id.Account]bool
}

func newRun(s *Jobs, j *Job, k Kind) *Run {
	return &Run{
		Job: j, jobs: s, kind: k, until: sliceEnd(), saved: clock.Now(), lines: newLines(), latest: j.checkpoint, keyless: map[id.Account]bool{},
	}
}

// Checkpoint reads the last checkpoint that was saved. At the beginning of a job it changes nothing.
func (r *Run) Checkpoint(into any) error {
	if len(r.checkpoint) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.checkpoint, into); err != nil {
		return fmt.Errorf("read the checkpoint of job %s: %w", r.ID, err)
	}
	return nil
}

// HasKey reports whether an account has a key, so that lines can be written for it. An account that was deleted has none.
func (r *Run) HasKey(ctx context.Context, account id.Account) (bool, error) {
	if r.keyless[account] {
		return false, nil
	}
	has, err := r.jobs.deps.Seal.HasKey(ctx, r.Org, string(account))
	if err == nil && !has {
		r.keyless[account] = true
	}
	return has, err
}

// Write adds a line to the result, as JSON. What came from an account names it, and can be read as long as the account has
// its key; an empty account means the organisation. The line counts when a later Save succeeds.
func (r *Run) Write(account id.Account, line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("encode a line of job %s: %w", r.ID, err)
	}
	holder := string(account)
	if holder == "" {
		holder = string(r.Org)
	}
	r.lines.add(holder, text)
	r.Progress.Items++
	return nil
}

// Caller returns who the job acts for, as of now. The caller of Caller returns its error immediately.
func (r *Run) Caller(ctx context.Context) (Caller, error) {
	who, err := r.jobs.callerOf(ctx, r.Org, r.askedBy)
	if err == nil {
		err = r.kind.Check(r.Params, who.Rights)
	}
	switch p, isProblem := errors.AsType[*problem.Error](err); {
	case !isProblem:
		return who, err
	case errors.Is(err, problem.OrgSuspended.New("")), errors.Is(err, problem.OrgNotFound.New("")):
		return who, errHold // it continues if the organisation is restored, and is deleted with it if not
	default:
		return who, refusal{p}
	}
}

// IsEnding reports whether the run must end with its next Save, so that it should begin nothing new.
func (r *Run) IsEnding() bool { return r.jobs.isStopping() || clock.Now().After(r.until) }

// Pause saves, and lets another run continue after a while. byLimit says that the job waits for a limit. The caller
// returns its error immediately.
func (r *Run) Pause(ctx context.Context, checkpoint any, wait time.Duration, byLimit bool) error {
	text, err := json.Marshal(checkpoint)
	if err != nil {
		return fmt.Errorf("encode the checkpoint of job %s: %w", r.ID, err)
	}
	r.latest = text
	if err := r.commit(ctx); err != nil {
		return err
	}
	return pause{wait, byLimit}
}

// Save remembers that the next run may start from a checkpoint, with all lines so far. It does not always write it. The
// caller returns its error immediately.
func (r *Run) Save(ctx context.Context, checkpoint any) error {
	text, err := json.Marshal(checkpoint)
	if err != nil {
		return fmt.Errorf("encode the checkpoint of job %s: %w", r.ID, err)
	}
	r.latest = text
	now := clock.Now()
	stop := r.IsEnding()
	if !stop && r.lines.size < partBytes && now.Sub(r.saved) < saveEvery {
		return nil
	}
	if err := r.commit(ctx); err != nil {
		return err
	}
	if stop {
		return errYield
	}
	return nil
}

// commit writes the lines so far as a part of the result, and the checkpoint and the progress with them.
func (r *Run) commit(ctx context.Context) error {
	if _, err := r.Caller(ctx); err != nil {
		return err
	}
	part := r.parts + 1
	name := partName(r.ID, part, r.epoch)
	body, blocks, err := r.jobs.sealLines(ctx, r.Org, name, &r.lines)
	if err != nil {
		return err
	}
	if len(blocks) > 0 {
		if err := r.jobs.deps.Objects.Put(ctx, r.Org, name, body); err != nil {
			return err
		}
	} else {
		part = r.parts
	}
	index, err := json.Marshal(blocks)
	if err != nil {
		return fmt.Errorf("encode the blocks of %s: %w", name, err)
	}
	p := r.Progress
	err = r.jobs.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		n, err := db.New(tx).Save(ctx, db.SaveParams{
			OrgID: r.Org, ID: r.ID, Epoch: r.epoch, Checkpoint: r.latest, Parts: int32(part), AccountsDone: p.AccountsDone,
			AccountsTotal: p.AccountsTotal, Items: p.Items, Failures: p.Failed, Percent: int16(min(p.Percent, 99)),
		})
		if err != nil || n == 0 {
			return errors.Join(err, lostUnless(n))
		}
		if len(blocks) == 0 {
			return nil
		}
		return db.New(tx).AddPart(ctx, db.AddPartParams{OrgID: r.Org, JobID: r.ID, Part: int32(part), Object: name, Blocks: index})
	})
	if err != nil {
		return err
	}
	r.parts, r.tries, r.saved, r.checkpoint = part, 0, clock.Now(), r.latest
	r.lines = newLines()
	return nil
}
