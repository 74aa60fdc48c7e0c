// Package stamptest finds times on the wire that do not have the format of package stamp.
package stamptest

import (
	"encoding/json"
	"fmt"
	"regexp"
)

var (
	// timeLike matches any text that resembles a time, wireForm only the format of package stamp.
	timeLike = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d[0-9:.,]*(?:Z|[+-]\d\d:?\d\d)?`)
	wireForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
)

// Loose returns a message for each time in a response, an event or a CSV export that is not RFC 3339 in UTC with
// exactly three decimals. It skips the members example, examples and x-codeSamples, which show what callers may send,
// and receipt, whose text is returned exactly as it was signed.
func Loose(body []byte) (faults []string) {
	var value any
	if json.Unmarshal(body, &value) == nil {
		body, _ = json.Marshal(withoutForeign(value)) // cannot fail: the value came from JSON
	}
	for _, found := range timeLike.FindAll(body, -1) {
		if !wireForm.Match(found) {
			faults = append(faults, fmt.Sprintf("the time %s should be in UTC with exactly three decimals", found))
		}
	}
	return faults
}

// withoutForeign removes the members whose times the service did not write itself.
func withoutForeign(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = withoutForeign(v[i])
		}
	case map[string]any:
		for name, member := range v {
			switch name {
			case "example", "examples", "x-codeSamples", "receipt":
				delete(v, name)
			default:
				v[name] = withoutForeign(member)
			}
		}
	}
	return value
}
