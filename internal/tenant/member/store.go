package member

import (
	"context"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member/internal/db"
)

// addPerson inserts a person and their identity. It returns false if the identity already belongs to another person;
// the caller must then roll the transaction back.
func addPerson(ctx context.Context, tx postgres.Tx, p Person, issuer, subject string, now time.Time) (bool, error) {
	q := db.New(tx)
	if err := q.AddPerson(ctx, db.AddPersonParams{ID: p.ID, Email: p.Email, Name: p.Name, CreatedAt: now}); err != nil {
		return false, err
	}
	n, err := q.AddIdentity(ctx, db.AddIdentityParams{Issuer: issuer, Subject: subject, PersonID: p.ID, CreatedAt: now})
	return n > 0, err
}

// roleOf reads a person's role under a shared lock: it cannot change before the transaction ends.
func roleOf(ctx context.Context, tx postgres.Tx, org id.Org, person id.Person) (Role, error) {
	role, err := db.New(tx).RoleOf(ctx, db.RoleOfParams{OrgID: org, PersonID: person})
	if errors.Is(err, postgres.ErrNoRows) {
		return "", notMember()
	}
	return Role(role), err
}

func getMember(ctx context.Context, q db.DBTX, org id.Org, person id.Person) (Member, error) {
	row, err := db.New(q).GetMember(ctx, db.GetMemberParams{OrgID: org, PersonID: person})
	if errors.Is(err, postgres.ErrNoRows) {
		return Member{}, memberNotFound()
	}
	return fromMemberRow(db.MembersRow(row)), err
}

func fromMemberRow(row db.MembersRow) Member {
	return Member{Person{row.ID, row.Email, row.Name}, Role(row.Role), row.JoinedAt, row.LastSeenAt}
}

func lockMember(ctx context.Context, tx postgres.Tx, org id.Org, person id.Person) (Role, error) {
	role, err := db.New(tx).LockMember(ctx, db.LockMemberParams{OrgID: org, PersonID: person})
	if errors.Is(err, postgres.ErrNoRows) {
		return "", memberNotFound()
	}
	return Role(role), err
}

// teamSize counts members and open invitations.
func teamSize(ctx context.Context, tx postgres.Tx, org id.Org, now time.Time) (int64, error) {
	q := db.New(tx)
	members, err := q.CountMembers(ctx, org)
	if err != nil {
		return 0, err
	}
	invited, err := q.CountInvitations(ctx, db.CountInvitationsParams{OrgID: org, Now: now})
	return members + invited, err
}

// addMember returns false if the person already is a member.
func addMember(ctx context.Context, tx postgres.Tx, org id.Org, person id.Person, role Role, now time.Time) (bool, error) {
	n, err := db.New(tx).AddMember(ctx, db.AddMemberParams{OrgID: org, PersonID: person, Role: string(role), JoinedAt: now})
	return n > 0, err
}

func fromInvitationRow(row db.Invitation) Invitation {
	return Invitation{
		ID: row.ID, Org: row.OrgID, Email: row.Email, Role: Role(row.Role), InvitedBy: row.InvitedByLabel,
		CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt,
	}
}

func addInvitation(ctx context.Context, tx postgres.Tx, i Invitation, by audit.ActorKind, h hash) error {
	return db.New(tx).AddInvitation(ctx, db.AddInvitationParams{
		OrgID: i.Org, ID: i.ID, Hash: h[:], Email: i.Email, Role: string(i.Role), InvitedByKind: string(by),
		InvitedByLabel: i.InvitedBy, CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt,
	})
}

// wrapInvitation converts the result of a query; a missing row becomes the problem invitation-not-found.
func wrapInvitation(row db.Invitation, err error) (Invitation, error) {
	if errors.Is(err, postgres.ErrNoRows) {
		return Invitation{}, invitationNotFound()
	}
	return fromInvitationRow(row), err
}

func invitationByHash(ctx context.Context, q db.DBTX, h hash, now time.Time) (Invitation, error) {
	return wrapInvitation(db.New(q).InvitationByHash(ctx, db.InvitationByHashParams{Hash: h[:], Now: now}))
}

// redeemInvitation deletes the invitation and returns it. Of concurrent callers only one gets it.
func redeemInvitation(ctx context.Context, tx postgres.Tx, h hash, email string, now time.Time) (Invitation, error) {
	return wrapInvitation(db.New(tx).TakeInvitation(ctx, db.TakeInvitationParams{Hash: h[:], Email: email, Now: now}))
}
