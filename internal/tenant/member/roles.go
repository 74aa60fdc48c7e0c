package member

import (
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
)

// Role decides what a member may do in an org.
type Role string

// The roles, most powerful first.
const (
	Owner     Role = "owner"
	Admin     Role = "admin"
	Developer Role = "developer"
	Support   Role = "support"
)

// roleScopes maps each role to its scopes. Owners have the scopes of admins; checkMayGive makes the difference.
var roleScopes = map[Role]scope.Set{
	Owner:     scope.Everyday(),
	Admin:     scope.Everyday(),
	Developer: scope.Everyday().Without(scope.Of(scope.MeWrite)),
	Support:   scope.Of(scope.AccountsRead, scope.WebhooksRead, scope.MeRead, scope.UsageRead),
}

// Roles returns the roles, most powerful first.
func Roles() []Role { return []Role{Owner, Admin, Developer, Support} }

// Scopes returns the role's scopes, none for an unknown role.
func (r Role) Scopes() scope.Set { return roleScopes[r] }

// ParseRole returns the role with this name, or the problem validation-failed.
func ParseRole(text string) (Role, error) {
	if _, ok := roleScopes[Role(text)]; ok {
		return Role(text), nil
	}
	names := make([]string, len(Roles()))
	for i, r := range Roles() {
		names[i] = string(r)
	}
	return "", problem.ValidationFailed.New("There is no such role.").At("/role", "enum", "must be one of "+strings.Join(names, ", "))
}

// Caller identifies who changes a team: a person, whose current role is read in the transaction of the change, a key,
// or an operator.
type Caller struct {
	Person id.Person
	Scopes scope.Set
	// Limited is true for a key that is limited to certain accounts, methods or networks.
	Limited bool
	// Operator gives the rights of an owner. With Again, an operator can also invite the address of an existing member,
	// because the identity provider now reports that person under another identity.
	Operator, Again bool
}

// actor is a Caller with its current role, as lockTeam has read it.
type actor struct {
	role     Role // empty for a key
	scopes   scope.Set
	limited  bool
	reinvite bool // may invite the address of an existing member
}

// checkMayGive returns nil if the actor may give others this role, and therefore also change or remove members who have
// it. A caller cannot give more scopes than it has, and only owners can create owners.
func (a actor) checkMayGive(role Role) error {
	if role == Owner && a.role != Owner {
		return problem.RoleRequired.New("Only owners can make, change or remove owners.").With("requiredRole", string(Owner))
	}
	if a.limited {
		return problem.ScopeEscalation.New(
			"The calling key is limited to certain accounts, methods or networks. Such a key cannot add or change members.")
	}
	if lacking := role.Scopes().Without(a.scopes).Names(); len(lacking) > 0 {
		return problem.ScopeEscalation.Newf("The role %s has %s, which the caller does not hold.", role, strings.Join(lacking, ", ")).
			With("missingScope", lacking[0])
	}
	return nil
}
