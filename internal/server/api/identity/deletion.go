package identity

import (
	"context"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

type deletionOutput struct {
	Body struct {
		_        struct{}      `schema:"OrgDeletionResponse" doc:"The state of the organisation's deletion."`
		Deletion *deletionBody `json:"deletion" doc:"Null if the organisation is not being deleted."`
	}
}

type deletionBody struct {
	_           struct{}   `schema:"OrgDeletion" doc:"The deletion of an organisation."`
	RequestedAt stamp.Time `json:"requestedAt" doc:"When the deletion was requested."`
	PurgeAt     stamp.Time `json:"purgeAt" doc:"When everything of the organisation is destroyed. Until then it can be restored."`
	ReceiptURL  string     `json:"receiptUrl" doc:"Where the signed receipt is when everything is destroyed. It needs no key."`
}

func (a *operations) deletionRoutes(t *endpoint.Table) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "deleteOrg", Method: http.MethodDelete, Path: "/v1/org", Tag: tag, Status: http.StatusOK, Repeatable: true,
		Quota: admission.Safety, Recent: true, Audit: "org.delete", Problems: []problem.Kind{problem.RoleRequired}, WhileDeleting: true,
		Summary: "Delete the organisation", Description: "Suspends the organisation immediately: its keys are refused with `org-suspended`, and nothing is sent or called for it. " +
			"After 7 days everything of it is destroyed: accounts with all that is stored of them, keys, members, usage and the audit log. " +
			"Until then `POST /v1/org/restore` undoes it. Repeating the call changes nothing.",
	}, a.deleteOrg)
	endpoint.Typed(t, endpoint.Operation{
		ID: "restoreOrg", Method: http.MethodPost, Path: "/v1/org/restore", Tag: tag, Status: http.StatusOK, Repeatable: true,
		Quota: admission.Safety, Audit: "org.restore", Problems: []problem.Kind{problem.RoleRequired, problem.OrgNotFound}, WhileDeleting: true,
		Summary: "Restore the organisation", Description: "Ends the deletion of the organisation, and the suspension that came with it. Accounts, keys and settings are as before. " +
			"When the 7 days have passed, it is too late: 404 `org-not-found`. If the organisation is not being deleted, the call changes nothing.",
	}, a.restoreOrg)
}

func (a *operations) deleteOrg(ctx context.Context, _ *struct{}) (*deletionOutput, error) {
	caller := endpoint.Caller(ctx)
	return a.viewDeletion(a.Orgs.Delete(ctx, caller.Org.ID, endpoint.By(ctx), a.ownersOnly(caller)))
}

func (a *operations) restoreOrg(ctx context.Context, _ *struct{}) (*deletionOutput, error) {
	caller := endpoint.Caller(ctx)
	return a.viewDeletion(a.Orgs.Restore(ctx, caller.Org.ID, endpoint.By(ctx), a.ownersOnly(caller)))
}

// ownersOnly permits a change to owners who are signed in to the dashboard. A key has no person.
func (a *operations) ownersOnly(caller *apikey.Principal) org.Permit {
	return func(ctx context.Context, tx postgres.Tx) error {
		return a.Members.RequireOwner(ctx, tx, caller.Org.ID, caller.Key.Person)
	}
}

func (a *operations) viewDeletion(o org.Org, err error) (*deletionOutput, error) {
	if err != nil {
		return nil, err
	}
	out := &deletionOutput{}
	if d := o.Deletion; d != nil {
		out.Body.Deletion = &deletionBody{
			RequestedAt: stamp.Time(d.RequestedAt), PurgeAt: stamp.Time(d.PurgeAt),
			ReceiptURL: a.PublicURL + "/v1/org-receipts/" + string(o.ID),
		}
	}
	return out, nil
}
