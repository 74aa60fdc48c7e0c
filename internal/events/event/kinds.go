package event

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/apimodel"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// Kind describes a kind of event.
type Kind struct {
	Name    string
	Class   catalog.Class
	Summary string
	// Since is the version of the API, or of the platform's manifest, that has it first.
	Since string
	// Data is the JSON Schema of the data of a platform's event; nil for an event of the service, which the OpenAPI document
	// describes.
	Data json.RawMessage
	// Org means that the event concerns no account and is only in the org's stream.
	Org bool
	// Platforms lists the platforms that have the kind; nil for an event of the service itself.
	Platforms []string
}

// firstVersion is the version of the API that has all kinds of the service.
const firstVersion = "1.0.0"

// ownKinds returns the kinds of events that the service itself causes.
func ownKinds() []Kind {
	list := make([]Kind, len(contract.Events))
	for i, d := range contract.Events {
		list[i] = Kind{Name: d.Kind, Class: catalog.Durable, Summary: d.Summary, Since: firstVersion, Org: d.Scope == contract.PerOrg}
	}
	return list
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

// NewKinds combines the kinds of the platforms with those of the service. If two platforms of an environment have the
// same kind, the first one's description counts.
func NewKinds(catalogs ...*catalog.Catalog) *Kinds {
	k := &Kinds{by: map[environment.Environment]kindSet{}}
	for _, c := range catalogs {
		all, types := k.by[c.Environment], map[string]json.RawMessage{}
		for _, t := range c.Types() {
			types[t.Name] = t.Schema
		}
		for _, e := range c.Events() {
			all.list = addKind(all.list, Kind{Name: e.Kind, Class: e.Class, Summary: e.Summary, Since: c.Version, Data: apimodel.Bundle(e.Schema(), "#/types/", types), Platforms: []string{c.ID}})
		}
		k.by[c.Environment] = all
	}
	for env, all := range k.by {
		k.by[env] = all.with(ownKinds())
	}
	return k
}

// addKind adds a kind of a platform to a list, which may have it already.
func addKind(list []Kind, one Kind) []Kind {
	i := slices.IndexFunc(list, func(k Kind) bool { return k.Name == one.Name })
	if i < 0 {
		return append(list, one)
	}
	list[i].Platforms = append(list[i].Platforms, one.Platforms...)
	return list
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
	return kindSet{}.with(ownKinds())
}

// List returns the kinds of an environment: the platforms' in the order of their manifests, then those of the service.
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
