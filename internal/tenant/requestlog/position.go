package requestlog

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Position is a position in the log, right after one request in the order of Page. The zero value is the start, before
// the newest request.
type Position struct {
	At      time.Time
	Request id.Request
}

// String returns the position as an opaque cursor.
func (p Position) String() string {
	text := strconv.FormatInt(p.At.UnixMicro(), 36) + "." + string(p.Request)
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

// ParsePosition parses a cursor of String.
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

// maxMicros is the start of the year 9999. Every part of the system can represent times up to it.
const maxMicros = 253_370_764_800_000_000

// maxRequest is the maximum length of a request id, which callers can choose, in bytes.
const maxRequest = 128

// isRequest reports whether the text can be a request id.
func isRequest(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.:", rune(c)) {
			return false
		}
	}
	return text != "" && len(text) <= maxRequest
}
