package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/member/internal/db"
)

// membership is an org that a person belongs to.
type membership struct {
	org     id.Org
	role    Role
	visited bool // the person has used the org
}

func personByIdentity(ctx context.Context, tx postgres.Tx, issuer, subject string) (Person, error) {
	row, err := db.New(tx).PersonByIdentity(ctx, db.PersonByIdentityParams{Issuer: issuer, Subject: subject})
	if err != nil {
		return Person{}, fmt.Errorf("read person by identity: %w", err)
	}
	return Person{id.Person(row.ID), row.Email, row.Name}, nil
}

// addPerson inserts a person and their identity. It returns false if the identity already belongs to another person;
// the caller must then roll the transaction back.
func addPerson(ctx context.Context, tx postgres.Tx, p Person, issuer, subject string, now time.Time) (bool, error) {
	q := db.New(tx)
	if err := q.AddPerson(ctx, db.AddPersonParams{ID: string(p.ID), Email: p.Email, Name: p.Name, CreatedAt: now}); err != nil {
		return false, fmt.Errorf("add person: %w", err)
	}
	n, err := q.AddIdentity(ctx, db.AddIdentityParams{Issuer: issuer, Subject: subject, PersonID: string(p.ID), CreatedAt: now})
	if err != nil {
		return false, fmt.Errorf("add identity of %s: %w", p.ID, err)
	}
	return n > 0, nil
}

func updatePerson(ctx context.Context, tx postgres.Tx, p Person) error {
	if err := db.New(tx).UpdatePerson(ctx, db.UpdatePersonParams{ID: string(p.ID), Email: p.Email, Name: p.Name}); err != nil {
		return fmt.Errorf("update %s: %w", p.ID, err)
	}
	return nil
}

func orgsOfPerson(ctx context.Context, q db.DBTX, person id.Person) ([]membership, error) {
	rows, err := db.New(q).OrgsOfPerson(ctx, string(person))
	if err != nil {
		return nil, fmt.Errorf("list orgs of %s: %w", person, err)
	}
	list := make([]membership, len(rows))
	for i, row := range rows {
		list[i] = membership{row.OrgID, Role(row.Role), row.LastSeenAt != nil}
	}
	return list, nil
}

// roleOf reads a person's role under a shared lock: it cannot change before the transaction ends.
func roleOf(ctx context.Context, tx postgres.Tx, org id.Org, person id.Person) (Role, error) {
	role, err := db.New(tx).RoleOf(ctx, db.RoleOfParams{OrgID: org, PersonID: string(person)})
	if errors.Is(err, postgres.ErrNoRows) {
		return "", notMember()
	}
	if err != nil {
		return "", fmt.Errorf("read role of %s in %s: %w", person, org, err)
	}
	return Role(role), nil
}

func listMembers(ctx context.Context, q db.DBTX, org id.Org) ([]Member, error) {
	rows, err := db.New(q).Members(ctx, org)
	if err != nil {
		return nil, fmt.Errorf("list members of %s: %w", org, err)
	}
	list := make([]Member, len(rows))
	for i, row := range rows {
		list[i] = Member{Person{id.Person(row.ID), row.Email, row.Name}, Role(row.Role), row.JoinedAt, row.LastSeenAt}
	}
	return list, nil
}

func getMember(ctx context.Context, q db.DBTX, org id.Org, person id.Person) (Member, error) {
	row, err := db.New(q).GetMember(ctx, db.GetMemberParams{OrgID: org, PersonID: string(person)})
	if errors.Is(err, postgres.ErrNoRows) {
		return Member{}, memberNotFound()
	}
	if err != nil {
		return Member{}, fmt.Errorf("read %s of %s: %w", person, org, err)
	}
	return Member{Person{id.Person(row.ID), row.Email, row.Name}, Role(row.Role), row.JoinedAt, row.LastSeenAt}, nil
}

func lockMember(ctx context.Context, tx postgres.Tx, org id.Org, person id.Person) (Role, error) {
	role, err := db.New(tx).LockMember(ctx, db.LockMemberParams{OrgID: org, PersonID: string(person)})
	if errors.Is(err, postgres.ErrNoRows) {
		return "", memberNotFound()
	}
	if err != nil {
		return "", fmt.Errorf("lock %s of %s: %w", person, org, err)
	}
	return Role(role), nil
}

func hasMember(ctx context.Context, tx postgres.Tx, org id.Org, email string) (bool, error) {
	there, err := db.New(tx).HasMember(ctx, db.HasMemberParams{OrgID: org, Email: email})
	if err != nil {
		return false, fmt.Errorf("check members of %s: %w", org, err)
	}
	return there, nil
}

// teamSize counts members and open invitations.
func teamSize(ctx context.Context, tx postgres.Tx, org id.Org, now time.Time) (int64, error) {
	q := db.New(tx)
	members, err := q.CountMembers(ctx, org)
	if err != nil {
		return 0, fmt.Errorf("count members of %s: %w", org, err)
	}
	invited, err := q.CountInvitations(ctx, db.CountInvitationsParams{OrgID: org, Now: now})
	if err != nil {
		return 0, fmt.Errorf("count invitations of %s: %w", org, err)
	}
	return members + invited, nil
}

func countOwners(ctx context.Context, tx postgres.Tx, org id.Org) (int64, error) {
	n, err := db.New(tx).CountOwners(ctx, org)
	if err != nil {
		return 0, fmt.Errorf("count owners of %s: %w", org, err)
	}
	return n, nil
}

// addMember returns false if the person already is a member.
func addMember(ctx context.Context, tx postgres.Tx, org id.Org, person id.Person, role Role, now time.Time) (bool, error) {
	n, err := db.New(tx).AddMember(ctx, db.AddMemberParams{OrgID: org, PersonID: string(person), Role: string(role), JoinedAt: now})
	if err != nil {
		return false, fmt.Errorf("add %s to %s: %w", person, org, err)
	}
	return n > 0, nil
}

func setRole(ctx context.Context, tx postgres.Tx, org id.Org, person id.Person, role Role) error {
	if err := db.New(tx).SetRole(ctx, db.SetRoleParams{OrgID: org, PersonID: string(person), Role: string(role)}); err != nil {
		return fmt.Errorf("set role of %s in %s: %w", person, org, err)
	}
	return nil
}

func removeMember(ctx context.Context, tx postgres.Tx, org id.Org, person id.Person) error {
	if err := db.New(tx).RemoveMember(ctx, db.RemoveMemberParams{OrgID: org, PersonID: string(person)}); err != nil {
		return fmt.Errorf("remove %s from %s: %w", person, org, err)
	}
	return nil
}

func touchMember(ctx context.Context, q db.DBTX, org id.Org, person id.Person, now time.Time) error {
	if err := db.New(q).SeenIn(ctx, db.SeenInParams{OrgID: org, PersonID: string(person), Now: &now}); err != nil {
		return fmt.Errorf("record when %s was seen: %w", person, err)
	}
	return nil
}

func listInvitations(ctx context.Context, q db.DBTX, org id.Org, now time.Time) ([]Invitation, error) {
	rows, err := db.New(q).Invitations(ctx, db.InvitationsParams{OrgID: org, Now: now})
	if err != nil {
		return nil, fmt.Errorf("list invitations of %s: %w", org, err)
	}
	return fromInvitationRows(rows), nil
}

func fromInvitationRows(rows []db.Invitation) []Invitation {
	list := make([]Invitation, len(rows))
	for i, row := range rows {
		list[i] = fromInvitationRow(row)
	}
	return list
}

func fromInvitationRow(row db.Invitation) Invitation {
	return Invitation{
		ID: id.Invitation(row.ID), Org: row.OrgID, Email: row.Email, Role: Role(row.Role), InvitedBy: row.InvitedByLabel,
		CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt,
	}
}

func addInvitation(ctx context.Context, tx postgres.Tx, i Invitation, by audit.ActorKind, h hash) error {
	err := db.New(tx).AddInvitation(ctx, db.AddInvitationParams{
		OrgID: i.Org, ID: string(i.ID), Hash: h[:], Email: i.Email, Role: string(i.Role), InvitedByKind: string(by), InvitedByLabel: i.InvitedBy,
		CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt,
	})
	if err != nil {
		return fmt.Errorf("add invitation to %s: %w", i.Org, err)
	}
	return nil
}

// wrapInvitation converts the result of a query; a missing row becomes the problem invitation-not-found.
func wrapInvitation(row db.Invitation, err error) (Invitation, error) {
	if errors.Is(err, postgres.ErrNoRows) {
		return Invitation{}, invitationNotFound()
	}
	if err != nil {
		return Invitation{}, fmt.Errorf("read invitation: %w", err)
	}
	return fromInvitationRow(row), nil
}

func lockInvitation(ctx context.Context, tx postgres.Tx, org id.Org, which id.Invitation, now time.Time) (Invitation, error) {
	return wrapInvitation(db.New(tx).LockInvitation(ctx, db.LockInvitationParams{OrgID: org, ID: string(which), Now: now}))
}

func lockInvitationTo(ctx context.Context, tx postgres.Tx, org id.Org, email string) (Invitation, error) {
	row, err := db.New(tx).LockInvitationTo(ctx, db.LockInvitationToParams{OrgID: org, Email: email})
	if err != nil {
		return Invitation{}, fmt.Errorf("read invitation: %w", err)
	}
	return fromInvitationRow(row), nil
}

func dropInvitation(ctx context.Context, tx postgres.Tx, org id.Org, which id.Invitation) error {
	if err := db.New(tx).DropInvitation(ctx, db.DropInvitationParams{OrgID: org, ID: string(which)}); err != nil {
		return fmt.Errorf("drop invitation %s: %w", which, err)
	}
	return nil
}

func invitationByHash(ctx context.Context, q db.DBTX, h hash, now time.Time) (Invitation, error) {
	return wrapInvitation(db.New(q).InvitationByHash(ctx, db.InvitationByHashParams{Hash: h[:], Now: now}))
}

// redeemInvitation deletes the invitation and returns it. Of concurrent callers only one gets it.
func redeemInvitation(ctx context.Context, tx postgres.Tx, h hash, email string, now time.Time) (Invitation, error) {
	return wrapInvitation(db.New(tx).TakeInvitation(ctx, db.TakeInvitationParams{Hash: h[:], Email: email, Now: now}))
}

func isInvited(ctx context.Context, tx postgres.Tx, email string, now time.Time) (bool, error) {
	invited, err := db.New(tx).IsInvited(ctx, db.IsInvitedParams{Email: email, Now: now})
	if err != nil {
		return false, fmt.Errorf("check invitations: %w", err)
	}
	return invited, nil
}

// redeemOperatorInvitations deletes all open invitations by operators to an address and returns them.
func redeemOperatorInvitations(ctx context.Context, tx postgres.Tx, email string, now time.Time) ([]Invitation, error) {
	rows, err := db.New(tx).TakeFromOperators(ctx, db.TakeFromOperatorsParams{Email: email, Now: now})
	if err != nil {
		return nil, fmt.Errorf("redeem invitations by operators: %w", err)
	}
	return fromInvitationRows(rows), nil
}
