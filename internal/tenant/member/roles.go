package member

import (
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
)

// Role is what a member may do in an org.
type Role string

// The roles, from the one that may do most.
const (
	Owner     Role = "owner"
	Admin     Role = "admin"
	Developer Role = "developer"
	Support   Role = "support"
)

// powers are the scopes of the roles. What owners have beyond admins is in mayGive.
var powers = map[Role]scope.Set{
	Owner:     scope.Everyday(),
	Admin:     scope.Everyday(),
	Developer: scope.Everyday().Without(scope.Of(scope.MeWrite)),
	Support:   scope.Of(scope.AccountsRead, scope.WebhooksRead, scope.MeRead, scope.UsageRead),
}

// Roles lists the roles from the one that may do most.
func Roles() []Role { return []Role{Owner, Admin, Developer, Support} }

// Scopes are what the role may do. One that this version does not know may do nothing.
func (r Role) Scopes() scope.Set { return powers[r] }

// ParseRole reads a role.
func ParseRole(text string) (Role, error) {
	if _, ok := powers[Role(text)]; ok {
		return Role(text), nil
	}
	names := make([]string, len(Roles()))
	for i, r := range Roles() {
		names[i] = string(r)
	}
	return "", problem.ValidationFailed.New("There is no such role.").At("/role", "enum", "must be one of "+strings.Join(names, ", "))
}

// Caller is who changes a team: a person, whose role is read when it matters, or a key, which has none.
type Caller struct {
	Person id.Person
	Scopes scope.Set
	// Limited means a key that may use some accounts or call some methods only.
	Limited bool
	// Operator may do what an owner may; Again also invites somebody whose address a member has, because the identity provider now knows
	// that person by another name.
	Operator, Again bool
}

// actor is a caller whose role is known.
type actor struct {
	role    Role // empty for a key
	scopes  scope.Set
	limited bool
	again   bool
}

// mayGive says whether somebody may make others members with a role, and so also change or remove those who have it. Nobody gives more
// than they have, and owners are made by owners only.
func (a actor) mayGive(role Role) error {
	if role == Owner && a.role != Owner {
		return problem.RoleRequired.New("Only owners can make, change or remove owners.").With("requiredRole", string(Owner))
	}
	if a.limited {
		return problem.ScopeEscalation.New("The calling key is limited to some accounts or methods, and members are not; it cannot make or change any.")
	}
	if lacking := role.Scopes().Without(a.scopes).Names(); len(lacking) > 0 {
		return problem.ScopeEscalation.Newf("The role %s has %s, which the caller does not hold.", role, strings.Join(lacking, ", ")).
			With("missingScope", lacking[0])
	}
	return nil
}
