package driver

import (
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// readSession reads a stored session where it stands, without copying its values. It takes exactly what Encode writes and no escapes;
// everything else is the general reader's, so that the stored form is what it always was. A call opens a session, so this counts.
func readSession(text secret.String) (s Session, plain bool) {
	r := reader{text: text.Reveal()}
	s.text = text
	r.want("{")
	if r.is(`"cookies":[`) {
		s.cookies = make([]cookie, 0, 4)
		for more := true; more && !r.failed; more = r.is(",") {
			s.cookies = append(s.cookies, r.cookie())
		}
		r.want("]")
		r.separate()
	}
	if r.is(`"headers":{`) {
		s.headers = make([]header, 0, 2)
		for more := true; more && !r.failed; more = r.is(",") {
			name := r.word()
			r.want(":")
			s.headers = append(s.headers, header{name, r.value()})
		}
		r.want("}")
		r.separate()
	}
	if r.is(`"userAgent":`) {
		s.userAgent = r.word()
	}
	r.want("}")
	if r.failed || r.at != len(r.text) {
		return Session{}, false
	}
	return s, true
}

// reader walks through a text. Once it has failed it does not move any more.
type reader struct {
	text   string
	at     int
	failed bool
}

// is takes a text if it comes next.
func (r *reader) is(text string) bool {
	if r.failed || !strings.HasPrefix(r.text[r.at:], text) {
		return false
	}
	r.at += len(text)
	return true
}

// want takes a text that must come next.
func (r *reader) want(text string) { r.failed = !r.is(text) }

// separate takes the comma before another member.
func (r *reader) separate() {
	if r.is(",") && !strings.HasPrefix(r.text[r.at:], `"`) {
		r.failed = true
	}
}

// part takes a JSON string that stands for itself, and gives its place.
func (r *reader) part() (from, to int) {
	r.want(`"`)
	from = r.at
	for !r.failed {
		switch c := r.byte(); {
		case c == '"':
			return from, r.at - 1
		case c < ' ' || c == '\\' || c >= 0x7f:
			r.failed = true
		}
	}
	return 0, 0
}

// byte takes one; 0 at the end.
func (r *reader) byte() byte {
	if r.at == len(r.text) {
		return 0
	}
	r.at++
	return r.text[r.at-1]
}

func (r *reader) word() string {
	from, to := r.part()
	return r.text[from:to]
}

func (r *reader) value() value {
	from, to := r.part()
	return value{from: from, to: to}
}

func (r *reader) cookie() cookie {
	var c cookie
	r.want(`{"name":`)
	c.name = r.word()
	r.want(`,"value":`)
	c.value = r.value()
	if r.is(`,"expires":`) {
		c.expires = r.time()
	}
	if r.is(`,"setAt":`) {
		c.setAt = r.time()
	}
	r.want("}")
	return c
}

// time takes a time.
func (r *reader) time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, r.word())
	r.failed = r.failed || err != nil
	return at
}
