package event

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// maxNames bounds the names of a filter.
const maxNames = 64

// Filter selects events by kind: exact names, prefixes such as message* and account.*, and !name to exclude. Without
// a name that includes, it includes everything. The zero value matches everything.
type Filter struct {
	names            []string
	include, exclude []string
}

// Everything reports whether the filter matches every kind.
func (f Filter) Everything() bool { return len(f.names) == 0 }

// Names returns the filter as it was given; nil for everything.
func (f Filter) Names() []string { return f.names }

func (f Filter) Match(kind string) bool {
	matchesKind := func(pattern string) bool { return matches(pattern, kind) }
	if slices.ContainsFunc(f.exclude, matchesKind) {
		return false
	}
	return len(f.include) == 0 || slices.ContainsFunc(f.include, matchesKind)
}

// StoredFilter returns a filter from names that were checked when they were stored. Names of kinds that no longer exist
// match nothing.
func StoredFilter(names []string) Filter {
	f := Filter{names: names}
	for _, name := range names {
		if pattern, out := strings.CutPrefix(name, "!"); out {
			f.exclude = append(f.exclude, pattern)
		} else {
			f.include = append(f.include, name)
		}
	}
	return f
}

// Filter checks names and returns a filter. It fails with unknown-event, with suggestions, if a name matches no kind.
func (k *Kinds) Filter(env environment.Environment, names []string) (Filter, error) {
	if len(names) > maxNames {
		detail := fmt.Sprintf("A filter can have at most %d names.", maxNames)
		return Filter{}, problem.ValidationFailed.New(detail).At("/events", "too_many", detail)
	}
	kinds := k.kindsOf(env).names
	refused := problem.UnknownEvent.New("The filter contains names that match no event.")
	bad := false
	for i, name := range names {
		pattern := strings.TrimPrefix(name, "!")
		if pattern != "" && slices.ContainsFunc(kinds, func(kind string) bool { return matches(pattern, kind) }) {
			continue
		}
		bad = true
		refused = refused.At(fmt.Sprintf("/events/%d", i), "unknown", unknownName(pattern, kinds))
	}
	if bad {
		return Filter{}, refused
	}
	return StoredFilter(names), nil
}

// unknownName suggests names that the caller may have meant. It does not repeat the name, which is unchecked input.
func unknownName(pattern string, kinds []string) string {
	near := catalog.Closest(strings.TrimSuffix(pattern, "*"), kinds)
	if len(near) == 0 {
		return "No event has this name. The documentation lists all events."
	}
	return "No event has this name. Similar names: " + strings.Join(near, ", ") + "."
}
