// Package job runs work that is longer than a call: it starts jobs, runs them on any worker, keeps their results, and
// deletes them. What the jobs do is in packages of their own, which give it a Kind.
//
// The row of a job is the only source of truth. Start writes it together with a River job, which any worker takes under a
// lease in the row (lease.go). A run writes lines and, now and then, saves a checkpoint together with the lines before it
// (run.go, part.go), so that the next worker continues there if this one dies. A timer in the row finds jobs without a
// worker, results that have expired and rows that are old (due.go).
//
// Results are objects outside of the database (package objects). Each block of a result is sealed with the key of the
// account that its lines came from, or else with that of the organisation, so that what came from an account cannot be
// read once the account is deleted (result.go).
package job

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/objects"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// State is the state of a job.
type State string

// The states.
const (
	Queued  State = "queued"
	Running State = "running"
	// PausedByLimit is a job that waits until a limit allows it to continue.
	PausedByLimit       State = "paused_by_limit"
	Completed           State = "completed"
	CompletedWithErrors State = "completed_with_errors"
	Failed              State = "failed"
	Cancelled           State = "cancelled"
)

// IsOver reports whether the state is final.
func (s State) IsOver() bool {
	return slices.Contains([]State{Completed, CompletedWithErrors, Failed, Cancelled}, s)
}

const (
	// KeepResult is how long a result is kept after its job is over.
	KeepResult = 7 * 24 * time.Hour
	// KeepWaiting is how long a job waits for its input.
	KeepWaiting = 24 * time.Hour
	// KeepJob is how long the job itself is kept.
	KeepJob = 30 * 24 * time.Hour
	// MaxOpen is how many jobs of an organisation can be waiting or running.
	MaxOpen = 100
)

// Progress says how far a job is.
type Progress struct {
	AccountsDone, AccountsTotal int64
	// Items counts the lines of the result, Failed the items that failed.
	Items, Failed int64
	Percent       int
}

// Job is a job.
type Job struct {
	Org      id.Org
	ID       id.Job
	Kind     string
	State    State
	Params   json.RawMessage
	Progress Progress
	// ErrorCode is the code of the problem that ended the job; empty for none.
	ErrorCode, ErrorDetail           string
	CreatedAt                        time.Time
	StartedAt, FinishedAt, ExpiredAt *time.Time

	// Awaits means that the job waits for its input.
	Awaits bool

	askedBy    asker
	checkpoint json.RawMessage
	input      *input
	parts      int
	epoch      int64
	tries      int
}

// ExpiresAt returns when the result is deleted, or nil before the job is over.
func (j *Job) ExpiresAt() *time.Time {
	if j.FinishedAt == nil {
		return nil
	}
	at := j.FinishedAt.Add(KeepResult)
	return &at
}

// asker is the person or key that asked for a job. It is stored with the job.
type asker struct {
	Kind    audit.ActorKind `json:"kind"`
	ID      string          `json:"id"`
	Label   string          `json:"label"`
	Request id.Request      `json:"request"`
	IPHash  string          `json:"ipHash"`
	// Key is empty for a person.
	Key    id.Key    `json:"key,omitempty"`
	Person id.Person `json:"person,omitempty"`
}

// Caller is who a job acts for, as of its last check.
type Caller struct {
	Rights
	Org org.Org
	// ReadAt is when this was read from the database.
	ReadAt time.Time
}

// Rights are what a caller may do. A job never does more than the caller who asked for it may do at that moment.
type Rights struct {
	// Role is the role of a person, and empty for a key.
	Role   member.Role
	Scopes scope.Set
	Allow  apikey.Allow
}

// Kind is a kind of job.
type Kind struct {
	Name string
	// MaxOpen is how many jobs of this kind an organisation can have waiting or running.
	MaxOpen int
	// Check returns a problem if a caller with these rights may not start a job, continue it or read its result.
	Check func(params json.RawMessage, r Rights) error
	// Run does the work, from the run's checkpoint. It returns what Run.Save returns, immediately.
	Run func(ctx context.Context, r *Run) error
}

// sealer seals results; implemented by *seal.Sealer.
type sealer interface {
	Prepare(ctx context.Context, org id.Org, holder string) error
	SealBytes(ctx context.Context, at seal.Address, text []byte) ([]byte, error)
	OpenBytes(ctx context.Context, at seal.Address, sealed []byte) ([]byte, error)
	Warm(ctx context.Context, org id.Org, holders []string) error
	HasKey(ctx context.Context, org id.Org, holder string) (bool, error)
}

// store keeps results; implemented by *objects.Store.
type store interface {
	Put(ctx context.Context, org id.Org, name string, body []byte) error
	Read(ctx context.Context, org id.Org, name string, offset, length int64) ([]byte, error)
	Delete(ctx context.Context, org id.Org, folder string) error
}

var _ store = (*objects.Store)(nil)

// Config holds the settings.
type Config struct {
	// PublicURL is the base URL of the API, without a trailing slash.
	PublicURL string
	// Process identifies this run of this node; it is the holder of leases.
	Process string
}

// Deps are the dependencies of Jobs.
type Deps struct {
	Config  Config
	DB      *postgres.DB
	Orgs    *org.Orgs
	Keys    *apikey.Keys
	Members *member.Members
	Audit   *audit.Log
	Outbox  *outbox.Outbox
	Seal    sealer
	// Objects is nil if there is no object storage; then no job can be started.
	Objects store
	Queue   enqueuer
	Kinds   []Kind
	// Ticker returns a channel that receives a value at every interval, and a function that stops it.
	Ticker func(every time.Duration) (tick <-chan time.Time, stop func())
	Log    *slog.Logger
}

// Jobs starts and runs jobs. It is safe for concurrent use.
type Jobs struct {
	deps Deps
	// stopping is closed when the node stops: a run then saves what it has and lets another worker continue.
	stopping chan struct{}
}

// New returns a Jobs. Run and the worker of Register do the work.
func New(d Deps) *Jobs { return &Jobs{deps: d, stopping: make(chan struct{})} }

func (s *Jobs) kind(name string) (Kind, bool) {
	i := slices.IndexFunc(s.deps.Kinds, func(k Kind) bool { return k.Name == name })
	if i < 0 {
		return Kind{}, false
	}
	return s.deps.Kinds[i], true
}

// View returns a job as callers see it. now is for the estimate.
func (s *Jobs) View(j *Job, now time.Time) contract.Job {
	v := contract.Job{
		ID: string(j.ID), Kind: j.Kind, State: string(j.State), EstimateSec: j.estimate(now),
		Progress: contract.JobProgress{
			AccountsDone: j.Progress.AccountsDone, AccountsTotal: j.Progress.AccountsTotal, Items: j.Progress.Items,
			Failed: j.Progress.Failed, Percent: j.Progress.Percent,
		},
		CreatedAt: stamp.Time(j.CreatedAt), FinishedAt: (*stamp.Time)(j.FinishedAt),
	}
	var of struct{ Method *string }
	if json.Unmarshal(j.Params, &of) == nil {
		v.Method = of.Method
	}
	if j.State.IsOver() && j.ExpiredAt == nil && j.parts > 0 {
		v.Result = &contract.JobResult{URL: s.deps.Config.PublicURL + "/v1/jobs/" + string(j.ID) + "/result", ExpiresAt: stamp.Time(*j.ExpiresAt())}
	}
	if j.ErrorCode != "" {
		v.Error = &contract.JobError{Code: j.ErrorCode, Detail: j.ErrorDetail}
	}
	return v
}

// estimateFrom is the progress in percent from which the rest can be estimated.
const estimateFrom = 10

// estimate extrapolates from the time that the job has taken so far.
func (j *Job) estimate(now time.Time) *int {
	if j.State.IsOver() || j.StartedAt == nil || j.Progress.Percent <= estimateFrom {
		return nil
	}
	left := int(now.Sub(*j.StartedAt).Seconds() * float64(100-j.Progress.Percent) / float64(j.Progress.Percent))
	return &left
}
