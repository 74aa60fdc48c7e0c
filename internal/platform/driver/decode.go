package driver

import (
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// decodePlain decodes a stored session without copying its values. It accepts exactly what Encode writes, without
// escapes, and returns false for everything else, which encoding/json then decodes. It exists for speed: every call
// decodes a session.
func decodePlain(text secret.String) (s Session, plain bool) {
	r := reader{text: text.Reveal()}
	s.text = text
	r.expect("{")
	if r.accept(`"cookies":[`) {
		s.cookies = make([]cookie, 0, 4)
		for more := true; more && !r.failed; more = r.accept(",") {
			s.cookies = append(s.cookies, r.readCookie())
		}
		r.expect("]")
		r.acceptComma()
	}
	if r.accept(`"headers":{`) {
		s.headers = make([]header, 0, 2)
		for more := true; more && !r.failed; more = r.accept(",") {
			name := r.readString()
			r.expect(":")
			s.headers = append(s.headers, header{name, r.readValue()})
		}
		r.expect("}")
		r.acceptComma()
	}
	if r.accept(`"userAgent":`) {
		s.userAgent = r.readString()
	}
	r.expect("}")
	if r.failed || r.at != len(r.text) {
		return Session{}, false
	}
	return s, true
}

// reader scans a text. After a failure it does not advance, so callers check failed once at the end.
type reader struct {
	text   string
	at     int
	failed bool
}

// accept consumes a text if it comes next.
func (r *reader) accept(text string) bool {
	if r.failed || !strings.HasPrefix(r.text[r.at:], text) {
		return false
	}
	r.at += len(text)
	return true
}

// expect consumes a text, or fails if it does not come next.
func (r *reader) expect(text string) { r.failed = !r.accept(text) }

// acceptComma consumes a comma between members. It fails if no member follows the comma.
func (r *reader) acceptComma() {
	if r.accept(",") && !strings.HasPrefix(r.text[r.at:], `"`) {
		r.failed = true
	}
}

// stringSpan consumes a JSON string of printable ASCII without escapes and returns the offsets of its contents.
func (r *reader) stringSpan() (from, to int) {
	r.expect(`"`)
	from = r.at
	for !r.failed {
		switch c := r.nextByte(); {
		case c == '"':
			return from, r.at - 1
		case c < ' ' || c == '\\' || c >= 0x7f:
			r.failed = true
		}
	}
	return 0, 0
}

// nextByte consumes one byte, or returns 0 at the end.
func (r *reader) nextByte() byte {
	if r.at == len(r.text) {
		return 0
	}
	r.at++
	return r.text[r.at-1]
}

func (r *reader) readString() string {
	from, to := r.stringSpan()
	return r.text[from:to]
}

func (r *reader) readValue() value {
	from, to := r.stringSpan()
	return value{from: from, to: to}
}

func (r *reader) readCookie() cookie {
	var c cookie
	r.expect(`{"name":`)
	c.name = r.readString()
	r.expect(`,"value":`)
	c.value = r.readValue()
	if r.accept(`,"expires":`) {
		c.expires = r.readTime()
	}
	if r.accept(`,"setAt":`) {
		c.setAt = r.readTime()
	}
	r.expect("}")
	return c
}

func (r *reader) readTime() time.Time {
	at, err := time.Parse(time.RFC3339Nano, r.readString())
	r.failed = r.failed || err != nil
	return at
}
