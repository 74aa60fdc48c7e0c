package catalog

import (
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/suggest"
)

// maxSuggestions bounds the names that are suggested. Names longer than suggest.MaxLength are not compared.
const maxSuggestions = 5

// Nearest suggests full names of methods, such as messages.send, for one that does not exist. The nearest comes first.
func (c *Catalog) Nearest(resource, method string) []string {
	wanted := strings.ToLower(resource + "." + method)
	if len(wanted) > suggest.MaxLength {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, m := range c.methods {
		near := max(2, len(wanted)/4)
		if m.Resource == resource { // the resource exists, so be more generous with its methods
			near = max(near, 4, len(method)/2)
		}
		if d := suggest.Distance(wanted, strings.ToLower(m.ID())); d <= near {
			found = append(found, candidate{m.ID(), d})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.distance - b.distance })
	names := []string{}
	for _, f := range found[:min(len(found), maxSuggestions)] {
		names = append(names, f.name)
	}
	return names
}

// Closest suggests names for one that does not exist. The nearest comes first.
func Closest(name string, among []string) []string {
	wanted, found := strings.ToLower(name), []string{}
	if len(wanted) > suggest.MaxLength {
		return found
	}
	near := max(2, len(wanted)/3)
	for _, one := range among {
		if suggest.Distance(wanted, strings.ToLower(one)) <= near {
			found = append(found, one)
		}
	}
	slices.SortStableFunc(found, func(a, b string) int {
		return suggest.Distance(wanted, strings.ToLower(a)) - suggest.Distance(wanted, strings.ToLower(b))
	})
	return found[:min(len(found), maxSuggestions)]
}

// NearestResource suggests resources for one that does not exist. The nearest comes first.
func (c *Catalog) NearestResource(name string) []string {
	names := make([]string, len(c.resources))
	for i, r := range c.resources {
		names[i] = r.Name
	}
	return Closest(name, names)
}
