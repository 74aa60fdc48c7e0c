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
	return withPerson(ctx, q, row, err)
}

func holdSession(ctx context.Context, tx postgres.Tx, h hash) (Session, error) {
	row, err := db.New(tx).HoldSession(ctx, h[:])
	return withPerson(ctx, tx, row, err)
}

func lockSession(ctx context.Context, tx postgres.Tx, h hash) (Session, error) {
	row, err := db.New(tx).LockSession(ctx, h[:])
	return withPerson(ctx, tx, row, err)
}

func withPerson(ctx context.Context, q db.DBTX, row db.BrowserSession, err error) (Session, error) {
	if err != nil {
		return Session{}, fmt.Errorf("read browser: %w", err)
	}
	b := session(row)
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

func session(row db.BrowserSession) Session {
	return Session{
		ID: id.BrowserSession(row.ID), Person: Person{ID: id.Person(row.PersonID)}, Org: id.Org(row.CurrentOrg), Support: id.Org(row.SupportOrg),
		Reason: row.SupportReason, UserAgent: row.UserAgent, CreatedAt: row.CreatedAt, LastSeenAt: row.LastSeenAt,
		ExpiresAt: earlier(row.EndsAt, row.LastSeenAt.Add(idleFor)), endsAt: row.EndsAt, ended: row.EndedAt != nil,
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
		list[i] = session(row)
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

// seen returns when the browser ends at the latest.
func seen(ctx context.Context, q db.DBTX, browser id.BrowserSession, now time.Time) (time.Time, error) {
	ends, err := db.New(q).Seen(ctx, db.SeenParams{ID: string(browser), Now: now})
	if err != nil {
		return time.Time{}, fmt.Errorf("note that %s was used: %w", browser, err)
	}
	return ends, nil
}

func endSession(ctx context.Context, tx postgres.Tx, browser id.BrowserSession, now time.Time) (bool, error) {
	n, err := db.New(tx).EndSession(ctx, db.EndSessionParams{ID: string(browser), Now: &now})
	if err != nil {
		return false, fmt.Errorf("end %s: %w", browser, err)
	}
	return n > 0, nil
}

func addOffer(ctx context.Context, tx postgres.Tx, owner id.Org, h hash, reason string, until time.Time) error {
	if err := db.New(tx).AddOffer(ctx, db.AddOfferParams{OrgID: owner, Hash: h[:], Reason: reason, ExpiresAt: until}); err != nil {
		return fmt.Errorf("offer support of %s: %w", owner, err)
	}
	return nil
}

func offerByHash(ctx context.Context, q db.DBTX, h hash, now time.Time) (Offer, error) {
	return offer(db.New(q).OfferByHash(ctx, db.OfferByHashParams{Hash: h[:], Now: now}))
}

func takeOffer(ctx context.Context, tx postgres.Tx, h hash, now time.Time) (Offer, error) {
	return offer(db.New(tx).TakeOffer(ctx, db.TakeOfferParams{Hash: h[:], Now: now}))
}

func offer(row db.SupportOffer, err error) (Offer, error) {
	if errors.Is(err, postgres.ErrNoRows) {
		return Offer{}, invitationGone()
	}
	if err != nil {
		return Offer{}, fmt.Errorf("read offer of support: %w", err)
	}
	return Offer{Org: org.Org{ID: row.OrgID}, Reason: row.Reason, ExpiresAt: row.ExpiresAt}, nil
}

// trim forgets browsers that ended before a time, and what could have been used until now.
func trim(ctx context.Context, q db.DBTX, before, now time.Time) error {
	all := db.New(q)
	if err := errors.Join(all.TrimSessions(ctx, before), all.TrimInvitations(ctx, now), all.TrimOffers(ctx, now)); err != nil {
		return fmt.Errorf("trim browsers and invitations: %w", err)
	}
	return nil
}
