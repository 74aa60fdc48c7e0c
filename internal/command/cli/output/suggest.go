package output

import (
	"slices"
	"strings"
)

// Suggest returns up to three known names that are similar to a name or start with it, best first. Case is ignored.
func Suggest(name string, known []string) []string {
	type guess struct {
		name string
		off  int
	}
	var guesses []guess
	low := strings.ToLower(name)
	for _, k := range known {
		candidate := strings.ToLower(k)
		off := distance(low, candidate)
		if strings.HasPrefix(candidate, low) && low != "" {
			off = min(off, 1)
		}
		if off <= max(1, len(low)/3) {
			guesses = append(guesses, guess{k, off})
		}
	}
	slices.SortStableFunc(guesses, func(a, b guess) int { return a.off - b.off })
	names := make([]string, 0, 3)
	for _, g := range guesses[:min(3, len(guesses))] {
		names = append(names, g.name)
	}
	return names
}

// DidYouMean returns the suggestions as a question, or an empty string if there are none.
func DidYouMean(name string, known []string) string {
	guesses := Suggest(name, known)
	if len(guesses) == 0 {
		return ""
	}
	return "Did you mean " + strings.Join(guesses, " or ") + "?"
}

// distance is the optimal string alignment distance: the number of bytes to insert, delete, change or swap to turn one
// word into the other.
func distance(a, b string) int {
	var before, last []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, make([]int, len(b)+1)
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
	}
	return row[len(b)]
}
