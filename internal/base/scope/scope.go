// Package scope names what a key may do.
package scope

import (
	"errors"
	"math/bits"
	"strings"
)

// Scope is one permission; its text is what callers see.
type Scope uint8

// The customer scopes, then the internal ones. The zero value means that any authenticated key will do.
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

// names is the whole vocabulary; a scope's place is its value.
var names = [end]string{
	"", "accounts:read", "accounts:write", "sdk:call", "webhooks:read", "webhooks:write",
	"me:read", "me:write", "usage:read", "admin:orgs",
}

// adminPrefix starts every scope that only internal tokens carry.
const adminPrefix = "admin:"

// Errors of Parse.
var (
	// ErrUnknown is returned for a name that is in no list.
	ErrUnknown = errors.New("unknown scope")
	// ErrInternal is returned for a name that only internal tokens carry, whether it exists or not:
	// a customer learns nothing about which ones do.
	ErrInternal = errors.New("internal scope")
)

// String returns the name callers know the scope by.
func (s Scope) String() string { return names[s] }

// Parse reads the name of a customer scope.
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

// Set is a set of scopes; the zero value is empty.
type Set uint64

// Of makes a set.
func Of(scopes ...Scope) Set {
	var set Set
	for _, s := range scopes {
		set |= 1 << s
	}
	return set
}

// Everyday is the set a customer key has when its mint names none: every customer scope.
func Everyday() Set {
	return Of(AccountsRead, AccountsWrite, SDKCall, WebhooksRead, WebhooksWrite, MeRead, MeWrite, UsageRead)
}

// Internal is the set of an operator's token, written admin:*.
func Internal() Set { return Of(AdminOrgs) }

// FromNames rebuilds a set from stored names. Names that this version does not know are left out:
// a key never gains a power by being read by an older or a newer server.
func FromNames(stored []string) Set {
	var set Set
	for _, name := range stored {
		if s, err := Parse(name); err == nil {
			set |= Of(s)
		}
	}
	return set
}

// Has says whether the set grants a scope. Every set grants Any.
func (set Set) Has(s Scope) bool { return s == Any || set&(1<<s) != 0 }

// Without returns the scopes of the set that other does not have.
func (set Set) Without(other Set) Set { return set &^ other }

// Scopes lists the set in the order of the vocabulary.
func (set Set) Scopes() []Scope {
	list := make([]Scope, 0, bits.OnesCount64(uint64(set)))
	for s := AccountsRead; s < end; s++ {
		if set&(1<<s) != 0 {
			list = append(list, s)
		}
	}
	return list
}

// Names lists the set's names in the order of the vocabulary.
func (set Set) Names() []string {
	list := make([]string, 0, bits.OnesCount64(uint64(set)))
	for _, s := range set.Scopes() {
		list = append(list, s.String())
	}
	return list
}
