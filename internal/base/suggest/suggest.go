// Package suggest measures how similar two names are, to suggest the right one for a typo.
package suggest

// MaxLength is the length in bytes from which on the rest of a name is ignored. It bounds the cost of a comparison.
const MaxLength = 81

// Distance returns the number of bytes that must be inserted, deleted, replaced or swapped with their neighbour to turn
// one name into the other (the restricted Damerau-Levenshtein distance). It keeps three rows of the table, on the
// stack.
func Distance(a, b string) int {
	a, b = a[:min(len(a), MaxLength)], b[:min(len(b), MaxLength)]
	var before, last, row [MaxLength + 1]int
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
