package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/member/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

func addSession(ctx context.Context, tx postgres.Tx, b Session, h hash) error {
	return db.New(tx).AddSession(ctx, db.AddSessionParams{
		ID: b.ID, Hash: h[:], PersonID: b.Person.ID, CurrentOrg: b.Org, SupportOrg: b.Support, SupportReason: b.Reason,
		AccessID: b.Access, SupportOperator: b.Operator, UserAgent: b.UserAgent, CreatedAt: b.CreatedAt, EndsAt: b.endsAt, AuthenticatedAt: &b.authenticatedAt,
	})
}

func sessionByHash(ctx context.Context, q db.DBTX, h hash) (Session, error) {
	row, err := db.New(q).SessionByHash(ctx, h[:])
	return wrapSession(ctx, q, row, err)
}

func holdSession(ctx context.Context, tx postgres.Tx, h hash) (Session, error) {
	row, err := db.New(tx).HoldSession(ctx, h[:])
	return wrapSession(ctx, tx, row, err)
}

func lockSession(ctx context.Context, tx postgres.Tx, h hash) (Session, error) {
	row, err := db.New(tx).LockSession(ctx, h[:])
	return wrapSession(ctx, tx, row, err)
}

// wrapSession converts the result of a query and reads the session's person.
func wrapSession(ctx context.Context, q db.DBTX, row db.BrowserSession, err error) (Session, error) {
	b := fromSessionRow(row)
	if err != nil || row.PersonID == "" {
		return b, err
	}
	who, err := db.New(q).GetPerson(ctx, row.PersonID)
	if err != nil {
		return Session{}, fmt.Errorf("read person of %s: %w", b.ID, err)
	}
	b.Person = Person(who)
	return b, nil
}

func fromSessionRow(row db.BrowserSession) Session {
	return Session{
		ID: row.ID, Person: Person{ID: row.PersonID}, Org: row.CurrentOrg, Support: row.SupportOrg,
		Reason: row.SupportReason, Access: row.AccessID, Operator: row.SupportOperator, UserAgent: row.UserAgent, CreatedAt: row.CreatedAt, LastSeenAt: row.LastSeenAt,
		ExpiresAt: earlier(row.EndsAt, row.LastSeenAt.Add(idleTimeout)), endsAt: row.EndsAt, ended: row.EndedAt != nil,
	}
}

func sessionsByID(ctx context.Context, q db.DBTX, ids []id.BrowserSession) ([]Session, error) {
	rows, err := db.New(q).SessionsByID(ctx, id.Texts(ids))
	if err != nil {
		return nil, err
	}
	var whose []string
	for _, row := range rows {
		whose = append(whose, string(row.PersonID))
	}
	people, err := db.New(q).PeopleByID(ctx, whose)
	if err != nil {
		return nil, err
	}
	byID := map[id.Person]Person{}
	for _, p := range people {
		byID[p.ID] = Person(p)
	}
	return postgres.Convert(rows, func(row db.BrowserSession) Session {
		b := fromSessionRow(row)
		b.Person = byID[row.PersonID]
		return b
	}), nil
}

// endSession returns false if the session had already ended.
func endSession(ctx context.Context, tx postgres.Tx, browser id.BrowserSession, now time.Time) (bool, error) {
	n, err := db.New(tx).EndSession(ctx, db.EndSessionParams{ID: browser, Now: &now})
	return n > 0, err
}

// wrapOffer converts the result of a query; a missing row becomes the problem invitation-not-found.
func wrapOffer(row db.SupportOffer, err error) (Offer, error) {
	if errors.Is(err, postgres.ErrNoRows) {
		return Offer{}, invitationNotFound()
	}
	return Offer{
		Org: org.Org{ID: row.OrgID}, Reason: row.Reason, ExpiresAt: row.ExpiresAt, access: row.AccessID, operator: row.Operator,
	}, err
}

// fromAccessRow converts a row. expired says whether it has expired by the database's clock.
func fromAccessRow(row db.SupportAccess, expired bool) Access {
	state := AccessRequested
	switch {
	case row.EndedAt != nil:
		state = AccessEnded
	case expired:
		state = AccessExpired
	case row.GrantedAt != nil:
		state = AccessGranted
	}
	return Access{
		ID: row.ID, Org: row.OrgID, State: state, OperatorID: row.OperatorID, Operator: row.Operator, Reason: row.Reason,
		RequestedAt: row.RequestedAt, ExpiresAt: row.ExpiresAt, GrantedAt: row.GrantedAt, EndedAt: row.EndedAt,
		GrantedBy: row.GrantedBy, EndedBy: row.EndedBy,
	}
}
