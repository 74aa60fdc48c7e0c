package apikey

import (
	"context"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey/internal/db"
)

// upsertSessionKey inserts a browser's key, or makes the existing one valid again, with new scopes and expiry.
func upsertSessionKey(ctx context.Context, tx postgres.Tx, org id.Org, h hash, k SessionKey, now time.Time) (first bool, err error) {
	q, until := db.New(tx), k.ExpiresAt
	renewed, err := q.RenewSession(ctx, db.RenewSessionParams{OrgID: org, Hash: h[:], Label: k.Label, Scopes: k.Scopes.Names(), ExpiresAt: &until})
	if err != nil {
		return false, fmt.Errorf("renew key of %s in %s: %w", k.Session, org, err)
	}
	if renewed > 0 {
		return false, nil
	}
	made, err := q.AddSession(ctx, db.AddSessionParams{
		OrgID: org, ID: id.New[id.Key](), Hash: h[:], Label: k.Label, Scopes: k.Scopes.Names(), CreatedAt: now, ExpiresAt: &until,
		SessionID: string(k.Session), PersonID: string(k.Person),
	})
	if err != nil {
		return false, fmt.Errorf("add key of %s in %s: %w", k.Session, org, err)
	}
	return made > 0, nil
}

func scopesOfPerson(ctx context.Context, tx postgres.Tx, org id.Org, person id.Person, scopes scope.Set) error {
	_, err := db.New(tx).ScopesOfPerson(ctx, db.ScopesOfPersonParams{OrgID: org, PersonID: string(person), Scopes: scopes.Names()})
	if err != nil {
		return fmt.Errorf("change scopes of %s in %s: %w", person, org, err)
	}
	return nil
}

func revokeOfPerson(ctx context.Context, tx postgres.Tx, org id.Org, person id.Person, now time.Time) error {
	if _, err := db.New(tx).RevokeOfPerson(ctx, db.RevokeOfPersonParams{OrgID: org, PersonID: string(person), Now: &now}); err != nil {
		return fmt.Errorf("revoke keys of %s in %s: %w", person, org, err)
	}
	return nil
}

func orgsOfSession(ctx context.Context, tx postgres.Tx, session id.BrowserSession) ([]id.Org, error) {
	orgs, err := db.New(tx).OrgsOfSession(ctx, string(session))
	if err != nil {
		return nil, fmt.Errorf("list orgs of %s: %w", session, err)
	}
	return orgs, nil
}

func revokeSession(ctx context.Context, tx postgres.Tx, session id.BrowserSession, now time.Time) error {
	if err := db.New(tx).RevokeSession(ctx, db.RevokeSessionParams{SessionID: string(session), Now: &now}); err != nil {
		return fmt.Errorf("revoke keys of %s: %w", session, err)
	}
	return nil
}

func extendSession(ctx context.Context, q db.DBTX, session id.BrowserSession, until time.Time) error {
	if err := db.New(q).ExtendSession(ctx, db.ExtendSessionParams{SessionID: string(session), ExpiresAt: &until}); err != nil {
		return fmt.Errorf("extend keys of %s: %w", session, err)
	}
	return nil
}

func sessionsIn(ctx context.Context, q db.DBTX, org id.Org, now time.Time) ([]id.BrowserSession, error) {
	rows, err := db.New(q).SessionsIn(ctx, db.SessionsInParams{OrgID: org, Now: &now})
	if err != nil {
		return nil, fmt.Errorf("list browsers in %s: %w", org, err)
	}
	list := make([]id.BrowserSession, len(rows))
	for i, row := range rows {
		list[i] = id.BrowserSession(row)
	}
	return list, nil
}

func trimSessions(ctx context.Context, q db.DBTX, before time.Time) error {
	if _, err := db.New(q).TrimSessions(ctx, &before); err != nil {
		return fmt.Errorf("trim keys of browsers: %w", err)
	}
	return nil
}
