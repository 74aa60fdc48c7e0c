package endpoint

import (
	"regexp"
	"strings"
)

// entityTag matches the tags in a list. Reads compare weakly, so the W/ prefix is ignored.
var entityTag = regexp.MustCompile(`(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")`)

// Matches reports whether an If-None-Match header contains the current ETag.
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
