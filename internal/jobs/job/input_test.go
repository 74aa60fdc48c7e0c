package job_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
)

// A job waits for its input, which is given once, and is deleted when the job is over. A run that pauses keeps what it has
// written, and another one continues after the pause.
func TestAJobWaitsForItsInputAndPauses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work = func(ctx context.Context, r *job.Run) error {
		var paused bool
		must.OK(t, r.Checkpoint(&paused))
		text, err := r.Input(ctx)
		if err != nil {
			return err
		}
		if paused {
			return r.Write("", "after")
		}
		must.OK(t, r.Write("", string(text)))
		return r.Pause(ctx, true, time.Minute, true)
	}
	by := accounttest.By("job.start")
	j, err := f.jobs.Start(t.Context(), f.caller, by, job.Draft{Kind: "test", Params: struct{}{}, Awaits: true})
	must.OK(t, err)
	if f.requireState(j, job.Queued); f.queue.runs.Load() != 0 {
		t.Error("a run without input was enqueued")
	}
	give := func(text string) error {
		_, err := f.jobs.Give(t.Context(), f.caller, by, string(j.ID), job.Draft{Params: struct{}{}, Input: []byte(text)})
		return err
	}
	must.OK(t, give("all of it"))
	must.OK(t, give("all of it"))
	if err := give("other"); !errors.Is(err, problem.ValidationFailed.New("")) {
		t.Errorf("another input: %v", err)
	}
	if n := f.queue.runs.Load(); n != 1 {
		t.Errorf("%d runs were enqueued", n)
	}
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	f.requireState(j, job.PausedByLimit)
	inputs := func() int {
		objects, err := f.store.List(t.Context(), f.owner, "jobs/"+string(j.ID)+"/input")
		must.OK(t, err)
		return len(objects)
	}
	if inputs() != 1 {
		t.Errorf("%d inputs", inputs())
	}
	must.OK(t, f.jobs.Due(t.Context()))
	if n := f.queue.runs.Load(); n != 1 {
		t.Errorf("%d runs were enqueued during the pause", n)
	}
	f.Clock.Advance(61 * time.Second)
	must.OK(t, f.jobs.Due(t.Context()))
	if n := f.queue.runs.Load(); n != 2 {
		t.Errorf("%d runs were enqueued after the pause", n)
	}
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	f.requireState(j, job.Completed)
	if got := f.result(j); !slices.Equal(got, []string{`"all of it"`, `"after"`}) || inputs() != 0 {
		t.Errorf("the result is %q; %d inputs are left", got, inputs())
	}
}

// A job whose input never comes fails after a day.
func TestAJobWithoutInputFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.work = func(context.Context, *job.Run) error {
		t.Error("it ran")
		return nil
	}
	j, err := f.jobs.Start(t.Context(), f.caller, accounttest.By("job.start"), job.Draft{Kind: "test", Params: struct{}{}, Awaits: true})
	must.OK(t, err)
	f.Clock.Advance(job.KeepWaiting - time.Minute)
	must.OK(t, f.jobs.Due(t.Context()))
	if n := f.queue.runs.Load(); n != 0 {
		t.Errorf("%d runs were enqueued", n)
	}
	f.Clock.Advance(2 * time.Minute)
	must.OK(t, f.jobs.Due(t.Context()))
	must.OK(t, f.jobs.Take(t.Context(), f.owner, j.ID))
	if got := f.requireState(j, job.Failed); got.ErrorCode != problem.ValidationFailed.Code {
		t.Errorf("it failed with %s", got.ErrorCode)
	}
}
