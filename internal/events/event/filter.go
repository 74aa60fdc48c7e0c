package event

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// maxNames bounds a filter.
const maxNames = 64

// Filter chooses events by kind: exact names, families such as message* and account.*, and !name for what to leave out. Without a name
// that includes, it includes everything. The zero value is everything.
type Filter struct {
	names            []string
	include, exclude []string
}

// Everything says whether the filter lets everything through.
func (f Filter) Everything() bool { return len(f.names) == 0 }

// Names are the filter as it was given; nil for everything.
func (f Filter) Names() []string { return f.names }

// Match says whether a kind is chosen.
func (f Filter) Match(kind string) bool {
	for _, pattern := range f.exclude {
		if matches(pattern, kind) {
			return false
		}
	}
	if len(f.include) == 0 {
		return true
	}
	for _, pattern := range f.include {
		if matches(pattern, kind) {
			return true
		}
	}
	return false
}

// StoredFilter is a filter that was checked when it was stored. Names that no kind has any more choose nothing.
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

// Filter makes a filter of names. A name that no kind has is the problem unknown-event, which suggests others.
func (k *Kinds) Filter(env org.Environment, names []string) (Filter, error) {
	if len(names) > maxNames {
		detail := fmt.Sprintf("A filter has at most %d names.", maxNames)
		return Filter{}, problem.ValidationFailed.New(detail).At("/events", "too_many", detail)
	}
	kinds := k.of(env).names
	refused := problem.UnknownEvent.New("The filter has names that no event has.")
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

// unknownName tells what may have been meant. The name itself is not repeated: it is whatever the caller sent.
func unknownName(pattern string, kinds []string) string {
	near := catalog.Closest(strings.TrimSuffix(pattern, "*"), kinds)
	if len(near) == 0 {
		return "No event has this name; the events are listed in the documentation."
	}
	return "No event has this name; near it are " + strings.Join(near, ", ") + "."
}
