package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// customers authenticates API keys, and browsers that are signed in to the dashboard. It implements
// endpoint.Authenticator.
type customers struct {
	keys    *apikey.Keys
	members *member.Members
	hashIP  func(string) string
}

func (c customers) Authenticate(ctx context.Context, token string) (endpoint.Identity, error) {
	p, err := c.keys.Verify(ctx, token, endpoint.From(ctx).Origin.Source)
	if err != nil {
		return endpoint.Identity{}, err
	}
	return identityOf(p), nil
}

func (c customers) Refresh(ctx context.Context, id endpoint.Identity) (endpoint.Identity, error) {
	p, err := c.keys.Refresh(ctx, id.Principal, endpoint.From(ctx).Origin.Started)
	if key := id.Principal.Key; err != nil && key.Kind == apikey.KindSession && errors.Is(err, problem.SignedOut.New("")) {
		err = c.members.Ended(ctx, key.Session)
	}
	if err := whileDeleting(ctx, p, err); err != nil {
		return endpoint.Identity{}, err
	}
	return identityOf(p), nil
}

// whileDeleting returns nil instead of the problem org-suspended if a browser calls an operation that serves
// organisations while they are being deleted. If an operator has suspended the organisation, it returns the problem.
func whileDeleting(ctx context.Context, p *apikey.Principal, err error) error {
	if p != nil && p.Key.Kind == apikey.KindSession && p.Org.Deletion != nil && p.Org.Deletion.Suspends &&
		endpoint.From(ctx).ServesWhileDeleting() && errors.Is(err, problem.OrgSuspended.New("")) {
		return nil
	}
	return err
}

// identityOf returns the actor of a key. A browser's session acts as its member, or as an operator if it has no
// person.
func identityOf(p *apikey.Principal) endpoint.Identity {
	who := endpoint.Identity{Principal: p, Scopes: p.Scopes, Kind: audit.ActorKey, ID: string(p.Key.ID), Label: p.Key.Label}
	switch {
	case p.Key.Kind != apikey.KindSession:
	case p.Key.Person != "":
		who.Kind, who.ID = audit.ActorMember, string(p.Key.Person)
	default:
		who.Kind, who.ID = audit.ActorOperator, "operator"
	}
	return who
}

func (c customers) identifyBrowser(r *http.Request, cookie string) (endpoint.Identity, error) {
	ctx := r.Context()
	source := endpoint.From(ctx).Origin.Source
	p, err := c.members.Identify(ctx, secret.New(cookie), r.Header.Get(member.OrgHeader), member.From{
		Source: source, Request: endpoint.From(ctx).ID, IPHash: c.hashIP(source),
	})
	if err := whileDeleting(ctx, p, err); err != nil {
		return endpoint.Identity{}, err
	}
	who := identityOf(p)
	if who.Kind == audit.ActorOperator {
		// What operators read is in the org's audit log, or they do not get it.
		call := endpoint.From(ctx)
		by := audit.By{ID: who.ID, Label: who.Label, Request: call.ID, IPHash: c.hashIP(source)}
		if err := c.members.RecordRead(postgres.WithOrg(ctx, p.Org.ID), by, p.Org.ID, p.Key.Session, call.Operation(), call.Account); err != nil {
			return endpoint.Identity{}, err
		}
	}
	return who, nil
}
