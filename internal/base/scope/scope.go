// Package scope defines the permissions of API keys and of the operators' token. A Scope is one permission, a Set is
// what a key has. Which operation needs which scope is declared with the operation, in package server/api and its
// subpackages.
package scope

import (
	"errors"
	"math/bits"
	"strings"
)

// Scope is one permission. Its numeric value is never stored; its name is, and callers see it.
type Scope uint8

// The customer scopes come first, then the internal ones; Parse depends on this order. The zero value, Any, means that
// any authenticated key will do.
const (
	Any Scope = iota
	AccountsRead
	AccountsWrite
	SDKCall
	WebhooksRead
	WebhooksWrite
	MeRead
	MeWrite
	UsageRead
	AdminOrgs
	end
)

// names holds the name of each scope, indexed by its value.
var names = [end]string{
	"", "accounts:read", "accounts:write", "sdk:call", "webhooks:read", "webhooks:write",
	"me:read", "me:write", "usage:read", "admin:orgs",
}

// adminPrefix starts the name of every internal scope.
const adminPrefix = "admin:"

// Errors of Parse.
var (
	// ErrUnknown is returned for a name that is not a scope.
	ErrUnknown = errors.New("unknown scope")
	// ErrInternal is returned for every name with the prefix admin:, whether the scope exists or not, so that
	// customers cannot find out which ones do.
	ErrInternal = errors.New("internal scope")
)

// String returns the name of the scope; empty for Any.
func (s Scope) String() string { return names[s] }

// Parse reads the name of a customer scope. It never returns an internal one.
func Parse(name string) (Scope, error) {
	if strings.HasPrefix(name, adminPrefix) {
		return Any, ErrInternal
	}
	for s := AccountsRead; s < AdminOrgs; s++ {
		if names[s] == name {
			return s, nil
		}
	}
	return Any, ErrUnknown
}

// Set is a set of scopes, one bit each; the zero value is empty.
type Set uint64

// Of returns the set of the given scopes.
func Of(scopes ...Scope) Set {
	var set Set
	for _, s := range scopes {
		set |= 1 << s
	}
	return set
}

// Everyday returns every customer scope. A key gets it if no scopes are named when it is created.
func Everyday() Set {
	return Of(AccountsRead, AccountsWrite, SDKCall, WebhooksRead, WebhooksWrite, MeRead, MeWrite, UsageRead)
}

// Internal returns the scopes of an operator's token, which is written as admin:*.
func Internal() Set { return Of(AdminOrgs) }

// FromNames rebuilds a set from stored names. It ignores names that this version does not know and internal ones, so a
// key never gains a permission because an older or newer server reads it.
func FromNames(stored []string) Set {
	var set Set
	for _, name := range stored {
		if s, err := Parse(name); err == nil {
			set |= Of(s)
		}
	}
	return set
}

// Has reports whether the set contains a scope. Every set contains Any.
func (set Set) Has(s Scope) bool { return s == Any || set&(1<<s) != 0 }

// Without returns the scopes of the set that other does not have.
func (set Set) Without(other Set) Set { return set &^ other }

// Scopes lists the set in the order of declaration.
func (set Set) Scopes() []Scope {
	list := make([]Scope, 0, bits.OnesCount64(uint64(set)))
	for s := AccountsRead; s < end; s++ {
		if set&(1<<s) != 0 {
			list = append(list, s)
		}
	}
	return list
}

// Names lists the names of the set in the order of declaration.
func (set Set) Names() []string {
	list := make([]string, 0, bits.OnesCount64(uint64(set)))
	for _, s := range set.Scopes() {
		list = append(list, s.String())
	}
	return list
}
