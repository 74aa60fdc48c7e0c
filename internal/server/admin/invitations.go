package admin

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/server/mailview"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

type inviteInput struct {
	ID   string `path:"id" maxLength:"64"`
	Body struct {
		Email  string `json:"email" minLength:"3" maxLength:"254" doc:"The address to invite. Only a user who signs in with it can accept."`
		Role   string `json:"role" enum:"owner,admin,developer,support"`
		Locale string `json:"locale,omitempty" enum:"en,es" doc:"The language of the email. Default: en."`
		Again  bool   `json:"again,omitempty" doc:"Invite even if a member has the address: for users whose identity at the identity provider changed, for example after a change of provider."`
	}
}

type inviteOutput struct {
	Body struct {
		ID        string         `json:"id"`
		Email     string         `json:"email"`
		Role      string         `json:"role"`
		ExpiresAt stamp.Time     `json:"expiresAt"`
		URL       string         `json:"url" doc:"The link. It is shown only once, works once, and only for the invited address." sensitive:"true"`
		Mail      *mailview.Mail `json:"mail" doc:"What became of the email with the link."`
	}
}

func (a *Admin) invitationRoutes() {
	endpoint.Typed(a.table, endpoint.Operation{
		ID: "inviteToOrg", Method: http.MethodPost, Path: "/admin/v1/orgs/{id}/invitations", Tag: "Organisations", Status: http.StatusCreated, Scope: scope.AdminOwner,
		Audit: "member.invite", Problems: []problem.Kind{problem.OrgNotFound, problem.AlreadyMember, problem.ConsentRequired},
		Summary: "Invite a member to an organisation", Description: "For the first owner, or after the last owner has left. Members invite all others. " +
			"If the organisation has an owner, it needs the access that the owner granted you, unless a member has the address. The service sends the link by email, if it has a mail server: `mail` says what became of it.",
		Example: map[string]any{"email": "ada@example.com", "role": "owner"},
	}, a.inviteToOrg)
}

func (a *Admin) inviteToOrg(ctx context.Context, in *inviteInput) (*inviteOutput, error) {
	owner, err := parseOrg(in.ID)
	if err != nil {
		return nil, err
	}
	made, token, err := a.deps.Members.Invite(ctx, endpoint.By(ctx), owner, member.Caller{Operator: true, Again: in.Body.Again}, member.Invitee{Email: in.Body.Email, Role: in.Body.Role, Locale: in.Body.Locale})
	if err != nil {
		return nil, err
	}
	out := &inviteOutput{}
	out.Body.ID, out.Body.Email, out.Body.Role, out.Body.ExpiresAt = string(made.ID), made.Email, string(made.Role), stamp.Time(made.ExpiresAt)
	out.Body.URL, out.Body.Mail = a.deps.Members.InvitationURL(token), mailview.View(made.Mail)
	return out, nil
}
