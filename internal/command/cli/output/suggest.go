package output

import (
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/suggest"
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
		off := suggest.Distance(low, candidate)
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
