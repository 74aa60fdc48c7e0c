// Package stamptest finds times on the wire that do not have the one form of package stamp.
package stamptest

import (
	"encoding/json"
	"fmt"
	"regexp"
)

var (
	like = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d[0-9:.,]*(?:Z|[+-]\d\d:?\d\d)?`)
	form = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
)

// Loose lists the times in an answer, an event or a sheet that are not RFC 3339 in UTC with exactly three decimals. Members that show what
// callers may send, and receipts, which are handed out as they were signed, are left out.
func Loose(body []byte) (faults []string) {
	var value any
	if json.Unmarshal(body, &value) == nil {
		body, _ = json.Marshal(answered(value)) // it was JSON before
	}
	for _, found := range like.FindAll(body, -1) {
		if !form.Match(found) {
			faults = append(faults, fmt.Sprintf("the time %s should be in UTC with exactly three decimals", found))
		}
	}
	return faults
}

// answered leaves out what is not said by the service itself.
func answered(value any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = answered(v[i])
		}
	case map[string]any:
		for name, member := range v {
			switch name {
			case "example", "examples", "receipt":
				delete(v, name)
			default:
				v[name] = answered(member)
			}
		}
	}
	return value
}
