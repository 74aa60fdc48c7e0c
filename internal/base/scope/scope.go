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
	AdminViewer
	AdminSupport
	AdminOperator
	AdminOwner
	end
)

// Definition is a scope as people read it.
type Definition struct {
	Name string `json:"name"`
	// Title says in a few words what a key with the scope can do, Description in a sentence.
	Title       string `json:"title"`
	Description string `json:"description"`
}

// definitions holds the scopes by their value. The OpenAPI document publishes them; the documentation and the dashboard
// read them there.
var definitions = [end]Definition{
	AccountsRead: {
		"accounts:read", "See accounts and events",
		"Read accounts, their states and events, connect attempts and links.",
	},
	AccountsWrite: {
		"accounts:write", "Connect and change accounts",
		"Connect, rename, pause, move and disconnect accounts; control the sandbox.",
	},
	SDKCall: {
		"sdk:call", "Call methods on accounts",
		"Call SDK methods on accounts, including writes, and transfer files.",
	},
	WebhooksRead: {
		"webhooks:read", "See webhooks and deliveries",
		"Read webhooks, their health, deliveries and responses.",
	},
	WebhooksWrite: {
		"webhooks:write", "Change webhooks",
		"Set, test, pause, replay and delete webhooks; rotate their secrets.",
	},
	MeRead: {
		"me:read", "See the organisation",
		"Read the organisation, its keys (never their secrets), members, audit log and connect page.",
	},
	MeWrite: {
		"me:write", "Manage the organisation",
		"Change the organisation and its settings, create and revoke keys, invite members.",
	},
	UsageRead: {
		"usage:read", "See usage, logs and errors",
		"Read limits, usage, the request log and grouped errors.",
	},
	AdminViewer: {
		"admin:viewer", "See the service",
		"Read the states and counts of all organisations and of the nodes.",
	},
	AdminSupport: {
		"admin:support", "Ask for access",
		"Request access to an organisation, and use it once an owner has granted it.",
	},
	AdminOperator: {
		"admin:operator", "Operate the service",
		"Change organisations, and control the nodes and their work.",
	},
	AdminOwner: {
		"admin:owner", "Own the service",
		"Delete organisations, create keys and invitations, and sign operators out.",
	},
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
func (s Scope) String() string { return definitions[s].Name }

// Parse reads the name of a customer scope. It never returns an internal one.
func Parse(name string) (Scope, error) {
	if strings.HasPrefix(name, adminPrefix) {
		return Any, ErrInternal
	}
	for s := AccountsRead; s < AdminViewer; s++ {
		if definitions[s].Name == name {
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

// Internal returns every scope of operators, which is written as admin:*. Package operator gives each role some of them.
func Internal() Set { return Of(AdminViewer, AdminSupport, AdminOperator, AdminOwner) }

// Role returns the role of operators that has the scope and no lower role has; empty for a customer scope.
func (s Scope) Role() string {
	role, ok := strings.CutPrefix(s.String(), adminPrefix)
	if !ok {
		return ""
	}
	return role
}

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

// Definitions lists the definitions of the set in the order of declaration.
func (set Set) Definitions() []Definition {
	list := make([]Definition, 0, bits.OnesCount64(uint64(set)))
	for _, s := range set.Scopes() {
		list = append(list, definitions[s])
	}
	return list
}
