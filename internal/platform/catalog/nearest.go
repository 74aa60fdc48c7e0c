package catalog

import (
	"slices"
	"strings"
)

// Bounds of suggestions: how many, and how long a name may be to be compared at all.
const (
	maxSuggestions = 5
	maxCompared    = 81
)

// Nearest suggests methods for a name that does not exist, nearest first, as messages.send.
func (c *Catalog) Nearest(resource, method string) []string {
	wanted := strings.ToLower(resource + "." + method)
	if len(wanted) > maxCompared {
		return nil
	}
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, m := range c.methods {
		near := max(2, len(wanted)/4)
		if m.Resource == resource { // the resource is right, so its methods are what is meant
			near = max(near, 4, len(method)/2)
		}
		if d := distance(wanted, strings.ToLower(m.ID())); d <= near {
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

// Closest suggests names for one that does not exist, nearest first.
func Closest(name string, among []string) []string {
	wanted, found := strings.ToLower(name), []string{}
	if len(wanted) > maxCompared {
		return found
	}
	near := max(2, len(wanted)/3)
	for _, one := range among {
		if distance(wanted, strings.ToLower(one)) <= near {
			found = append(found, one)
		}
	}
	slices.SortStableFunc(found, func(a, b string) int {
		return distance(wanted, strings.ToLower(a)) - distance(wanted, strings.ToLower(b))
	})
	return found[:min(len(found), maxSuggestions)]
}

// NearestResource suggests resources for a name that does not exist.
func (c *Catalog) NearestResource(name string) []string {
	names := make([]string, len(c.resources))
	for i, r := range c.resources {
		names[i] = r.Name
	}
	return Closest(name, names)
}

// distance is how many letters must be added, dropped, changed or swapped with their neighbour to make one text the other.
func distance(a, b string) int {
	var before, last, row [maxCompared + 1]int
	if len(b) > maxCompared {
		b = b[:maxCompared]
	}
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
