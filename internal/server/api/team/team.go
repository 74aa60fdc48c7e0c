// Package team has the operations of the public API on the users of the dashboard: members and invitations (team.go),
// the browsers in which they are signed in (browsers.go), and the access of operators (support.go).
package team

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/server/mailview"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

type operations struct{ members *member.Members }

type teamBody struct {
	_           struct{}         `schema:"Team" doc:"The members of the organisation."`
	Members     []memberBody     `json:"members" doc:"In the order in which they joined."`
	Invitations []invitationBody `json:"invitations" doc:"Invitations that can still be accepted."`
}

type teamOutput struct{ Body teamBody }

type memberBody struct {
	_          struct{}    `schema:"Member" doc:"A member of the organisation."`
	ID         string      `json:"id" doc:"The id of the member."`
	Email      string      `json:"email" doc:"The email address of the member."`
	Name       string      `json:"name" doc:"The name of the member; may be empty."`
	Role       string      `json:"role" enum:"owner,admin,developer,support" doc:"What the member may do."`
	JoinedAt   stamp.Time  `json:"joinedAt" doc:"When the member joined."`
	LastSeenAt *stamp.Time `json:"lastSeenAt" doc:"Accurate to the minute; null before the first visit."`
	You        bool        `json:"you" doc:"True for the member who makes this call."`
}

type invitationBody struct {
	_         struct{}   `schema:"Invitation" doc:"An open invitation to the organisation."`
	ID        string     `json:"id" doc:"The id of the invitation."`
	Email     string     `json:"email" doc:"The email address of the invited person."`
	Role      string     `json:"role" enum:"owner,admin,developer,support" doc:"What the person may do after joining."`
	CreatedAt stamp.Time `json:"createdAt" doc:"When the invitation was made."`
	ExpiresAt stamp.Time `json:"expiresAt" doc:"When the invitation stops working."`
	InvitedBy string     `json:"invitedBy" doc:"The email address of a member, or the label of a key."`
}

type inviteInput struct {
	Body struct {
		Email  string `json:"email" minLength:"3" maxLength:"254" doc:"The address to invite. Only a user who signs in with this address, verified by the identity provider, can accept."`
		Role   string `json:"role" enum:"owner,admin,developer,support" doc:"What the person may do after joining."`
		Locale string `json:"locale,omitempty" enum:"en,es" doc:"The language of the email. Default: en."`
	}
}

type inviteOutput struct {
	Body struct {
		_          struct{}       `schema:"InvitationSent" doc:"The result of inviting a member."`
		Invitation invitationBody `json:"invitation" doc:"The invitation."`
		URL        string         `json:"url" doc:"The link. It is shown only once, works once, and only for the invited address." sensitive:"true"`
		Mail       *mailview.Mail `json:"mail" doc:"What became of the email with the link."`
	}
}

type invitationInput struct {
	ID string `path:"id" maxLength:"64" doc:"The invitation's id, from GET /v1/org/members."`
}

type withdrawnOutput struct {
	Body struct {
		_         struct{} `schema:"InvitationWithdrawn" doc:"The result of withdrawing an invitation."`
		ID        string   `json:"id" doc:"The id of the invitation."`
		Withdrawn bool     `json:"withdrawn" doc:"True: the invitation no longer works."`
	}
}

type roleInput struct {
	ID   string `path:"id" maxLength:"64" doc:"The member's id, from GET /v1/org/members."`
	Body struct {
		Role string `json:"role" enum:"owner,admin,developer,support" doc:"What the member may do from now on."`
	}
}

type memberOutput struct {
	Body struct {
		_      struct{}   `schema:"MemberResponse" doc:"One member."`
		Member memberBody `json:"member" doc:"The member."`
	}
}

type memberInput struct {
	ID string `path:"id" maxLength:"64" doc:"The member's id, from GET /v1/org/members."`
}

type removedOutput struct {
	Body struct {
		_       struct{}  `schema:"MemberRemoved" doc:"The result of removing a member."`
		ID      string    `json:"id" doc:"The id of the member."`
		Removed bool      `json:"removed" doc:"True: the member no longer belongs to the organisation."`
		Keys    []leftKey `json:"keys" doc:"Keys that the member created, directly or with other keys, and that still work."`
	}
}

type leftKey struct {
	_     struct{} `schema:"MemberKey" doc:"A key that a member created."`
	ID    string   `json:"id" doc:"The id of the key."`
	Label string   `json:"label" doc:"The name of the key."`
}

type revokedKeysOutput struct {
	Body struct {
		_       struct{}  `schema:"MemberKeysRevoked" doc:"The result of revoking the keys of a member."`
		ID      string    `json:"id" doc:"The member's id."`
		Revoked []leftKey `json:"revoked" doc:"The keys that were revoked."`
	}
}

func viewKeys(keys []apikey.Key) []leftKey {
	views := make([]leftKey, len(keys))
	for i, k := range keys {
		views[i] = leftKey{ID: string(k.ID), Label: k.Label}
	}
	return views
}

const tag = "Team"

// Routes adds the operations.
func Routes(t *endpoint.Table, members *member.Members) {
	a := &operations{members}
	rules := "A caller cannot grant a role with more rights than their own. Only owners can add, change or remove owners."
	refused := []problem.Kind{problem.RoleRequired, problem.ScopeEscalation}
	recent := []problem.Kind{problem.RoleRequired, problem.ScopeEscalation}
	endpoint.Typed(t, endpoint.Operation{
		ID: "listMembers", Method: http.MethodGet, Path: "/v1/org/members", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeRead, Quota: admission.Plain,
		Summary: "List members and invitations", Description: "The users who can sign in to the organisation's dashboard, with their roles.",
	}, a.listMembers)
	endpoint.Typed(t, endpoint.Operation{
		ID: "inviteMember", Method: http.MethodPost, Path: "/v1/org/invitations", Tag: tag, Status: http.StatusCreated,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "member.invite", Recent: true, Problems: append(recent, problem.AlreadyMember),
		Summary: "Invite a member", Description: "Creates a link to join the organisation. It works for 7 days; another invitation to the same address replaces it. " +
			"The service sends the link by email, if it has a mail server: `mail` says what became of it. " + rules,
		Example: map[string]any{"email": "ada@example.com", "role": "developer"},
	}, a.invite)
	endpoint.Typed(t, endpoint.Operation{
		ID: "withdrawInvitation", Method: http.MethodDelete, Path: "/v1/org/invitations/{id}", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "invitation.withdraw", Problems: append(refused, problem.InvitationGone),
		Summary: "Withdraw an invitation", Description: "The link stops working. " + rules,
	}, a.withdraw)
	endpoint.Typed(t, endpoint.Operation{
		ID: "updateMember", Method: http.MethodPatch, Path: "/v1/org/members/{id}", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "member.role", Recent: true, Problems: append(recent, problem.MemberNotFound, problem.LastOwner),
		Summary: "Change a member's role", Description: "The new role applies on every server to calls that start after the response. " + rules,
		Example: map[string]any{"role": "admin"},
	}, a.updateMember)
	endpoint.Typed(t, endpoint.Operation{
		ID: "removeMember", Method: http.MethodDelete, Path: "/v1/org/members/{id}", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Plain, Audit: "member.remove", Recent: true, Problems: append(recent, problem.MemberNotFound, problem.LastOwner),
		Summary: "Remove a member", Description: "Calls from the member's browsers that start after the response are refused on every server. " +
			"Keys that the member created belong to the organisation and stay: `keys` and the audit entry name them. " + rules,
	}, a.removeMember)
	endpoint.Typed(t, endpoint.Operation{
		ID: "revokeMemberKeys", Method: http.MethodPost, Path: "/v1/org/members/{id}/revoke-keys", Tag: tag, Status: http.StatusOK,
		Scope: scope.MeWrite, Quota: admission.Safety, Audit: "member.revoke_keys", Problems: []problem.Kind{problem.MemberNotFound},
		Summary: "Revoke the keys of a member", Description: "Revokes all keys that a member, or a person who has left, created directly or with other keys. " +
			"The calling key is not revoked. Calls that start after the response are refused on every server.",
	}, a.revokeMemberKeys)
	a.browserRoutes(t)
	a.supportRoutes(t)
}

// teamCaller returns the caller of a change to the team, with the limits of its key.
func teamCaller(p *apikey.Principal) member.Caller {
	return member.Caller{Person: p.Key.Person, Scopes: p.Scopes, Limited: p.Key.Allow.IsLimited()}
}

func (a *operations) listMembers(ctx context.Context, _ *struct{}) (*teamOutput, error) {
	caller := endpoint.Caller(ctx)
	members, invited, err := a.members.List(ctx, caller.Org.ID)
	if err != nil {
		return nil, err
	}
	out := &teamOutput{teamBody{
		Members: make([]memberBody, len(members)), Invitations: make([]invitationBody, len(invited)),
	}}
	for i, m := range members {
		out.Body.Members[i] = viewMember(caller, m)
	}
	for i, one := range invited {
		out.Body.Invitations[i] = viewInvitation(one)
	}
	return out, nil
}

func viewMember(caller *apikey.Principal, m member.Member) memberBody {
	return memberBody{
		ID: string(m.ID), Email: m.Email, Name: m.Name, Role: string(m.Role), JoinedAt: stamp.Time(m.JoinedAt),
		LastSeenAt: (*stamp.Time)(m.LastSeenAt), You: m.ID == caller.Key.Person,
	}
}

func viewInvitation(i member.Invitation) invitationBody {
	return invitationBody{
		ID: string(i.ID), Email: i.Email, Role: string(i.Role), CreatedAt: stamp.Time(i.CreatedAt),
		ExpiresAt: stamp.Time(i.ExpiresAt), InvitedBy: i.InvitedBy,
	}
}

func (a *operations) invite(ctx context.Context, in *inviteInput) (*inviteOutput, error) {
	caller := endpoint.Caller(ctx)
	made, token, err := a.members.Invite(ctx, endpoint.By(ctx), caller.Org.ID, teamCaller(caller), member.Invitee{Email: in.Body.Email, Role: in.Body.Role, Locale: in.Body.Locale})
	if err != nil {
		return nil, err
	}
	out := &inviteOutput{}
	out.Body.Invitation, out.Body.URL = viewInvitation(made), a.members.InvitationURL(token)
	out.Body.Mail = mailview.View(made.Mail)
	return out, nil
}

func (a *operations) withdraw(ctx context.Context, in *invitationInput) (*withdrawnOutput, error) {
	caller := endpoint.Caller(ctx)
	if err := a.members.Withdraw(ctx, endpoint.By(ctx), caller.Org.ID, teamCaller(caller), in.ID); err != nil {
		return nil, err
	}
	out := &withdrawnOutput{}
	out.Body.ID, out.Body.Withdrawn = in.ID, true
	return out, nil
}

func (a *operations) updateMember(ctx context.Context, in *roleInput) (*memberOutput, error) {
	caller := endpoint.Caller(ctx)
	m, err := a.members.SetRole(ctx, endpoint.By(ctx), caller.Org.ID, teamCaller(caller), in.ID, in.Body.Role)
	if err != nil {
		return nil, err
	}
	out := &memberOutput{}
	out.Body.Member = viewMember(caller, m)
	return out, nil
}

func (a *operations) removeMember(ctx context.Context, in *memberInput) (*removedOutput, error) {
	caller := endpoint.Caller(ctx)
	left, err := a.members.Remove(ctx, endpoint.By(ctx), caller.Org.ID, teamCaller(caller), in.ID)
	if err != nil {
		return nil, err
	}
	out := &removedOutput{}
	out.Body.ID, out.Body.Removed, out.Body.Keys = in.ID, true, viewKeys(left)
	return out, nil
}

func (a *operations) revokeMemberKeys(ctx context.Context, in *memberInput) (*revokedKeysOutput, error) {
	caller := endpoint.Caller(ctx)
	revoked, err := a.members.RevokeKeys(ctx, endpoint.By(ctx), caller.Org.ID, in.ID, caller.Key.ID)
	if err != nil {
		return nil, err
	}
	out := &revokedKeysOutput{}
	out.Body.ID, out.Body.Revoked = in.ID, viewKeys(revoked)
	return out, nil
}
