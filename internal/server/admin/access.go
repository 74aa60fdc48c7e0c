package admin

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
)

type accessInput struct {
	ID   string `path:"id" maxLength:"64"`
	Body struct {
		Reason string `json:"reason" minLength:"3" maxLength:"500" doc:"The reason. The organisation sees it in its audit log."`
	}
}

type accessOutput struct {
	Body struct {
		URL       string     `json:"url" sensitive:"true" doc:"Opens the organisation's dashboard, once. It is shown only in this response."`
		ExpiresAt stamp.Time `json:"expiresAt" doc:"The address must be opened before this time."`
	}
}

func (a *Admin) accessRoutes() {
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "openOrg", Method: http.MethodPost, Path: "/admin/v1/orgs/{id}/access", Tag: "Organisations", Status: http.StatusCreated, Scope: scope.AdminOrgs,
		Audit: "operator.access", Problems: []problem.Kind{problem.OrgNotFound},
		Summary: "Open an organisation's dashboard", Description: "Creates an address that opens the organisation's dashboard read-only for 30 minutes. " +
			"The organisation sees in its audit log who opened it and why.",
		Example: map[string]any{"reason": "Ticket 1423: webhooks do not arrive"},
	}, a.openOrg)
}

func (a *Admin) openOrg(ctx context.Context, in *accessInput) (*accessOutput, error) {
	owner, err := parseOrg(in.ID)
	if err != nil {
		return nil, err
	}
	offer, err := a.deps.Members.OfferSupport(ctx, endpoint.By(ctx), owner, in.Body.Reason)
	if err != nil {
		return nil, err
	}
	out := &accessOutput{}
	out.Body.URL, out.Body.ExpiresAt = a.deps.Config.PublicURL+"/app/support/"+offer.Token.Reveal(), stamp.Time(offer.ExpiresAt)
	return out, nil
}
