// Package operator knows who operates the service: people, who sign in at an identity provider, and programs, which send
// a token. It owns the roles of operators and the browsers in which they are signed in. It does not authenticate people;
// package admin does.
//
// Who has which role is in the settings (roster.go), and is looked up at every request, so a changed role and a removed
// operator take effect at the next one. Tokens (token.go) and the roster may be in files, which are read for every use.
// Start reading at Operators.
package operator

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"os"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Role decides what an operator may do. Each role may do what those before it may.
type Role string

// The roles, least powerful first.
const (
	Viewer  Role = "viewer"
	Support Role = "support"
	Worker  Role = "operator"
	Owner   Role = "owner"
)

// Roles returns the roles, least powerful first.
func Roles() []Role { return []Role{Viewer, Support, Worker, Owner} }

// Scopes returns the role's scopes, none for an unknown role.
func (r Role) Scopes() scope.Set {
	var set scope.Set
	for i, s := range scope.Internal().Scopes() {
		set |= scope.Of(s)
		if Roles()[i] == r {
			return set
		}
	}
	return 0
}

// RoleOf returns the role with exactly these scopes; empty if there is none.
func RoleOf(scopes scope.Set) Role {
	for _, r := range Roles() {
		if r.Scopes() == scopes {
			return r
		}
	}
	return ""
}

// Operator is an authenticated operator.
type Operator struct {
	// ID is the subject at the identity provider; TokenID for a token. Label is the email address, or the name that was
	// entered with a token.
	ID, Label string
	Role      Role
	// Session is the browser; empty for a program.
	Session id.BrowserSession
}

// TokenID is the ID of who has a token, and the label of programs.
const TokenID = "token"

// IsPerson reports whether the operator signed in at the identity provider.
func (o Operator) IsPerson() bool { return o.ID != TokenID }

// Config holds the settings of operators.
type Config struct {
	// Tokens are the tokens of programs, separated by commas or line breaks; TokenFile is a file with them.
	Tokens    secret.String
	TokenFile string
	// Roster lists operators with their roles; RosterFile is a file with them.
	Roster, RosterFile string
	// Issuer is the identity provider. Browsers that signed in at another one, or with a token although there is one, are
	// signed out.
	Issuer string
}

// Deps are the dependencies of Operators.
type Deps struct {
	Config Config
	DB     *postgres.DB
	Audit  *audit.Log
	Log    *slog.Logger
}

// Operators authenticates operators. Its methods are safe for concurrent use.
type Operators struct{ deps Deps }

// New returns an Operators with the given dependencies.
func New(d Deps) *Operators { return &Operators{d} }

// hash is the SHA-256 of a cookie or token.
type hash [sha256.Size]byte

func hashOf(text secret.String) hash { return sha256.Sum256([]byte(text.Reveal())) }

// unreadable is the problem of a file of the settings that cannot be read. Then no one is an operator by it.
func (o *Operators) unreadable(ctx context.Context, err error) error {
	o.deps.Log.LogAttrs(ctx, slog.LevelError, "cannot read the settings of operators", slog.Any(logkey.Error, err))
	return problem.ServiceUnavailable.New("The settings of operators cannot be read on this node.").After(retryUnreadable)
}

// retryUnreadable is the number of seconds after which an operator may try again.
const retryUnreadable = 10

// read returns the content of the file, or the fixed text if there is none.
func read(file, fixed string) (string, error) {
	if file == "" {
		return fixed, nil
	}
	text, err := os.ReadFile(file)
	return string(text), err
}
