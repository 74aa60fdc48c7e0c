package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/jobs/job/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// Draft is a job to be started.
type Draft struct {
	Kind   string
	Params any
	// Input is what the job works on, if that is more than parameters; nil for none.
	Input []byte
	// Awaits means that the input is given later, with Give.
	Awaits bool
}

// Start starts a job for a caller. It returns a problem if the caller may not, or if the organisation has too many jobs.
func (s *Jobs) Start(ctx context.Context, caller *apikey.Principal, by audit.By, d Draft) (Job, error) {
	if s.deps.Objects == nil {
		return Job{}, problem.JobsUnavailable.New("This installation has no object storage for the results of jobs.")
	}
	k, ok := s.kind(d.Kind)
	if !ok {
		return Job{}, fmt.Errorf("there is no kind of job %q", d.Kind)
	}
	params, err := json.Marshal(d.Params)
	if err != nil {
		return Job{}, fmt.Errorf("encode the parameters of a job: %w", err)
	}
	who := asker{Kind: by.Kind, ID: by.ID, Label: by.Label, Request: by.Request, IPHash: by.IPHash, Key: caller.Key.ID}
	if caller.Key.Person != "" {
		who.Key, who.Person = "", caller.Key.Person
	}
	acts, err := s.callerOf(ctx, caller.Org.ID, who)
	if err == nil {
		err = k.Check(params, acts.Rights)
	}
	if err != nil {
		return Job{}, err
	}
	asked, err := json.Marshal(who)
	if err != nil {
		return Job{}, fmt.Errorf("encode who asked for a job: %w", err)
	}
	made := id.New[id.Job]()
	given, err := s.storeInput(ctx, caller.Org.ID, made, d.Input)
	if err != nil {
		return Job{}, err
	}
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		// The lock on the organisation's row keeps concurrent starts from exceeding the limits.
		if _, err := s.deps.Orgs.Lock(ctx, tx, caller.Org.ID); err != nil {
			return err
		}
		if err := checkLimits(ctx, tx, caller.Org.ID, k); err != nil {
			return err
		}
		now, err := s.deps.DB.Now(ctx, tx)
		if err != nil {
			return err
		}
		wake := now.Add(startWithin)
		if d.Awaits {
			wake = now.Add(KeepWaiting)
		}
		if err := db.New(tx).Add(ctx, db.AddParams{
			OrgID: caller.Org.ID, ID: made, Kind: k.Name, Params: params, AskedBy: asked, Now: now, WakeAt: wake, Input: given, Awaits: d.Awaits,
		}); err != nil {
			return err
		}
		if !d.Awaits {
			if err := s.enqueue(ctx, tx, caller.Org.ID, made); err != nil {
				return err
			}
		}
		return s.deps.Audit.Record(ctx, tx, caller.Org.ID, by, string(made), audit.Changes{"kind": {To: k.Name}})
	})
	if err != nil {
		return Job{}, err
	}
	return s.Get(ctx, caller.Org.ID, string(made))
}

func checkLimits(ctx context.Context, tx postgres.Tx, owner id.Org, k Kind) error {
	open, err := db.New(tx).CountOpen(ctx, db.CountOpenParams{OrgID: owner, Kind: k.Name})
	switch {
	case err != nil:
		return err
	case open.OfKind >= int64(k.MaxOpen):
		return problem.LimitReached.Newf("The organisation has %d jobs of this kind that are not over, which is the maximum.", open.OfKind).
			With("limit", k.MaxOpen)
	case open.Jobs >= MaxOpen:
		return problem.LimitReached.Newf("The organisation has %d jobs that are not over, which is the maximum.", open.Jobs).
			With("limit", MaxOpen)
	}
	return nil
}

// callerOf returns what the person or key that asked for a job may do now, or the problem why they may do nothing.
func (s *Jobs) callerOf(ctx context.Context, owner id.Org, who asker) (Caller, error) {
	if who.Person == "" {
		p, err := s.deps.Keys.Holder(ctx, owner, who.Key)
		if err != nil {
			return Caller{}, err
		}
		return Caller{Rights{Scopes: p.Scopes, Allow: p.Key.Allow}, p.Org, p.ReadAt()}, nil
	}
	now, err := s.deps.DB.Now(ctx, s.deps.DB)
	if err != nil {
		return Caller{}, err
	}
	o, err := s.deps.Orgs.Get(ctx, owner)
	if err == nil {
		err = o.Refusal()
	}
	if err != nil {
		return Caller{}, err
	}
	m, err := s.deps.Members.Get(ctx, owner, who.Person)
	if errors.Is(err, problem.MemberNotFound.New("")) {
		err = problem.RoleRequired.New("The person who asked for the job is no longer a member.").With("requiredRole", string(member.Owner))
	}
	return Caller{Rights{Role: m.Role, Scopes: m.Role.Scopes()}, o, now}, err
}

// CheckRights returns a problem if a caller may not start a job like this one, and so may neither read its result nor
// cancel it.
func (s *Jobs) CheckRights(ctx context.Context, caller *apikey.Principal, j *Job) error {
	k, ok := s.kind(j.Kind)
	if !ok {
		return problem.ServiceUnavailable.New("This server does not know this kind of job yet.").After(5)
	}
	acts, err := s.callerOf(ctx, caller.Org.ID, asker{Key: caller.Key.ID, Person: caller.Key.Person})
	if err != nil {
		return err
	}
	return k.Check(j.Params, acts.Rights)
}

// Get reads a job. It returns the problem job-not-found if the organisation has no such job.
func (s *Jobs) Get(ctx context.Context, owner id.Org, job string) (Job, error) {
	which, err := id.Parse[id.Job](job)
	if err != nil {
		return Job{}, notFound()
	}
	return fromRow(db.New(s.deps.DB).Get(ctx, db.GetParams{OrgID: owner, ID: which}))
}

func notFound() error { return problem.JobNotFound.New("The organisation has no job with this id.") }

// Group is what jobs are counted by.
type Group struct {
	Kind  string
	State State
}

// CountOpen counts the jobs of all organisations that are not over, for the metrics.
func (s *Jobs) CountOpen(ctx context.Context) (map[Group]int64, error) {
	rows, err := db.New(s.deps.DB).CountAllOpen(ctx)
	counts := make(map[Group]int64, len(rows))
	for _, row := range rows {
		counts[Group{row.Kind, State(row.State)}] = row.Jobs
	}
	return counts, err
}

// Filter chooses jobs of a list.
type Filter struct {
	// Kind is empty for all kinds.
	Kind string
	// Before is the last job of the previous page; empty for the first page.
	Before id.Job
}

// List reads up to limit jobs of an organisation, newest first.
func (s *Jobs) List(ctx context.Context, owner id.Org, f Filter, limit int) ([]Job, error) {
	rows, err := db.New(s.deps.DB).List(ctx, db.ListParams{OrgID: owner, Before: string(f.Before), Kind: f.Kind, MaxRows: int32(limit)})
	if err != nil {
		return nil, err
	}
	list := make([]Job, len(rows))
	for i, row := range rows {
		if list[i], err = fromRow(row, nil); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// watchEvery is how often a held response looks at its job.
const watchEvery = 500 * time.Millisecond

// Await reads a job. If it is not over, it waits until it is, at most for a time.
func (s *Jobs) Await(ctx context.Context, owner id.Org, job string, atMost time.Duration) (Job, error) {
	j, err := s.Get(ctx, owner, job)
	if err != nil || atMost <= 0 || j.State.IsOver() {
		return j, err
	}
	waiting, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	tick, stop := s.deps.Ticker(watchEvery)
	defer stop()
	for {
		select {
		case <-waiting.Done():
			return s.Get(ctx, owner, job)
		case <-tick:
		}
		if now, err := s.Get(ctx, owner, job); err != nil || now.State.IsOver() {
			return now, err
		}
	}
}

// Cancel ends a job for a caller who may start it. What it has written so far can be read. A job that is over is returned
// as it is.
func (s *Jobs) Cancel(ctx context.Context, caller *apikey.Principal, by audit.By, job string) (Job, error) {
	owner := caller.Org.ID
	j, err := s.Get(ctx, owner, job)
	if err == nil {
		err = s.CheckRights(ctx, caller, &j)
	}
	if err != nil {
		return Job{}, err
	}
	which := j.ID
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		var err error
		j, err = fromRow(db.New(tx).Lock(ctx, db.LockParams{OrgID: owner, ID: which}))
		if err != nil || j.State.IsOver() {
			return err
		}
		before := j.State
		if j, err = s.finish(ctx, tx, j, Cancelled, 0, nil); err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(which), audit.Changes{"state": {From: before, To: Cancelled}})
	})
	if err == nil {
		s.deleteInput(ctx, &j)
	}
	return j, err
}
