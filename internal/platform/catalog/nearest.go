package catalog

import (
	"slices"
	"strings"
)

// maxSuggestions bounds the names that are suggested. Names longer than maxNameLength bytes are not compared.
const (
	maxSuggestions = 5
	maxNameLength  = 81
)

// Nearest suggests full names of methods, such as messages.send, for one that does not exist. The nearest comes first.
func (c *Catalog) Nearest(resource, method string) []string {
	wanted := strings.ToLower(resource + "." + method)
	if len(wanted) > maxNameLength {
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
		if d := editDistance(wanted, strings.ToLower(m.ID())); d <= near {
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
	if len(wanted) > maxNameLength {
		return found
	}
	near := max(2, len(wanted)/3)
	for _, one := range among {
		if editDistance(wanted, strings.ToLower(one)) <= near {
			found = append(found, one)
		}
	}
	slices.SortStableFunc(found, func(a, b string) int {
		return editDistance(wanted, strings.ToLower(a)) - editDistance(wanted, strings.ToLower(b))
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

// editDistance returns the number of bytes that must be inserted, deleted, replaced or swapped with their neighbour to
// turn one text into the other (the restricted Damerau-Levenshtein distance). It keeps three rows of the table, on the
// stack. a must not be longer than maxNameLength.
func editDistance(a, b string) int {
	var before, last, row [maxNameLength + 1]int
	if len(b) > maxNameLength {
		b = b[:maxNameLength]
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
