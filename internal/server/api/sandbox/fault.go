package sandbox

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/platform/sandboxapi"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

type faultInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The account's id."`
	Body struct {
		Kind    string `json:"kind" enum:"rate_limit,error,slow,down,otp_next" doc:"rate_limit: the platform returns 429. error: it returns a status of your choice. slow: it delays every response. down: it returns 503. otp_next: it asks for a code at the next sign-in."`
		Value   *int   `json:"value,omitempty" minimum:"1" maximum:"60000" doc:"rate_limit: the seconds of Retry-After. Default: 5. error: a status from 400 to 599. Default: 500. slow: milliseconds. Default: 3000. Not allowed for the other kinds."`
		Seconds *int   `json:"seconds,omitempty" minimum:"1" maximum:"3600" doc:"How long the fault lasts, in seconds. Default: 60; otp_next lasts until it was applied."`
		Count   *int   `json:"count,omitempty" minimum:"1" maximum:"10000" doc:"The maximum number of calls that are affected. The live connection does not count. Default: no limit; one sign-in for otp_next."`
	}
}

type faultOutput struct {
	Body struct {
		_        struct{}    `schema:"SandboxFault" doc:"A fault that was injected on the sandbox."`
		Accepted bool        `json:"accepted" doc:"True: the fault is set."`
		Until    *stamp.Time `json:"until" doc:"When the fault ends at the latest; null if it lasts until it was applied."`
	}
}

type clearedOutput struct {
	Body struct {
		_       struct{} `schema:"SandboxFaultsCleared" doc:"The result of clearing faults on the sandbox."`
		Cleared int      `json:"cleared" doc:"The number of faults that were active."`
	}
}

const (
	defaultSeconds = 60
	defaultDelay   = 3000
	maxDelay       = 60_000
)

func (a *operations) faultRoutes(t *endpoint.Table, live []problem.Kind) {
	missing := append([]problem.Kind{problem.AccountNotFound}, live...)
	endpoint.Typed(t, endpoint.Operation{
		ID: "setSandboxFault", Method: http.MethodPost, Path: "/v1/sandbox/accounts/{id}/fault", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Unaudited: notRecorded, Problems: missing,
		Summary: "Inject a sandbox fault", Description: "The platform misbehaves for this account for a while. Your calls and the account's state react as they would to a real fault. " +
			"Several faults can be active at the same time. For sandbox organisations only.",
		Example: map[string]any{"kind": "rate_limit", "value": 7, "seconds": 60},
	}, a.setFault)
	endpoint.Typed(t, endpoint.Operation{
		ID: "clearSandboxFaults", Method: http.MethodDelete, Path: "/v1/sandbox/accounts/{id}/fault", Tag: tag, Status: http.StatusOK, Repeatable: true,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Account: "id", Unaudited: notRecorded, Problems: missing,
		Summary: "Clear sandbox faults", Description: "Ends all faults of the account immediately. For sandbox organisations only.",
	}, a.clearFaults)
}

func (a *operations) setFault(ctx context.Context, in *faultInput) (*faultOutput, error) {
	f, err := in.fault()
	if err != nil {
		return nil, err
	}
	found, err := a.sandboxAccount(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := a.Sandbox.Trouble(ctx, found.UpstreamID, f); err != nil {
		return nil, sandboxProblem(err, "/kind", "must be a fault that the sandbox can inject")
	}
	out := &faultOutput{}
	out.Body.Accepted = true
	if f.For > 0 {
		until := a.Now().Add(f.For).UTC()
		out.Body.Until = (*stamp.Time)(&until)
	}
	return out, nil
}

// fault translates the input to the sandbox's own kinds of faults.
func (in *faultInput) fault() (sandboxapi.Fault, error) {
	f := sandboxapi.Fault{Kind: in.Body.Kind, For: defaultSeconds * time.Second}
	bad := problem.ValidationFailed.New("The fault has invalid values.")
	value := func(usual, least, most int, rule string) int {
		if in.Body.Value == nil {
			return usual
		}
		if *in.Body.Value < least || *in.Body.Value > most {
			bad.At("/value", "range", rule)
		}
		return *in.Body.Value
	}
	none := func() {
		if in.Body.Value != nil {
			bad.At("/value", "unexpected", "must be omitted for this kind")
		}
	}
	switch in.Body.Kind {
	case "rate_limit":
		f.Value = value(5, 1, defaultSeconds*defaultSeconds, "must be 1 to 3600 seconds")
	case "error":
		f.Value = value(http.StatusInternalServerError, http.StatusBadRequest, 599, "must be a status from 400 to 599")
	case "slow":
		f.Kind, f.Value = "latency", value(defaultDelay, 1, maxDelay, "must be 1 to 60000 milliseconds")
	case "down":
		none()
		f.Kind, f.Value = "error", http.StatusServiceUnavailable
	case "otp_next":
		none()
		f.Kind, f.Count, f.For = "challenge", 1, 0
	}
	if in.Body.Seconds != nil {
		f.For = time.Duration(*in.Body.Seconds) * time.Second
	}
	if in.Body.Count != nil {
		f.Count = *in.Body.Count
	}
	if len(bad.Fields) > 0 {
		return f, bad
	}
	return f, nil
}

func (a *operations) clearFaults(ctx context.Context, in *accountInput) (*clearedOutput, error) {
	found, err := a.sandboxAccount(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	n, err := a.Sandbox.Calm(ctx, found.UpstreamID)
	if err != nil {
		return nil, sandboxProblem(err, "", "")
	}
	out := &clearedOutput{}
	out.Body.Cleared = n
	return out, nil
}
