package requestlog

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Position is a place in the log: behind one request. The zero value is the newest end.
type Position struct {
	At      time.Time
	Request id.Request
}

// String is the form for callers, who have no business reading it.
func (p Position) String() string {
	text := strconv.FormatInt(p.At.UnixMicro(), 36) + "." + string(p.Request)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// ParsePosition reads what String made.
func ParsePosition(text string) (p Position, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return Position{}, false
	}
	micros, request, found := strings.Cut(string(raw), ".")
	n, err := strconv.ParseInt(micros, 36, 64)
	if err != nil || !found || n <= 0 || n > maxMicros || !isRequest(request) {
		return Position{}, false
	}
	return Position{time.UnixMicro(n).UTC(), id.Request(request)}, true
}

// maxMicros is in the year 9999, up to which every part of the system can write a time.
const maxMicros = 253_370_764_800_000_000

// maxRequest is the longest id that a caller may choose.
const maxRequest = 128

// isRequest says whether a request can have this id.
func isRequest(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.:", rune(c)) {
			return false
		}
	}
	return text != "" && len(text) <= maxRequest
}
