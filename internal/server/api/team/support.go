package team

import (
	"context"
	"net/http"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

type supportBody struct {
	_           struct{}    `schema:"SupportAccess" doc:"An operator's request for access to the organisation or, once it is granted, the access."`
	ID          string      `json:"id" doc:"The id of the request or grant."`
	State       string      `json:"state" enum:"requested,granted,ended,expired" doc:"ended: declined, revoked, or replaced by another request of the operator."`
	Operator    string      `json:"operator" doc:"The operator of the service who asks, by email address."`
	Reason      string      `json:"reason" doc:"The operator's reason."`
	RequestedAt stamp.Time  `json:"requestedAt" doc:"When access was requested or granted."`
	GrantedAt   *stamp.Time `json:"grantedAt" doc:"When an owner granted it; null if it was not granted."`
	GrantedBy   *string     `json:"grantedBy" doc:"The email address of the owner who granted it."`
	ExpiresAt   stamp.Time  `json:"expiresAt" doc:"When the request expires or, once it is granted, the access."`
	EndedAt     *stamp.Time `json:"endedAt" doc:"When it was revoked; null if it was not."`
	EndedBy     *string     `json:"endedBy" doc:"Who declined, revoked or replaced it."`
}

type listSupportOutput struct {
	Body struct {
		_             struct{}      `schema:"SupportAccessList" doc:"Requests of operators for access."`
		SupportAccess []supportBody `json:"supportAccess" doc:"Those of the last 90 days, newest first."`
	}
}

type supportOutput struct {
	Body struct {
		_             struct{}    `schema:"SupportAccessResponse" doc:"A request of an operator for access."`
		SupportAccess supportBody `json:"supportAccess" doc:"The access."`
	}
}

type grantInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The request's id, from GET /v1/org/support-access."`
	Body struct {
		Hours int `json:"hours" minimum:"1" maximum:"168" doc:"How long the operator may read."`
	}
}

type supportInput struct {
	ID string `path:"id" maxLength:"64" doc:"The id of the request or access, from GET /v1/org/support-access."`
}

func (a *operations) supportRoutes(t *endpoint.Table) {
	who := "Only an owner who is signed in to the dashboard can do this; keys are refused with `role-required`."
	endpoint.Typed(t, endpoint.Operation{
		ID: "listSupportAccess", Method: http.MethodGet, Path: "/v1/org/support-access", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeRead, Quota: admission.Plain,
		Summary: "List support access", Description: "Requests of operators of the service for access to what is inside the organisation, and what became of them. " +
			"Without access, operators see states and counts only. What they read with it is in the audit log, as `operator.read`.",
	}, a.listSupport)
	endpoint.Typed(t, endpoint.Operation{
		ID: "grantSupportAccess", Method: http.MethodPost, Path: "/v1/org/support-access/{id}/grant", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "support_access.grant", Recent: true,
		Problems: []problem.Kind{problem.RoleRequired, problem.AccessNotFound, problem.ReauthenticationRequired},
		Summary:  "Grant support access", Description: "The operator who asked can read what a member with the role *support* can, for up to 7 days. " + who,
		Example: map[string]any{"hours": 24},
	}, a.grantSupport)
	endpoint.Typed(t, endpoint.Operation{
		ID: "revokeSupportAccess", Method: http.MethodDelete, Path: "/v1/org/support-access/{id}", Tag: tag, Status: http.StatusOK, Repeatable: true,
		Scope: scope.MeWrite, Quota: admission.Safety, Audit: "support_access.revoke", Problems: []problem.Kind{problem.RoleRequired, problem.AccessNotFound},
		Summary: "Revoke support access", Description: "Ends an access, or declines a request. Calls of the operator that start after the response are refused on every server. " +
			"Repeating the call changes nothing. " + who,
	}, a.revokeSupport)
}

func (a *operations) listSupport(ctx context.Context, _ *struct{}) (*listSupportOutput, error) {
	list, err := a.members.ListAccess(ctx, endpoint.Caller(ctx).Org.ID)
	if err != nil {
		return nil, err
	}
	out := &listSupportOutput{}
	out.Body.SupportAccess = make([]supportBody, len(list))
	for i, one := range list {
		out.Body.SupportAccess[i] = viewSupport(one)
	}
	return out, nil
}

func (a *operations) grantSupport(ctx context.Context, in *grantInput) (*supportOutput, error) {
	caller := endpoint.Caller(ctx)
	return answerSupport(a.members.GrantAccess(ctx, endpoint.By(ctx), caller.Org.ID, caller.Key.Person, in.ID, time.Duration(in.Body.Hours)*time.Hour))
}

func (a *operations) revokeSupport(ctx context.Context, in *supportInput) (*supportOutput, error) {
	caller := endpoint.Caller(ctx)
	return answerSupport(a.members.RevokeAccess(ctx, endpoint.By(ctx), caller.Org.ID, caller.Key.Person, in.ID))
}

func answerSupport(one member.Access, err error) (*supportOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &supportOutput{}
	out.Body.SupportAccess = viewSupport(one)
	return out, nil
}

func viewSupport(m member.Access) supportBody {
	return supportBody{
		ID: string(m.ID), State: string(m.State), Operator: m.Operator, Reason: m.Reason, RequestedAt: stamp.Time(m.RequestedAt),
		GrantedAt: (*stamp.Time)(m.GrantedAt), GrantedBy: endpoint.NilIfEmpty(m.GrantedBy), ExpiresAt: stamp.Time(m.ExpiresAt),
		EndedAt: (*stamp.Time)(m.EndedAt), EndedBy: endpoint.NilIfEmpty(m.EndedBy),
	}
}
