package contract

import "github.com/stagedoor/stagedoor/internal/base/stamp"

// Job is a job as callers see it, in responses and events.
type Job struct {
	_           struct{}    `doc:"Work that is longer than a call."`
	ID          string      `json:"id" doc:"The id of the job."`
	Kind        string      `json:"kind" extensible:"export,bulk,org_export" doc:"What the job does."`
	Method      *string     `json:"method" doc:"The method of an export or bulk job; null for other kinds."`
	State       string      `json:"state" extensible:"queued,running,paused_by_limit,completed,completed_with_errors,failed,cancelled" doc:"How far the job is."`
	Progress    JobProgress `json:"progress" doc:"How much is done."`
	EstimateSec *int        `json:"estimateSec" doc:"About how long it still takes; null if that is unknown or it is over."`
	CreatedAt   stamp.Time  `json:"createdAt" doc:"When the job was started."`
	FinishedAt  *stamp.Time `json:"finishedAt" doc:"Null until it is over."`
	Result      *JobResult  `json:"result" doc:"Null until it is over, and after the result has expired."`
	Error       *JobError   `json:"error" doc:"Why it failed; else null."`
}

// JobProgress says how far a job is.
type JobProgress struct {
	_             struct{} `doc:"How far a job is. It never goes back."`
	AccountsDone  int64    `json:"accountsDone" doc:"The accounts that are done."`
	AccountsTotal int64    `json:"accountsTotal" doc:"The accounts to do."`
	Items         int64    `json:"items" doc:"The lines of the result so far."`
	Failed        int64    `json:"failed" doc:"How many items failed."`
	Percent       int      `json:"percent" doc:"The part that is done, in percent."`
}

// JobResult says where the result of a job is.
type JobResult struct {
	_         struct{}   `doc:"Where the result of a job is."`
	URL       string     `json:"url" doc:"The operation that returns the result."`
	ExpiresAt stamp.Time `json:"expiresAt" doc:"When the result is deleted."`
}

// JobError says why a job failed.
type JobError struct {
	_      struct{} `doc:"Why a job failed."`
	Code   string   `json:"code" doc:"The code of a problem, from GET /problems."`
	Detail string   `json:"detail" doc:"An explanation for people."`
}

// JobCompleted reports that a job is done.
type JobCompleted struct {
	Job Job `json:"job" doc:"The job."`
}

// JobFailed reports that a job has ended without being done.
type JobFailed struct {
	Job Job `json:"job" doc:"The job."`
}

// The kinds.

func (JobCompleted) Kind() string { return "job.completed" }
func (JobFailed) Kind() string    { return "job.failed" }
