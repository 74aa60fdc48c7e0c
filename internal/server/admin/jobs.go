package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Queue is the job queue.
type Queue = river.Client[postgres.Tx]

type listJobsInput struct {
	State  string `query:"state" enum:"available,cancelled,completed,discarded,pending,retryable,running,scheduled" doc:"Default: all states."`
	Kind   string `query:"kind" maxLength:"64"`
	Queue  string `query:"queue" maxLength:"64"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50"`
	Cursor string `query:"cursor" maxLength:"512" doc:"nextCursor of the previous page."`
}

type listJobsOutput struct {
	Body struct {
		Jobs       []jobBody `json:"jobs" doc:"Newest first."`
		NextCursor *string   `json:"nextCursor"`
	}
}

// jobBody is a job without its arguments.
type jobBody struct {
	ID          int64       `json:"id"`
	Kind        string      `json:"kind"`
	Queue       string      `json:"queue"`
	State       string      `json:"state" enum:"available,cancelled,completed,discarded,pending,retryable,running,scheduled"`
	Attempt     int         `json:"attempt"`
	MaxAttempts int         `json:"maxAttempts"`
	CreatedAt   stamp.Time  `json:"createdAt"`
	ScheduledAt stamp.Time  `json:"scheduledAt"`
	AttemptedAt *stamp.Time `json:"attemptedAt"`
	FinalizedAt *stamp.Time `json:"finalizedAt"`
	FailedAt    *stamp.Time `json:"failedAt" doc:"When the last failed attempt failed. Its error may contain what a platform sent, so it is only in the log of the node."`
}

type jobInput struct {
	ID int64 `path:"id" minimum:"1"`
}

type jobOutput struct {
	Body struct {
		Job jobBody `json:"job"`
	}
}

func (a *Admin) jobRoutes() {
	op := func(o endpoint.Operation) endpoint.Operation {
		o.Tag, o.Scope, o.Status = "Jobs", leastRole(o), http.StatusOK
		return o
	}
	notFound := []problem.Kind{problem.JobNotFound}
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "listJobs", Method: http.MethodGet, Path: "/admin/v1/jobs", Summary: "List jobs",
		Description: "Pending and recent jobs of the workers. Arguments, which contain only ids, are not shown.",
	}), a.listJobs)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "retryJob", Method: http.MethodPost, Path: "/admin/v1/jobs/{id}/retry", Audit: "job.retry", Problems: notFound,
		Summary: "Retry a job", Description: "Runs a job immediately, even if it has ended. A running job is not affected.",
	}), a.retryJob)
	endpoint.Typed(a.table, op(endpoint.Operation{
		ID: "cancelJob", Method: http.MethodPost, Path: "/admin/v1/jobs/{id}/cancel", Audit: "job.cancel", Problems: notFound,
		Summary: "Cancel a job", Description: "Asks a running job to stop. A job that has ended is not affected.",
	}), a.cancelJob)
}

func (a *Admin) listJobs(ctx context.Context, in *listJobsInput) (*listJobsOutput, error) {
	p := river.NewJobListParams().OrderBy(river.JobListOrderByID, river.SortOrderDesc).First(in.Limit)
	if in.State != "" {
		p = p.States(rivertype.JobState(in.State))
	}
	if in.Kind != "" {
		p = p.Kinds(in.Kind)
	}
	if in.Queue != "" {
		p = p.Queues(in.Queue)
	}
	if in.Cursor != "" {
		cursor := &river.JobListCursor{}
		if err := cursor.UnmarshalText([]byte(in.Cursor)); err != nil {
			return nil, problem.InvalidRequest.New("The cursor is invalid.").
				At("query/cursor", "format", "must be the nextCursor of an earlier page")
		}
		p = p.After(cursor)
	}
	found, err := a.deps.Jobs.JobList(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	out := &listJobsOutput{}
	out.Body.Jobs = make([]jobBody, len(found.Jobs))
	for i, j := range found.Jobs {
		out.Body.Jobs[i] = viewJob(j)
	}
	if len(found.Jobs) == in.Limit && found.LastCursor != nil {
		text, err := found.LastCursor.MarshalText()
		if err != nil {
			return nil, fmt.Errorf("encode cursor: %w", err)
		}
		out.Body.NextCursor = endpoint.NilIfEmpty(string(text))
	}
	return out, nil
}

func (a *Admin) retryJob(ctx context.Context, in *jobInput) (*jobOutput, error) {
	return a.changeJob(ctx, in.ID, a.deps.Jobs.JobRetryTx)
}

func (a *Admin) cancelJob(ctx context.Context, in *jobInput) (*jobOutput, error) {
	return a.changeJob(ctx, in.ID, a.deps.Jobs.JobCancelTx)
}

func (a *Admin) changeJob(ctx context.Context, job int64, do func(context.Context, postgres.Tx, int64) (*rivertype.JobRow, error)) (*jobOutput, error) {
	var after *rivertype.JobRow
	err := a.deps.DB.Tx(ctx, func(tx postgres.Tx) (err error) {
		if after, err = do(ctx, tx, job); err != nil {
			if errors.Is(err, rivertype.ErrNotFound) {
				return problem.JobNotFound.New("There is no job with this id.")
			}
			return fmt.Errorf("change job %d: %w", job, err)
		}
		return a.deps.Audit.Record(ctx, tx, audit.Operators, endpoint.By(ctx), "job/"+strconv.FormatInt(job, 10),
			audit.Changes{"kind": {To: after.Kind}, "state": {To: string(after.State)}})
	})
	if err != nil {
		return nil, err
	}
	out := &jobOutput{}
	out.Body.Job = viewJob(after)
	return out, nil
}

func viewJob(j *rivertype.JobRow) jobBody {
	b := jobBody{
		ID: j.ID, Kind: j.Kind, Queue: j.Queue, State: string(j.State), Attempt: j.Attempt, MaxAttempts: j.MaxAttempts, CreatedAt: stamp.Time(j.CreatedAt),
		ScheduledAt: stamp.Time(j.ScheduledAt), AttemptedAt: (*stamp.Time)(j.AttemptedAt), FinalizedAt: (*stamp.Time)(j.FinalizedAt),
	}
	if n := len(j.Errors); n > 0 {
		b.FailedAt = stamp.Optional(j.Errors[n-1].At)
	}
	return b
}
