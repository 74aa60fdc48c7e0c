package event

import (
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// Kinds of our own that are needed by name. The others are written down where they happen.
const (
	KindTest         = "test"
	KindGap          = "listener.gap"
	KindDisconnected = "account.disconnected"
)

// Kind describes a kind of event.
type Kind struct {
	Name    string
	Class   catalog.Class
	Summary string
	// Org means that it concerns no account, and comes on the org's stream only.
	Org bool
}

// service are the kinds of our own, all durable.
var service = []Kind{
	{KindTest, catalog.Durable, "Sent by the webhook test; not part of the log.", false},
	{"account.connected", catalog.Durable, "The account works for the first time.", false},
	{"account.reconnected", catalog.Durable, "The account works again after it was down.", false},
	{"account.reauthenticating", catalog.Durable, "Its session ended; a new one is being fetched with the remembered credentials.", false},
	{"account.degraded", catalog.Durable, "The platform, the way to it or the listener fails.", false},
	{"account.recovered", catalog.Durable, "That is over.", false},
	{"account.reconnect_required", catalog.Durable, "The session is gone; its creator must connect it again.", false},
	{"account.challenge_required", catalog.Durable, "While it signs in again, a person must answer a challenge.", false},
	{"account.session_expiring", catalog.Durable, "The session ends in 7 days, or in 24 hours.", false},
	{"account.restricted", catalog.Durable, "The platform has locked or limited the account.", false},
	{"account.paused", catalog.Durable, "Calls are refused until it is resumed.", false},
	{"account.resumed", catalog.Durable, "It is no longer paused.", false},
	{"account.updated", catalog.Durable, "Its label, region or metadata changed.", false},
	{KindDisconnected, catalog.Durable, "The last event of an account: its session is destroyed.", false},
	{KindGap, catalog.Durable, "Events may be missing between two times.", false},
	{"connect.attempt_updated", catalog.Durable, "A sign-in moved on.", true},
	{"connect.attempt_completed", catalog.Durable, "A sign-in ended.", true},
	{"connect.session_finished", catalog.Durable, "A hosted page ended.", true},
	{"webhook.disabled", catalog.Durable, "A webhook failed for too long, or its receiver said that it is gone.", false},
	{"webhook.recovered", catalog.Durable, "A failing webhook works again.", false},
	{"key.created", catalog.Durable, "An API key was minted.", true},
	{"key.revoked", catalog.Durable, "An API key was revoked.", true},
	{"usage.threshold", catalog.Durable, "Most of a month's calls are used.", true},
	{"sdk.catalog_changed", catalog.Durable, "Methods or events of the platform changed.", true},
}

// Kinds are all kinds of events, by environment.
type Kinds struct{ by map[org.Environment]known }

type known struct {
	list  []Kind
	names []string
	class map[string]catalog.Class
}

// NewKinds gathers the platform's kinds and our own.
func NewKinds(catalogs map[org.Environment]*catalog.Catalog) *Kinds {
	k := &Kinds{by: map[org.Environment]known{}}
	for env, c := range catalogs {
		var all known
		for _, e := range c.Events() {
			all.list = append(all.list, Kind{Name: e.Kind, Class: e.Class, Summary: e.Summary})
		}
		k.by[env] = all.with(service)
	}
	return k
}

func (n known) with(more []Kind) known {
	n.list = append(n.list, more...)
	n.class = map[string]catalog.Class{}
	for _, kind := range n.list {
		n.names = append(n.names, kind.Name)
		n.class[kind.Name] = kind.Class
	}
	return n
}

// of falls back to our own kinds where there is no platform.
func (k *Kinds) of(env org.Environment) known {
	if n, ok := k.by[env]; ok {
		return n
	}
	return known{}.with(service)
}

// List lists the kinds of an environment: the platform's in the order of its manifest, then our own.
func (k *Kinds) List(env org.Environment) []Kind { return slices.Clone(k.of(env).list) }

// Class says what is promised for a kind; durable for one that is not known.
func (k *Kinds) Class(env org.Environment, kind string) catalog.Class {
	if class, ok := k.of(env).class[kind]; ok {
		return class
	}
	return catalog.Durable
}

// matches says whether a name with an optional wildcard at its end means a kind.
func matches(pattern, kind string) bool {
	if family, wild := strings.CutSuffix(pattern, "*"); wild {
		return strings.HasPrefix(kind, family)
	}
	return pattern == kind
}
