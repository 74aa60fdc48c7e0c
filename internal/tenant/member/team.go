package member

import (
	"context"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/member/internal/db"
)

const (
	invitationTTL = 7 * 24 * time.Hour
	// maxTeam bounds the sum of members and open invitations of an org.
	maxTeam = 500
)

// List reads the members of an org and its open invitations, both oldest first.
func (s *Members) List(ctx context.Context, owner id.Org) ([]Member, []Invitation, error) {
	members, err := db.New(s.deps.DB).Members(ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	invited, err := db.New(s.deps.DB).Invitations(ctx, db.InvitationsParams{OrgID: owner, Now: s.deps.Now()})
	return postgres.Convert(members, fromMemberRow), postgres.Convert(invited, fromInvitationRow), err
}

// Get reads one member. It returns the problem member-not-found if the org has no such member.
func (s *Members) Get(ctx context.Context, owner id.Org, person id.Person) (Member, error) {
	return getMember(ctx, s.deps.DB, owner, person)
}

// Invitee is who is invited, and with which role. Locale is the language of the mail; empty for English.
type Invitee struct{ Email, Role, Locale string }

// InvitationURL returns the link of an invitation.
func (s *Members) InvitationURL(token secret.String) string {
	return s.deps.PublicURL + "/app/invitation/" + token.Reveal()
}

// Invite creates an invitation, mails its link, and returns it with the token of the link, which is not stored. It
// replaces an earlier invitation to the same address.
func (s *Members) Invite(ctx context.Context, by audit.By, owner id.Org, caller Caller, invitee Invitee) (Invitation, secret.String, error) {
	wanted, err := ParseRole(invitee.Role)
	if err != nil {
		return Invitation{}, secret.String{}, err
	}
	email, ok := CleanEmail(invitee.Email)
	if !ok {
		return Invitation{}, secret.String{}, problem.ValidationFailed.New("The invitation has values that are not allowed.").
			At("/email", "format", "must be an email address, such as ada@example.com")
	}
	token := newToken()
	now := s.deps.Now().Truncate(time.Microsecond)
	made := Invitation{
		ID: id.New[id.Invitation](), Org: owner, Email: email, Role: wanted, InvitedBy: by.Label, CreatedAt: now, ExpiresAt: now.Add(invitationTTL),
	}
	letter, err := s.composeInvitation(ctx, made, invitee.Locale, token)
	if err != nil {
		return Invitation{}, secret.String{}, err
	}
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		a, err := s.lockTeam(ctx, tx, owner, caller)
		if err == nil {
			err = a.checkMayGive(wanted)
		}
		if err == nil && caller.Operator {
			err = s.checkOperator(ctx, tx, by, owner, caller, email)
		}
		if err != nil {
			return err
		}
		a.reinvite = caller.Operator && caller.Again
		if err := s.makeRoom(ctx, tx, a, made); err != nil {
			return err
		}
		if err := addInvitation(ctx, tx, made, by.Kind, hashToken(token)); err != nil {
			return err
		}
		if made.Mail, err = s.deps.Mail.Add(ctx, tx, letter); err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(made.ID), audit.Changes{
			"email": {To: email}, "role": {To: wanted}, "mail": made.Mail.Change(),
		})
	})
	if err != nil {
		return Invitation{}, secret.String{}, err
	}
	return made, token, nil
}

// composeInvitation writes the mail with the link of an invitation.
func (s *Members) composeInvitation(ctx context.Context, made Invitation, locale string, token secret.String) (mail.Draft, error) {
	o, err := s.deps.Orgs.Get(ctx, made.Org)
	if err != nil {
		return mail.Draft{}, err
	}
	return s.deps.Mail.Compose(ctx, made.Org, mail.Message{
		Kind: mail.Invitation, To: made.Email, Locale: locale, About: string(made.Role), ExpiresAt: made.ExpiresAt,
		Link: s.InvitationURL(token), Org: o.Name, By: made.InvitedBy, Role: string(made.Role),
	})
}

// checkOperator checks that an operator may invite: with the consent of an owner, if there is one, or the address of an
// existing member again, who may be the only owner and cannot sign in.
func (s *Members) checkOperator(ctx context.Context, tx postgres.Tx, by audit.By, owner id.Org, caller Caller, email string) error {
	if caller.Again {
		there, err := db.New(tx).HasMember(ctx, db.HasMemberParams{OrgID: owner, Email: email})
		if err != nil || there {
			return err
		}
	}
	return s.RequireConsent(ctx, tx, by, owner)
}

// makeRoom checks that an invitation can be created, and deletes the one that it replaces.
func (s *Members) makeRoom(ctx context.Context, tx postgres.Tx, a actor, made Invitation) error {
	switch there, err := db.New(tx).HasMember(ctx, db.HasMemberParams{OrgID: made.Org, Email: made.Email}); {
	case err != nil:
		return err
	case there && !a.reinvite:
		return problem.AlreadyMember.New("A member with this address already exists.")
	}
	old, err := db.New(tx).LockInvitationTo(ctx, db.LockInvitationToParams{OrgID: made.Org, Email: made.Email})
	switch {
	case errors.Is(err, postgres.ErrNoRows):
	case err != nil:
		return err
	default:
		if err := a.checkMayGive(Role(old.Role)); err != nil {
			return err // an admin cannot take back what an owner has offered
		}
		if err := db.New(tx).DropInvitation(ctx, db.DropInvitationParams{OrgID: made.Org, ID: old.ID}); err != nil {
			return err
		}
	}
	size, err := teamSize(ctx, tx, made.Org, s.deps.Now())
	if err != nil {
		return err
	}
	if size >= maxTeam {
		return problem.PlanRequired.Newf("The team has %d members and invitations, which is the maximum.", size).
			With("feature", "maxMembers")
	}
	return nil
}

// Withdraw deletes an open invitation.
func (s *Members) Withdraw(ctx context.Context, by audit.By, owner id.Org, caller Caller, invitation string) error {
	which, err := id.Parse[id.Invitation](invitation)
	if err != nil {
		return invitationNotFound()
	}
	return s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		a, err := s.lockTeam(ctx, tx, owner, caller)
		if err != nil {
			return err
		}
		q := db.New(tx)
		old, err := wrapInvitation(q.LockInvitation(ctx, db.LockInvitationParams{OrgID: owner, ID: which, Now: s.deps.Now()}))
		if err != nil {
			return err
		}
		if err := a.checkMayGive(old.Role); err != nil {
			return err
		}
		if err := q.DropInvitation(ctx, db.DropInvitationParams{OrgID: owner, ID: which}); err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(which), audit.Changes{"email": {From: old.Email}, "role": {From: old.Role}})
	})
}

// SetRole changes a member's role. Every node applies it to calls that start after SetRole has returned.
func (s *Members) SetRole(ctx context.Context, by audit.By, owner id.Org, caller Caller, person, role string) (Member, error) {
	wanted, err := ParseRole(role)
	if err != nil {
		return Member{}, err
	}
	err = s.changeMember(ctx, owner, caller, person, wanted, func(tx postgres.Tx, who id.Person, old Role) error {
		err := db.New(tx).SetRole(ctx, db.SetRoleParams{OrgID: owner, PersonID: who, Role: string(wanted)})
		if err != nil {
			return err
		}
		if err := s.deps.Keys.ChangeScopes(ctx, tx, owner, who, wanted.Scopes()); err != nil {
			return err
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(who), audit.Changes{"role": {From: old, To: wanted}})
	})
	if err != nil {
		return Member{}, err
	}
	return s.Get(ctx, owner, id.Person(person))
}

// Remove removes a member from an org. Every node rejects calls by the member's browsers in that org that start after
// Remove has returned. Keys that the member has minted stay valid, because they belong to the org; Remove returns them, so
// that they can be revoked with RevokeKeys.
func (s *Members) Remove(ctx context.Context, by audit.By, owner id.Org, caller Caller, person string) ([]apikey.Key, error) {
	var minted []apikey.Key
	err := s.changeMember(ctx, owner, caller, person, "", func(tx postgres.Tx, who id.Person, old Role) error {
		before, err := getMember(ctx, tx, owner, who)
		if err != nil {
			return err
		}
		if err := db.New(tx).RemoveMember(ctx, db.RemoveMemberParams{OrgID: owner, PersonID: who}); err != nil {
			return err
		}
		if err := s.deps.Keys.RevokePerson(ctx, tx, owner, who); err != nil {
			return err
		}
		if minted, err = s.deps.Keys.MintedBy(ctx, tx, owner, who); err != nil {
			return err
		}
		changes := audit.Changes{"role": {From: old}, "email": {From: before.Email}}
		if len(minted) > 0 {
			changes["keysLeft"] = audit.Change{To: postgres.Convert(minted, func(k apikey.Key) id.Key { return k.ID })}
		}
		return s.deps.Audit.Record(ctx, tx, owner, by, string(who), changes)
	})
	return minted, err
}

// RevokeKeys revokes all valid keys that a person has minted in an org, directly or through other keys, and returns them.
// The person may have left. except is the calling key, which cannot revoke itself; empty for a browser.
func (s *Members) RevokeKeys(ctx context.Context, by audit.By, owner id.Org, person string, except id.Key) ([]apikey.Key, error) {
	who, err := id.Parse[id.Person](person)
	if err != nil {
		return nil, memberNotFound()
	}
	var (
		revoked   []apikey.Key
		committed func(context.Context)
	)
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		committed = nil // the transaction may be repeated
		if _, err := s.deps.Orgs.Lock(ctx, tx, owner); err != nil {
			return err
		}
		var err error
		if revoked, err = s.deps.Keys.RevokeMinted(ctx, tx, by, owner, who, except); err != nil {
			return err
		}
		if len(revoked) == 0 {
			if _, err := getMember(ctx, tx, owner, who); err != nil {
				return err
			}
		} else if committed, err = s.deps.Orgs.AdvanceEpoch(ctx, tx, owner); err != nil {
			return err
		}
		ids := postgres.Convert(revoked, func(k apikey.Key) id.Key { return k.ID })
		return s.deps.Audit.Record(ctx, tx, owner, by, string(who), audit.Changes{"keys": {From: ids}})
	})
	if err == nil && committed != nil {
		committed(ctx)
	}
	return revoked, err
}

// changeMember locks the team and the member, checks that the caller may give the member the role to (empty for a
// removal), advances the epoch and runs do with the member's old role, all in one transaction. If the member already
// has the role, it does nothing.
func (s *Members) changeMember(ctx context.Context, owner id.Org, caller Caller, person string, to Role, do func(postgres.Tx, id.Person, Role) error) error {
	who, err := id.Parse[id.Person](person)
	if err != nil {
		return memberNotFound()
	}
	var committed func(context.Context)
	err = s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		committed = nil // the transaction may be repeated
		a, err := s.lockTeam(ctx, tx, owner, caller)
		if err != nil {
			return err
		}
		old, err := lockMember(ctx, tx, owner, who)
		if err == nil {
			err = a.checkMayChange(old, to)
		}
		if err != nil || old == to {
			return err
		}
		if old == Owner {
			if err := s.requireOtherOwner(ctx, tx, owner); err != nil {
				return err
			}
		}
		if committed, err = s.deps.Orgs.AdvanceEpoch(ctx, tx, owner); err != nil {
			return err
		}
		return do(tx, who, old)
	})
	if err != nil {
		return err
	}
	if committed != nil {
		committed(ctx)
	}
	return nil
}

// checkMayChange returns nil if the actor may change a member's role; to is empty for a removal.
func (a actor) checkMayChange(from, to Role) error {
	if err := a.checkMayGive(from); err != nil || to == "" {
		return err
	}
	return a.checkMayGive(to)
}

// requireOtherOwner returns the problem last-owner if the org has only one owner.
func (s *Members) requireOtherOwner(ctx context.Context, tx postgres.Tx, owner id.Org) error {
	owners, err := db.New(tx).CountOwners(ctx, owner)
	if err == nil && owners < 2 {
		err = problem.LastOwner.New("The organisation would have no owner left.")
	}
	return err
}

// lockTeam serialises changes to a team, by the lock on the org's row, and loads the caller's role.
func (s *Members) lockTeam(ctx context.Context, tx postgres.Tx, owner id.Org, caller Caller) (actor, error) {
	if _, err := s.deps.Orgs.Lock(ctx, tx, owner); err != nil {
		return actor{}, err
	}
	a := actor{scopes: caller.Scopes, limited: caller.Limited}
	switch {
	case caller.Operator:
		a.role, a.scopes = Owner, Owner.Scopes()
	case caller.Person != "":
		role, err := roleOf(ctx, tx, owner, caller.Person)
		if err != nil {
			return actor{}, err
		}
		// Use the current role, not the scopes of the request: the role may have been reduced since.
		a.role, a.scopes = role, role.Scopes()
	}
	return a, nil
}

// RequireOwner returns the problem role-required unless the caller is a person who is an owner. The role cannot change
// before the transaction ends.
func (s *Members) RequireOwner(ctx context.Context, tx postgres.Tx, owner id.Org, person id.Person) error {
	role := Role("")
	if person != "" {
		var err error
		if role, err = roleOf(ctx, tx, owner, person); err != nil {
			return err
		}
	}
	if role != Owner {
		return problem.RoleRequired.New("Only an owner who is signed in to the dashboard can do this.").
			With("requiredRole", string(Owner))
	}
	return nil
}

// Disband deletes the team of an org that is destroyed: memberships, and people who belong to no other org, with their
// browsers. Browsers of others no longer show the org. Call it when no browser can open the org any more.
func (s *Members) Disband(ctx context.Context, owner id.Org) error {
	q := db.New(s.deps.DB)
	members, err := q.Members(ctx, owner)
	if err != nil {
		return err
	}
	for _, m := range members {
		err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error { return disbandMember(ctx, db.New(tx), owner, m.ID) })
		if err != nil {
			return err
		}
	}
	if err := q.LeaveOrg(ctx, owner); err != nil {
		return err
	}
	return q.DropSupport(ctx, owner)
}

// disbandMember removes a member. The lock on the person makes a concurrent join of another org wait: either it is seen
// here, or it finds no person.
func disbandMember(ctx context.Context, q *db.Queries, owner id.Org, person id.Person) error {
	if _, err := q.LockPerson(ctx, person); err != nil {
		if errors.Is(err, postgres.ErrNoRows) {
			return nil // another node was quicker
		}
		return err
	}
	if err := q.RemoveMember(ctx, db.RemoveMemberParams{OrgID: owner, PersonID: person}); err != nil {
		return err
	}
	others, err := q.OrgsOfPerson(ctx, person)
	if err != nil || len(others) > 0 {
		return err
	}
	if err := q.DropSessions(ctx, person); err != nil {
		return err
	}
	if err := q.DropIdentities(ctx, person); err != nil {
		return err
	}
	return q.DropPerson(ctx, person)
}

// Offered reads the invitation of a link, for its page, without accepting it.
func (s *Members) Offered(ctx context.Context, token secret.String) (Invitation, error) {
	return invitationByHash(ctx, s.deps.DB, hashToken(token), s.deps.Now())
}

// ErrOtherEmail means that an invitation is for another address than that of the signed-in person.
var ErrOtherEmail = errors.New("the invitation is for another address")

// Join accepts an invitation for the person who is signed in with the cookie, and makes the browser show the org. The
// invitation must be for that person's address and can be used once, also by concurrent requests.
func (s *Members) Join(ctx context.Context, by audit.By, cookie, token secret.String) (id.Org, error) {
	var joined id.Org
	err := s.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		b, err := s.lockBrowser(ctx, tx, cookie)
		if err != nil {
			return err
		}
		if b.Person.ID == "" {
			return ErrOtherEmail // an operator's browser has no person
		}
		offered, err := invitationByHash(ctx, tx, hashToken(token), s.deps.Now())
		if err == nil && offered.Email != b.Person.Email {
			err = ErrOtherEmail
		}
		if err != nil {
			return err
		}
		if offered, err = redeemInvitation(ctx, tx, hashToken(token), b.Person.Email, s.deps.Now()); err != nil {
			return err
		}
		joined = offered.Org
		by.Kind, by.ID, by.Label = audit.ActorMember, string(b.Person.ID), b.Person.Email
		if err := s.addInvited(ctx, tx, by, b.Person, offered); err != nil {
			return err
		}
		if err := db.New(tx).SetOrg(ctx, db.SetOrgParams{ID: b.ID, CurrentOrg: joined}); err != nil {
			return err
		}
		return s.grantKey(ctx, tx, by, cookie, b, joined)
	})
	return joined, err
}

// addInvited makes a person a member by an accepted invitation. An existing member keeps their role.
func (s *Members) addInvited(ctx context.Context, tx postgres.Tx, by audit.By, who Person, offered Invitation) error {
	made, err := addMember(ctx, tx, offered.Org, who.ID, offered.Role, s.deps.Now())
	if err != nil || !made {
		return err
	}
	by.Action = "member.join"
	return s.deps.Audit.Record(ctx, tx, offered.Org, by, string(who.ID), audit.Changes{
		"email": {To: who.Email}, "role": {To: offered.Role}, "invitation": {To: offered.ID}, "invitedBy": {To: offered.InvitedBy},
	})
}

func memberNotFound() error {
	return problem.MemberNotFound.New("The organisation has no member with this id.")
}

func invitationNotFound() error {
	return problem.InvitationGone.New("The organisation has no invitation with this id.")
}
