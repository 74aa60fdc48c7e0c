package member

import (
	"context"
	"errors"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

const (
	// invitedFor is how long an invitation can be taken up.
	invitedFor = 7 * 24 * time.Hour
	// maxTeam bounds members and invitations of an org.
	maxTeam = 500
)

// List reads the members of an org, in the order in which they joined, and the invitations that are open.
func (s *Members) List(ctx context.Context, owner id.Org) ([]Member, []Invitation, error) {
	members, err := listMembers(ctx, s.DB.Pool(), owner)
	if err != nil {
		return nil, nil, err
	}
	invited, err := listInvitations(ctx, s.DB.Pool(), owner, s.Now())
	return members, invited, err
}

// Get reads one member.
func (s *Members) Get(ctx context.Context, owner id.Org, person id.Person) (Member, error) {
	return getMember(ctx, s.DB.Pool(), owner, person)
}

// Invite makes an invitation. The token is in the link and is given out this once. An earlier one to the same address is replaced.
func (s *Members) Invite(ctx context.Context, by audit.By, owner id.Org, caller Caller, email, role string) (Invitation, secret.String, error) {
	wanted, err := ParseRole(role)
	if err != nil {
		return Invitation{}, secret.String{}, err
	}
	email, ok := CleanEmail(email)
	if !ok {
		return Invitation{}, secret.String{}, problem.ValidationFailed.New("The invitation has values that are not allowed.").
			At("/email", "format", "must be an email address, such as ada@example.com")
	}
	token := newToken()
	now := s.Now().Truncate(time.Microsecond)
	made := Invitation{
		ID: id.New[id.Invitation](), Org: owner, Email: email, Role: wanted, InvitedBy: by.Label, CreatedAt: now, ExpiresAt: now.Add(invitedFor),
	}
	err = s.DB.Tx(ctx, func(tx postgres.Tx) error {
		a, err := s.begin(ctx, tx, owner, caller)
		if err == nil {
			err = a.mayGive(wanted)
		}
		if err != nil {
			return err
		}
		a.again = caller.Operator && caller.Again
		if err := s.roomFor(ctx, tx, a, made); err != nil {
			return err
		}
		if err := addInvitation(ctx, tx, made, by.Kind, hashOf(token)); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, owner, by, string(made.ID), audit.Changes{"email": {To: email}, "role": {To: wanted}})
	})
	if err != nil {
		return Invitation{}, secret.String{}, err
	}
	return made, token, nil
}

// roomFor makes sure that an invitation can be made, and drops the one that it replaces.
func (s *Members) roomFor(ctx context.Context, tx postgres.Tx, a actor, made Invitation) error {
	switch there, err := hasMember(ctx, tx, made.Org, made.Email); {
	case err != nil:
		return err
	case there && !a.again:
		return problem.AlreadyMember.New("Somebody with this address is a member already.")
	}
	old, err := lockInvitationTo(ctx, tx, made.Org, made.Email)
	switch {
	case errors.Is(err, postgres.ErrNoRows):
	case err != nil:
		return err
	default:
		if err := a.mayGive(old.Role); err != nil {
			return err // what an owner has offered is not an admin's to take back
		}
		if err := dropInvitation(ctx, tx, made.Org, old.ID); err != nil {
			return err
		}
	}
	size, err := teamSize(ctx, tx, made.Org, s.Now())
	if err != nil {
		return err
	}
	if size >= maxTeam {
		return problem.PlanRequired.Newf("The team has %d members and invitations, as many as it can.", size).With("feature", "maxMembers")
	}
	return nil
}

// Withdraw ends an invitation.
func (s *Members) Withdraw(ctx context.Context, by audit.By, owner id.Org, caller Caller, invitation string) error {
	which, err := id.Parse[id.Invitation](invitation)
	if err != nil {
		return invitationGone()
	}
	return s.DB.Tx(ctx, func(tx postgres.Tx) error {
		a, err := s.begin(ctx, tx, owner, caller)
		if err != nil {
			return err
		}
		old, err := lockInvitation(ctx, tx, owner, which, s.Now())
		if err != nil {
			return err
		}
		if err := a.mayGive(old.Role); err != nil {
			return err
		}
		if err := dropInvitation(ctx, tx, owner, which); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, owner, by, string(which), audit.Changes{"email": {From: old.Email}, "role": {From: old.Role}})
	})
}

// SetRole gives a member another role. When it returns, calls that start later are judged by it, on every node.
func (s *Members) SetRole(ctx context.Context, by audit.By, owner id.Org, caller Caller, person, role string) (Member, error) {
	wanted, err := ParseRole(role)
	if err != nil {
		return Member{}, err
	}
	err = s.change(ctx, owner, caller, person, wanted, func(tx postgres.Tx, who id.Person, old Role) error {
		if err := setRole(ctx, tx, owner, who, wanted); err != nil {
			return err
		}
		if err := s.Keys.ChangeScopes(ctx, tx, owner, who, wanted.Scopes()); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, owner, by, string(who), audit.Changes{"role": {From: old, To: wanted}})
	})
	if err != nil {
		return Member{}, err
	}
	return s.Get(ctx, owner, id.Person(person))
}

// Remove takes a member out of an org. When it returns, no call that starts later succeeds with a browser of theirs there, on any node.
// Keys that they have made stay: those are the org's.
func (s *Members) Remove(ctx context.Context, by audit.By, owner id.Org, caller Caller, person string) error {
	return s.change(ctx, owner, caller, person, "", func(tx postgres.Tx, who id.Person, old Role) error {
		before, err := getMember(ctx, tx, owner, who)
		if err != nil {
			return err
		}
		if err := removeMember(ctx, tx, owner, who); err != nil {
			return err
		}
		if err := s.Keys.RevokePerson(ctx, tx, owner, who); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, owner, by, string(who), audit.Changes{"role": {From: old}, "email": {From: before.Email}})
	})
}

// change does something to a member if the caller may; to is the role that the member will have, empty for none.
func (s *Members) change(ctx context.Context, owner id.Org, caller Caller, person string, to Role, do func(postgres.Tx, id.Person, Role) error) error {
	who, err := id.Parse[id.Person](person)
	if err != nil {
		return memberNotFound()
	}
	var committed func(context.Context)
	err = s.DB.Tx(ctx, func(tx postgres.Tx) error {
		committed = nil
		a, err := s.begin(ctx, tx, owner, caller)
		if err != nil {
			return err
		}
		old, err := lockMember(ctx, tx, owner, who)
		if err == nil {
			err = a.mayChange(old, to)
		}
		if err != nil || old == to {
			return err
		}
		if old == Owner {
			if err := s.otherOwner(ctx, tx, owner); err != nil {
				return err
			}
		}
		if committed, err = s.Orgs.AdvanceEpoch(ctx, tx, owner); err != nil {
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

// mayChange says whether somebody may turn one role into another; to is empty for a member who is to go.
func (a actor) mayChange(from, to Role) error {
	if err := a.mayGive(from); err != nil || to == "" {
		return err
	}
	return a.mayGive(to)
}

// otherOwner refuses to let the only owner go.
func (s *Members) otherOwner(ctx context.Context, tx postgres.Tx, owner id.Org) error {
	owners, err := countOwners(ctx, tx, owner)
	if err == nil && owners < 2 {
		err = problem.LastOwner.New("The organisation would have no owner left.")
	}
	return err
}

// begin starts a change of a team: one at a time, by somebody whose role is known.
func (s *Members) begin(ctx context.Context, tx postgres.Tx, owner id.Org, caller Caller) (actor, error) {
	if _, err := s.Orgs.Lock(ctx, tx, owner); err != nil {
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
		// The role as it is now, which may be less than what the request was let in with.
		a.role, a.scopes = role, role.Scopes()
	}
	return a, nil
}

// Offered reads the invitation of a link, for its page. Reading it uses nothing up.
func (s *Members) Offered(ctx context.Context, token secret.String) (Invitation, error) {
	return invitationByHash(ctx, s.DB.Pool(), hashOf(token), s.Now())
}

// ErrOtherEmail means that an invitation is for somebody else.
var ErrOtherEmail = errors.New("the invitation is for another address")

// Join takes up an invitation. It must be for the address of whoever is signed in, and can be used once.
func (s *Members) Join(ctx context.Context, by audit.By, cookie, token secret.String) (id.Org, error) {
	var joined id.Org
	err := s.DB.Tx(ctx, func(tx postgres.Tx) error {
		b, err := s.lock(ctx, tx, cookie)
		if err != nil {
			return err
		}
		if b.Person.ID == "" {
			return ErrOtherEmail // an operator's browser is nobody's
		}
		offered, err := invitationByHash(ctx, tx, hashOf(token), s.Now())
		if err == nil && offered.Email != b.Person.Email {
			err = ErrOtherEmail
		}
		if err != nil {
			return err
		}
		if offered, err = takeInvitation(ctx, tx, hashOf(token), b.Person.Email, s.Now()); err != nil {
			return err
		}
		joined = offered.Org
		by.Kind, by.ID, by.Label = audit.ActorMember, string(b.Person.ID), b.Person.Email
		if err := s.join(ctx, tx, by, b.Person, offered); err != nil {
			return err
		}
		if err := setOrg(ctx, tx, b.ID, joined); err != nil {
			return err
		}
		return s.enter(ctx, tx, by, cookie, b, joined)
	})
	return joined, err
}

// join makes somebody a member by an invitation that was taken up. Who is one already stays what they are.
func (s *Members) join(ctx context.Context, tx postgres.Tx, by audit.By, who Person, offered Invitation) error {
	made, err := addMember(ctx, tx, offered.Org, who.ID, offered.Role, s.Now())
	if err != nil || !made {
		return err
	}
	by.Action = "member.join"
	return s.Audit.Record(ctx, tx, offered.Org, by, string(who.ID), audit.Changes{
		"email": {To: who.Email}, "role": {To: offered.Role}, "invitation": {To: offered.ID}, "invitedBy": {To: offered.InvitedBy},
	})
}

func memberNotFound() error {
	return problem.MemberNotFound.New("The organisation has no member with this id.")
}

func invitationGone() error {
	return problem.InvitationGone.New("The organisation has no invitation with this id.")
}
