package admin

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

type accessInput struct {
	ID   string `path:"id" maxLength:"64"`
	Body struct {
		Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"The reason. The owners of the organisation read it before they decide."`
	}
}

type accessBody struct {
	ID          string      `json:"id"`
	State       string      `json:"state" enum:"requested,granted,ended,expired" doc:"ended: declined, revoked or replaced by another request."`
	Operator    string      `json:"operator"`
	Mine        bool        `json:"mine" doc:"Whether you requested it. Only then you can use it."`
	Reason      string      `json:"reason"`
	RequestedAt stamp.Time  `json:"requestedAt"`
	GrantedAt   *stamp.Time `json:"grantedAt"`
	ExpiresAt   stamp.Time  `json:"expiresAt" doc:"When the request expires or, once it is granted, the access."`
	EndedAt     *stamp.Time `json:"endedAt"`
}

type accessOutput struct {
	Body struct {
		Access accessBody `json:"access"`
	}
}

type listAccessOutput struct {
	Body struct {
		Access []accessBody `json:"access" doc:"Requests of the last 90 days, newest first."`
	}
}

type openOutput struct {
	Body struct {
		URL       string     `json:"url" sensitive:"true" doc:"Opens the organisation's dashboard, once. It is shown only in this response."`
		ExpiresAt stamp.Time `json:"expiresAt" doc:"The address must be opened before this time."`
	}
}

func (a *Admin) accessRoutes() {
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "requestAccess", Method: http.MethodPost, Path: "/admin/v1/orgs/{id}/access", Tag: "Organisations", Status: http.StatusCreated, Scope: scope.AdminSupport,
		Audit: "operator.access_request", Problems: []problem.Kind{problem.OrgNotFound},
		Summary: "Request access to an organisation", Description: "Asks the owners of the organisation for access to what is inside it. They grant it for 1 hour to 7 days, and can revoke it. " +
			"Their audit log shows the request with its reason, and what you read. A request expires after 7 days; another one replaces it.",
		Example: map[string]any{"reason": "Ticket 1423: webhooks do not arrive"},
	}, a.requestAccess)
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "listAccess", Method: http.MethodGet, Path: "/admin/v1/orgs/{id}/access", Tag: "Organisations", Status: http.StatusOK, Scope: scope.AdminSupport,
		Problems: []problem.Kind{problem.OrgNotFound}, Summary: "List requests for access to an organisation",
	}, a.listAccess)
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "openOrg", Method: http.MethodPost, Path: "/admin/v1/orgs/{id}/open", Tag: "Organisations", Status: http.StatusCreated, Scope: scope.AdminSupport,
		Audit: "operator.access", Problems: []problem.Kind{problem.OrgNotFound, problem.ConsentRequired},
		Summary: "Open an organisation's dashboard", Description: "Creates an address that opens the organisation's dashboard read-only, for 30 minutes and no longer than the access that an owner granted you. " +
			"The organisation sees in its audit log who opened it, why, and what was read.",
	}, a.openOrg)
}

func (a *Admin) requestAccess(ctx context.Context, in *accessInput) (*accessOutput, error) {
	owner, err := parseOrg(in.ID)
	if err != nil {
		return nil, err
	}
	made, err := a.deps.Members.RequestAccess(ctx, endpoint.By(ctx), owner, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	out := &accessOutput{}
	out.Body.Access = viewAccess(ctx, made)
	return out, nil
}

func (a *Admin) listAccess(ctx context.Context, in *orgInput) (*listAccessOutput, error) {
	owner, err := parseOrg(in.ID)
	if err != nil {
		return nil, err
	}
	if _, err := a.deps.Orgs.Get(ctx, owner); err != nil {
		return nil, err
	}
	list, err := a.deps.Members.ListAccess(ctx, owner)
	if err != nil {
		return nil, err
	}
	out := &listAccessOutput{}
	out.Body.Access = make([]accessBody, len(list))
	for i, one := range list {
		out.Body.Access[i] = viewAccess(ctx, one)
	}
	return out, nil
}

func viewAccess(ctx context.Context, m member.Access) accessBody {
	return accessBody{
		ID: string(m.ID), State: string(m.State), Operator: m.Operator, Mine: m.OperatorID == endpoint.From(ctx).Identity.ID, Reason: m.Reason,
		RequestedAt: stamp.Time(m.RequestedAt), GrantedAt: (*stamp.Time)(m.GrantedAt), ExpiresAt: stamp.Time(m.ExpiresAt), EndedAt: (*stamp.Time)(m.EndedAt),
	}
}

func (a *Admin) openOrg(ctx context.Context, in *orgInput) (*openOutput, error) {
	owner, err := parseOrg(in.ID)
	if err != nil {
		return nil, err
	}
	offer, err := a.deps.Members.OfferSupport(ctx, endpoint.By(ctx), owner)
	if err != nil {
		return nil, err
	}
	out := &openOutput{}
	out.Body.URL, out.Body.ExpiresAt = a.deps.Config.PublicURL+"/app/support/"+offer.Token.Reveal(), stamp.Time(offer.ExpiresAt)
	return out, nil
}
