package endpoint

import (
	"regexp"
	"strings"
)

// entityTag finds the tags in a list of them; whether they are weak does not matter for reading.
var entityTag = regexp.MustCompile(`(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")`)

// Matches says whether an If-None-Match names what is current.
func Matches(header, etag string) bool {
	if strings.TrimSpace(header) == "*" {
		return true
	}
	for _, m := range entityTag.FindAllStringSubmatch(header, -1) {
		if m[1] == etag {
			return true
		}
	}
	return false
}
