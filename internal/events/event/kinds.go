package event

import (
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Kinds of the service that other code refers to. The others are named where their events are written.
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
	// Org means that the event concerns no account and is only in the org's stream.
	Org bool
}

// ownKinds lists the kinds of events that the service itself causes. All are durable.
var ownKinds = []Kind{
	{KindTest, catalog.Durable, "Sent by the webhook test. It is not stored.", false},
	{"account.connected", catalog.Durable, "The account works for the first time.", false},
	{"account.reconnected", catalog.Durable, "The account works again after it was down.", false},
	{"account.reauthenticating", catalog.Durable, "The session has ended. The account is being signed in again with the remembered credentials.", false},
	{"account.degraded", catalog.Durable, "The platform, the network path to it or the listener fails.", false},
	{"account.recovered", catalog.Durable, "A degraded or restricted account works again.", false},
	{"account.reconnect_required", catalog.Durable, "The session has ended, and the creator must connect the account again.", false},
	{"account.challenge_required", catalog.Durable, "The account is being signed in again, and a person must answer a challenge.", false},
	{"account.session_expiring", catalog.Durable, "The session ends in 7 days, or in 24 hours.", false},
	{"account.restricted", catalog.Durable, "The platform has locked or limited the account.", false},
	{"account.paused", catalog.Durable, "The account was paused. Calls are refused until it is resumed.", false},
	{"account.resumed", catalog.Durable, "The account is no longer paused.", false},
	{"account.updated", catalog.Durable, "The label, region or metadata of the account changed.", false},
	{KindDisconnected, catalog.Durable, "The last event of an account. Its session and credentials have been destroyed.",
		false},
	{KindGap, catalog.Durable, "Events may be missing between two times.", false},
	{"connect.attempt_updated", catalog.Durable, "The state of a connect attempt changed.", true},
	{"connect.attempt_completed", catalog.Durable, "A connect attempt ended.", true},
	{"connect.session_finished", catalog.Durable, "A connect session ended.", true},
	{"webhook.disabled", catalog.Durable, "A webhook failed for too long, or its receiver answered 410 Gone.", false},
	{"webhook.recovered", catalog.Durable, "A failing webhook works again.", false},
	{"key.created", catalog.Durable, "An API key was created.", true},
	{"key.revoked", catalog.Durable, "An API key was revoked.", true},
	{"usage.threshold", catalog.Durable, "Most of a month's calls are used.", true},
	{"sdk.catalog_changed", catalog.Durable, "Methods or events of the platform changed.", true},
}

// Kinds holds all kinds of events, by environment.
type Kinds struct {
	by map[environment.Environment]kindSet
}

type kindSet struct {
	list  []Kind
	names []string
	class map[string]catalog.Class
}

// NewKinds combines the kinds of the platforms with those of the service.
func NewKinds(catalogs map[environment.Environment]*catalog.Catalog) *Kinds {
	k := &Kinds{by: map[environment.Environment]kindSet{}}
	for env, c := range catalogs {
		var all kindSet
		for _, e := range c.Events() {
			all.list = append(all.list, Kind{Name: e.Kind, Class: e.Class, Summary: e.Summary})
		}
		k.by[env] = all.with(ownKinds)
	}
	return k
}

func (n kindSet) with(more []Kind) kindSet {
	n.list = append(n.list, more...)
	n.class = map[string]catalog.Class{}
	for _, kind := range n.list {
		n.names = append(n.names, kind.Name)
		n.class[kind.Name] = kind.Class
	}
	return n
}

// kindsOf returns the kinds of an environment; only those of the service if it has no platform.
func (k *Kinds) kindsOf(env environment.Environment) kindSet {
	if n, ok := k.by[env]; ok {
		return n
	}
	return kindSet{}.with(ownKinds)
}

// List returns the kinds of an environment: the platform's in the order of its manifest, then those of the service.
func (k *Kinds) List(env environment.Environment) []Kind { return slices.Clone(k.kindsOf(env).list) }

// Class returns the delivery class of a kind; durable for an unknown one.
func (k *Kinds) Class(env environment.Environment, kind string) catalog.Class {
	if class, ok := k.kindsOf(env).class[kind]; ok {
		return class
	}
	return catalog.Durable
}

// matches reports whether a name, optionally with a wildcard at its end, matches a kind.
func matches(pattern, kind string) bool {
	if family, wild := strings.CutSuffix(pattern, "*"); wild {
		return strings.HasPrefix(kind, family)
	}
	return pattern == kind
}
