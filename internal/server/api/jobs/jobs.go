// Package jobs has the operations of the public API for work that is longer than a call. The work itself is done by the
// packages of the group jobs.
package jobs

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/jobs/orgexport"
	"github.com/stagedoor/stagedoor/internal/jobs/sdkjob"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
)

// Deps are the dependencies of the operations.
type Deps struct {
	Jobs *job.Jobs
	// SDK checks jobs that call methods.
	SDK *sdkjob.Kinds
	// RequireRecent returns a problem if the sign-in of a browser is too old for an export of the organisation.
	RequireRecent func(ctx context.Context, browser id.BrowserSession) error
	Now           func() time.Time
}

type operations struct{ Deps }

type startInput struct {
	Body struct {
		Kind string `json:"kind" enum:"export,bulk,org_export" doc:"What the job does: export walks all pages of a read over accounts, bulk makes one call for each item, org_export writes everything that the service holds of the organisation."`
		// The others belong to export and bulk.
		Method   string         `json:"method,omitempty" maxLength:"100" doc:"The method of an export or bulk job, for example fans.list."`
		Args     argsBody       `json:"args,omitempty" doc:"The arguments of an export, as an object without a cursor."`
		Accounts *accountChoice `json:"accounts,omitempty" doc:"The accounts of an export. Default: all that the key may use and whose platform has the method."`
		Items    []jobItem      `json:"items,omitempty" maxItems:"1000" doc:"The items of a bulk job. Without them, it waits for PUT /v1/jobs/{id}/items."`
		Share    float64        `json:"share,omitempty" minimum:"0.01" maximum:"0.5" doc:"The part of each limit per minute of the accounts and the organisation that the job may use. Default: 0.5."`
	}
}

// argsBody are arguments as they were sent.
type argsBody map[string]json.RawMessage

// text returns the arguments as JSON.
func (a argsBody) text() json.RawMessage {
	if a == nil {
		return nil
	}
	text, err := json.Marshal(a)
	if err != nil {
		panic(err) // they were decoded before
	}
	return text
}

type accountChoice struct {
	_        struct{}          `doc:"Which accounts an export reads. Accounts that match all members are read."`
	IDs      []string          `json:"ids,omitempty" maxItems:"1000" doc:"The ids of accounts."`
	Platform string            `json:"platform,omitempty" maxLength:"32" doc:"A platform of GET /v1/platforms."`
	State    string            `json:"state,omitempty" maxLength:"32" doc:"The state of the accounts."`
	Metadata map[string]string `json:"metadata,omitempty" maxProperties:"16" doc:"Metadata that the accounts have, with these values."`
}

type jobItem struct {
	_         struct{} `doc:"An item of a bulk job: one call."`
	AccountID string   `json:"accountId" maxLength:"64" doc:"The account of the call."`
	Args      argsBody `json:"args,omitempty" doc:"The arguments of the call, as an object."`
}

type jobOutput struct {
	Body jobBody
}

type jobBody struct {
	_   struct{}     `schema:"JobResponse" doc:"A job."`
	Job contract.Job `json:"job" doc:"The job."`
}

type itemsInput struct {
	JobInput
}

type listInput struct {
	Kind   string `query:"kind" maxLength:"32" doc:"Only jobs of this kind."`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"The maximum number of jobs."`
	Cursor string `query:"cursor" maxLength:"64" doc:"nextCursor of the previous page."`
}

type listOutput struct{ Body jobsBody }

type jobsBody struct {
	_          struct{}       `schema:"JobPage" doc:"Jobs of the organisation."`
	Jobs       []contract.Job `json:"jobs" doc:"Newest first."`
	NextCursor *string        `json:"nextCursor" doc:"Null on the last page."`
}

// JobInput is the input of an operation on one job.
type JobInput struct {
	ID string `path:"id" maxLength:"64" doc:"The job's id."`
}

type getInput struct {
	JobInput
	endpoint.PreferOrQuery
}

type resultInput struct {
	JobInput
	// The fields exist for the OpenAPI document; net/http reads the headers.
	Range   string `header:"Range" doc:"The range of bytes, for example bytes=0-1023."`
	IfRange string `header:"If-Range" doc:"The ETag that the range belongs to. If the result has changed, the whole result is sent."`
	IfNone  string `header:"If-None-Match" doc:"The ETag of your copy. The response is 304 if the result has not changed."`
}

const tag = "Jobs"

const (
	// media is the media type of a result, ndjson that of items.
	media, ndjson = "application/gzip", "application/x-ndjson"
	// maxUpload bounds an upload of items, and uploadTimeout how long it takes.
	maxUpload, uploadTimeout = 64 << 20, 2 * time.Minute
)

// Routes adds the operations.
func Routes(t *endpoint.Table, d Deps) {
	a := operations{d}
	exports := "For `org_export` a key needs `accounts:read`, `webhooks:read`, `me:read` and `usage:read` as well, and no limits to accounts or methods. " +
		"In the dashboard, it needs an owner who signed in within the last five minutes."
	mayExport := []problem.Kind{
		problem.RoleRequired, problem.AccountNotAllowedForKey, problem.MethodNotAllowedForKey, problem.ReauthenticationRequired,
	}
	refused := append([]problem.Kind{problem.LimitReached, problem.JobsUnavailable, problem.MethodNotFound, problem.AccountNotFound}, mayExport...)
	endpoint.Typed(t, endpoint.Operation{
		ID: "startJob", Method: http.MethodPost, Path: "/v1/jobs", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.SDKCall, Quota: admission.Plain, Audit: "job.start", Example: map[string]any{"kind": sdkjob.Export, "method": "fans.list", "args": map[string]any{"limit": 100}},
		Problems: refused,
		Summary:  "Start a job", Description: "Starts work that is longer than a call. It continues if a server dies, and ends with the event `job.completed` or `job.failed`. " +
			"An organisation can have 100 jobs that are not over, of which 20 `export`, 20 `bulk` and one `org_export`.\n\n" +
			"`export` calls a read with all its pages on up to 10,000 accounts. `bulk` makes one call for each of up to 100,000 items, and never makes it twice; calls of one account are made in the order of its items. " +
			"Both need a key that may call the method on all the accounts, at the start and at every step, and use at most half of each limit per minute. " + exports,
	}, a.start)
	endpoint.Written(t, endpoint.Operation{
		ID: "putJobItems", Method: http.MethodPut, Path: "/v1/jobs/{id}/items", Tag: tag, Status: http.StatusOK, Takes: []string{ndjson}, Timeout: uploadTimeout,
		Scope: scope.SDKCall, Quota: admission.Plain, Audit: "job.items", Answer: jobBody{}, Repeatable: true,
		Example: `{"accountId": "acct_01j9zq4c8wfx2v7t5n3b6m1k0r", "args": {"chatId": "3438267820000000001", "text": "Thank you!"}}`,
		Problems: []problem.Kind{
			problem.JobNotFound, problem.AccountNotFound, problem.UnsupportedMediaType, problem.PayloadTooLarge, problem.MalformedJSON, problem.ValidationFailed,
			problem.AccountNotAllowedForKey, problem.MethodNotAllowedForKey,
		},
		Summary: "Upload the items of a job", Description: "Gives a `bulk` job that was started without items up to 100,000 of them, and starts it. " +
			"The body is a line of JSON per item, `{\"accountId\", \"args\"}`, of up to 64 MiB in total. All items are checked first; if one is invalid, none is used. " +
			"The same upload can be repeated. A job without items is ended after a day.",
	}, a.putItems)
	endpoint.Typed(t, endpoint.Operation{
		ID: "listJobs", Method: http.MethodGet, Path: "/v1/jobs", Tag: tag, Status: http.StatusOK,
		Scope: scope.SDKCall, Quota: admission.Plain, Problems: []problem.Kind{problem.InvalidRequest},
		Summary: "List jobs", Description: "The jobs of the organisation, newest first. They are kept for 30 days after they are over.",
	}, a.list)
	endpoint.Typed(t, endpoint.Operation{
		ID: "getJob", Method: http.MethodGet, Path: "/v1/jobs/{id}", Tag: tag, Status: http.StatusOK, Timeout: endpoint.WaitTimeout,
		Scope: scope.SDKCall, Quota: admission.Plain, Problems: []problem.Kind{problem.JobNotFound, problem.InvalidRequest},
		Summary: "Get a job", Description: "With `Prefer: wait=N` the response is held until the job is over.",
	}, a.get)
	endpoint.Typed(t, endpoint.Operation{
		ID: "cancelJob", Method: http.MethodDelete, Path: "/v1/jobs/{id}", Tag: tag, Status: http.StatusOK, Repeatable: true,
		Scope: scope.SDKCall, Quota: admission.Safety, Audit: "job.cancel", Problems: []problem.Kind{problem.JobNotFound},
		Summary: "Cancel a job", Description: "Ends a job. What it has written so far can be read. A job that is over stays as it is.",
	}, a.cancel)
	endpoint.Written(t, endpoint.Operation{
		ID: "getJobResult", Method: http.MethodGet, Path: "/v1/jobs/{id}/result", Tag: tag, Status: http.StatusOK, Streams: true,
		Scope: scope.SDKCall, Quota: admission.Plain, Media: []string{media}, Conditional: true,
		OtherAnswers: map[int]any{http.StatusPartialContent: nil, http.StatusRequestedRangeNotSatisfiable: nil},
		Problems:     append([]problem.Kind{problem.JobNotFound, problem.JobNotStarted, problem.ResultExpired, problem.ServiceUnavailable}, mayExport...),
		Summary:      "Download the result of a job", Description: "A gzip file with one line of JSON per record. It can be read while the job runs: it then ends with what is written so far, " +
			"and a later request continues with `Range: bytes=N-`. Results are kept for 7 days after the job is over. What came from an account that was deleted since is missing. " +
			"A line of `org_export` is `{\"kind\", \"data\"}`. " + exports,
	}, a.result)
}

func (a operations) start(ctx context.Context, in *startInput) (*jobOutput, error) {
	caller := endpoint.Caller(ctx)
	if err := a.requireRecent(ctx, caller, in.Body.Kind); err != nil {
		return nil, err
	}
	draft, err := a.plan(ctx, caller, in)
	if err != nil {
		return nil, err
	}
	return a.view(a.Jobs.Start(ctx, caller, endpoint.By(ctx), draft))
}

// plan checks the members of a job by its kind.
func (a operations) plan(ctx context.Context, caller *apikey.Principal, in *startInput) (job.Draft, error) {
	b := &in.Body
	unused := problem.ValidationFailed.New("The job has members that do not belong to its kind.")
	refuse := func(given bool, pointer, kind string) {
		if given {
			unused.At(pointer, "unused", "belongs to a job of the kind "+kind)
		}
	}
	if b.Kind != sdkjob.Bulk {
		refuse(b.Items != nil, "/items", sdkjob.Bulk)
	}
	if b.Kind != sdkjob.Export {
		refuse(b.Args != nil, "/args", sdkjob.Export)
		refuse(b.Accounts != nil, "/accounts", sdkjob.Export)
	}
	if b.Kind == orgexport.Name {
		refuse(b.Method != "", "/method", "export or bulk")
		refuse(b.Share != 0, "/share", "export or bulk")
	} else if b.Method == "" {
		unused = problem.ValidationFailed.New("The job has no method.").At("/method", "required", "must be a method of GET /v1/sdk/methods")
	}
	if len(unused.Fields) > 0 {
		return job.Draft{}, unused
	}
	spec := sdkjob.Spec{Method: b.Method, Args: b.Args.text(), Share: b.Share}
	switch b.Kind {
	case sdkjob.Export:
		var choice sdkjob.Choice
		if c := b.Accounts; c != nil {
			choice = sdkjob.Choice{IDs: c.IDs, Platform: c.Platform, State: c.State, Metadata: c.Metadata}
		}
		return a.SDK.PlanExport(ctx, caller, spec, choice)
	case sdkjob.Bulk:
		var items []sdkjob.Item
		for _, one := range b.Items {
			items = append(items, sdkjob.Item{AccountID: one.AccountID, Args: one.Args.text()})
		}
		return a.SDK.PlanBulk(ctx, caller, spec, items)
	}
	return job.Draft{Kind: b.Kind, Params: struct{}{}}, nil
}

// requireRecent checks that the sign-in of a browser is recent if the kind of job gives away everything.
func (a operations) requireRecent(ctx context.Context, caller *apikey.Principal, kind string) error {
	if kind != orgexport.Name || caller.Key.Kind != apikey.KindSession {
		return nil
	}
	return a.RequireRecent(ctx, caller.Key.Session)
}

func (a operations) view(j job.Job, err error) (*jobOutput, error) {
	if err != nil {
		return nil, err
	}
	return &jobOutput{jobBody{Job: a.Jobs.View(&j, a.Now())}}, nil
}

func (a operations) list(ctx context.Context, in *listInput) (*listOutput, error) {
	f := job.Filter{Kind: in.Kind}
	if in.Cursor != "" {
		var err error
		if f.Before, err = id.Parse[id.Job](in.Cursor); err != nil {
			return nil, endpoint.InvalidCursor("query/cursor")
		}
	}
	list, err := a.Jobs.List(ctx, endpoint.Caller(ctx).Org.ID, f, in.Limit+1)
	if err != nil {
		return nil, err
	}
	out := &listOutput{}
	if len(list) > in.Limit {
		list = list[:in.Limit]
		out.Body.NextCursor = endpoint.NilIfEmpty(string(list[in.Limit-1].ID))
	}
	out.Body.Jobs = make([]contract.Job, len(list))
	for i := range list {
		out.Body.Jobs[i] = a.Jobs.View(&list[i], a.Now())
	}
	return out, nil
}

func (a operations) get(ctx context.Context, in *getInput) (*jobOutput, error) {
	wait, err := endpoint.Wait(ctx, 0)
	if err != nil {
		return nil, err
	}
	return a.view(a.Jobs.Await(ctx, endpoint.Caller(ctx).Org.ID, in.ID, wait))
}

func (a operations) cancel(ctx context.Context, in *JobInput) (*jobOutput, error) {
	return a.view(a.Jobs.Cancel(ctx, endpoint.Caller(ctx), endpoint.By(ctx), in.ID))
}
