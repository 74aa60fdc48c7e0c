package requestlog

import (
	"encoding/json"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Members are the members of a problem that not every problem has, as a JSON object. They say what limit was
// reached, what scope is missing or which account is meant. They never contain a value of the request or a text for
// people, which may quote one, nor an address, which may be a secret.
type Members string

const (
	// maxMembers bounds Members, in bytes, maxItems the length of a list in it.
	maxMembers, maxItems = 2048, 32
	// retryAfter is the member for the time that a problem asks to wait.
	retryAfter = "retryAfterSec"
)

// MembersOf returns the members of a problem that are numbers, truth values, names, or lists of names.
func MembersOf(p *problem.Error) Members {
	kept := map[string]any{}
	if p.RetryAfter > 0 {
		kept[retryAfter] = p.RetryAfter
	}
	for name, value := range p.Members() {
		if name != "reason" && isPlain(value) {
			kept[name] = value
		}
	}
	if len(kept) == 0 {
		return ""
	}
	text, err := json.Marshal(kept)
	if err != nil || len(text) > maxMembers {
		return ""
	}
	return Members(text)
}

// All returns the members, an empty map if there are none.
func (m Members) All() map[string]any {
	all := map[string]any{}
	if m != "" {
		_ = json.Unmarshal([]byte(m), &all)
	}
	return all
}

// RetryAfter returns the seconds that the problem asked to wait; 0 if it did not.
func (m Members) RetryAfter() int {
	var one struct {
		Seconds int `json:"retryAfterSec"`
	}
	if m != "" {
		_ = json.Unmarshal([]byte(m), &one)
	}
	return one.Seconds
}

func isPlain(value any) bool {
	switch v := value.(type) {
	case bool, int, int32, int64, float64:
		return true
	case []string:
		for _, one := range v {
			if !isPlain(one) {
				return false
			}
		}
		return len(v) <= maxItems
	case string:
		return v != "" && isMember(v)
	}
	return false
}

// isMember is isName for scopes as well, which have colons.
func isMember(text string) bool {
	for i := range len(text) {
		if text[i] == ':' {
			return isName(text[:i]) && isName(text[i+1:])
		}
	}
	return isName(text)
}
