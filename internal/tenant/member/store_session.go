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
	err := db.New(tx).AddSession(ctx, db.AddSessionParams{
		ID: string(b.ID), Hash: h[:], PersonID: string(b.Person.ID), CurrentOrg: string(b.Org), SupportOrg: string(b.Support), SupportReason: b.Reason,
		UserAgent: b.UserAgent, CreatedAt: b.CreatedAt, EndsAt: b.endsAt,
	})
	if err != nil {
		return fmt.Errorf("add browser: %w", err)
	}
	return nil
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
	if err != nil {
		return Session{}, fmt.Errorf("read browser: %w", err)
	}
	b := fromSessionRow(row)
	if row.PersonID == "" {
		return b, nil
	}
	who, err := db.New(q).GetPerson(ctx, row.PersonID)
	if err != nil {
		return Session{}, fmt.Errorf("read person of %s: %w", b.ID, err)
	}
	b.Person = Person{id.Person(who.ID), who.Email, who.Name}
	return b, nil
}

func fromSessionRow(row db.BrowserSession) Session {
	return Session{
		ID: id.BrowserSession(row.ID), Person: Person{ID: id.Person(row.PersonID)}, Org: id.Org(row.CurrentOrg), Support: id.Org(row.SupportOrg),
		Reason: row.SupportReason, UserAgent: row.UserAgent, CreatedAt: row.CreatedAt, LastSeenAt: row.LastSeenAt,
		ExpiresAt: earlier(row.EndsAt, row.LastSeenAt.Add(idleTimeout)), endsAt: row.EndsAt, ended: row.EndedAt != nil,
	}
}

func sessionsByID(ctx context.Context, q db.DBTX, ids []id.BrowserSession) ([]Session, error) {
	rows, err := db.New(q).SessionsByID(ctx, id.Texts(ids))
	if err != nil {
		return nil, fmt.Errorf("read browsers: %w", err)
	}
	var whose []string
	for _, row := range rows {
		whose = append(whose, row.PersonID)
	}
	people, err := db.New(q).PeopleByID(ctx, whose)
	if err != nil {
		return nil, fmt.Errorf("read people: %w", err)
	}
	byID := map[string]Person{}
	for _, p := range people {
		byID[p.ID] = Person{id.Person(p.ID), p.Email, p.Name}
	}
	list := make([]Session, len(rows))
	for i, row := range rows {
		list[i] = fromSessionRow(row)
		list[i].Person = byID[row.PersonID]
	}
	return list, nil
}

func setOrg(ctx context.Context, tx postgres.Tx, browser id.BrowserSession, org id.Org) error {
	if err := db.New(tx).SetOrg(ctx, db.SetOrgParams{ID: string(browser), CurrentOrg: string(org)}); err != nil {
		return fmt.Errorf("set org of %s: %w", browser, err)
	}
	return nil
}

// touchSession records that a browser is in use and returns the latest end of its session. It returns ErrNoRows if the
// session has ended or another node has recorded a later use.
func touchSession(ctx context.Context, q db.DBTX, browser id.BrowserSession, now time.Time) (time.Time, error) {
	ends, err := db.New(q).Seen(ctx, db.SeenParams{ID: string(browser), Now: now})
	if err != nil {
		return time.Time{}, fmt.Errorf("record the use of %s: %w", browser, err)
	}
	return ends, nil
}

// endSession returns false if the session had already ended.
func endSession(ctx context.Context, tx postgres.Tx, browser id.BrowserSession, now time.Time) (bool, error) {
	n, err := db.New(tx).EndSession(ctx, db.EndSessionParams{ID: string(browser), Now: &now})
	if err != nil {
		return false, fmt.Errorf("end %s: %w", browser, err)
	}
	return n > 0, nil
}

func addOffer(ctx context.Context, tx postgres.Tx, owner id.Org, h hash, reason string, until time.Time) error {
	if err := db.New(tx).AddOffer(ctx, db.AddOfferParams{OrgID: owner, Hash: h[:], Reason: reason, ExpiresAt: until}); err != nil {
		return fmt.Errorf("add support offer for %s: %w", owner, err)
	}
	return nil
}

func offerByHash(ctx context.Context, q db.DBTX, h hash, now time.Time) (Offer, error) {
	return wrapOffer(db.New(q).OfferByHash(ctx, db.OfferByHashParams{Hash: h[:], Now: now}))
}

// redeemOffer deletes the offer and returns it. Of concurrent callers only one gets it.
func redeemOffer(ctx context.Context, tx postgres.Tx, h hash, now time.Time) (Offer, error) {
	return wrapOffer(db.New(tx).TakeOffer(ctx, db.TakeOfferParams{Hash: h[:], Now: now}))
}

func wrapOffer(row db.SupportOffer, err error) (Offer, error) {
	if errors.Is(err, postgres.ErrNoRows) {
		return Offer{}, invitationNotFound()
	}
	if err != nil {
		return Offer{}, fmt.Errorf("read support offer: %w", err)
	}
	return Offer{Org: org.Org{ID: row.OrgID}, Reason: row.Reason, ExpiresAt: row.ExpiresAt}, nil
}

// deleteExpired deletes sessions whose latest end is before a time, and invitations and offers that have expired.
func deleteExpired(ctx context.Context, q db.DBTX, before, now time.Time) error {
	all := db.New(q)
	if err := errors.Join(all.TrimSessions(ctx, before), all.TrimInvitations(ctx, now), all.TrimOffers(ctx, now)); err != nil {
		return fmt.Errorf("trim browsers and invitations: %w", err)
	}
	return nil
}
