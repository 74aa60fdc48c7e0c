package catalog

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/convert"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/shape"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/tape"
)

// RefusalKind is what a refusal of the platform's means.
type RefusalKind string

// Kinds of refusals.
const (
	// RefusedSession means that the session is dead, or may be.
	RefusedSession RefusalKind = "session"
	// RefusedRestricted means that the platform has locked or limited the account.
	RefusedRestricted  RefusalKind = "restricted"
	RefusedCreatorOnly RefusalKind = "creator_only"
	RefusedRateLimited RefusalKind = "rate_limited"
	RefusedForbidden   RefusalKind = "forbidden"
	RefusedNotFound    RefusalKind = "not_found"
	RefusedConflict    RefusalKind = "conflict"
	RefusedRejected    RefusalKind = "rejected"
	RefusedUnavailable RefusalKind = "unavailable"
	// RefusedError is a fault of the platform's, and everything that nothing else fits.
	RefusedError RefusalKind = "error"
)

// Refusal is an answer that is not a success.
type Refusal struct {
	Kind RefusalKind
	// Code is the platform's own, 0 if it gave none.
	Code int
	// Message is what the platform says, in one line of at most 300 characters.
	Message string
	// RetryAfter is how long the platform wants to be left alone, 0 if it does not say.
	RetryAfter time.Duration
}

// refusals are the rules.
type refusals struct {
	code, message, retryAfter []string
	rules                     []refusalRule
}

type refusalRule struct {
	codes, statuses []int
	kind            RefusalKind
}

func (r refusalRule) fits(status, code int) bool {
	return (r.codes == nil || slices.Contains(r.codes, code)) && (r.statuses == nil || slices.Contains(r.statuses, status))
}

// Classify says what a refusal means. The body may be anything.
func (c *Catalog) Classify(status int, header http.Header, body []byte) Refusal {
	r := Refusal{RetryAfter: retryAfter(header)}
	if t, err := tape.Read(body, frameLimits); err == nil {
		r.Code, _ = strconv.Atoi(textAt(t, tape.Root, c.refusals.code))
		r.Message = clean(textAt(t, tape.Root, c.refusals.message))
		if r.RetryAfter == 0 {
			r.RetryAfter = secondsAt(t, c.refusals.retryAfter)
		}
		t.Release()
	}
	r.Kind = c.refusals.kind(status, r.Code)
	return r
}

func (r *refusals) kind(status, code int) RefusalKind {
	for _, rule := range r.rules {
		if rule.fits(status, code) {
			return rule.kind
		}
	}
	if status >= http.StatusBadRequest && status < http.StatusInternalServerError {
		return RefusedRejected
	}
	return RefusedError
}

// maxWait bounds what is believed of a platform that wants to be left alone.
const maxWait = 24 * time.Hour

// retryAfter reads the header Retry-After: seconds, or a date, which is compared with the answer's own.
func retryAfter(header http.Header) time.Duration {
	given := strings.TrimSpace(header.Get("Retry-After"))
	if given == "" {
		return 0
	}
	if seconds, err := strconv.Atoi(given); err == nil {
		return wait(time.Duration(min(seconds, int(maxWait/time.Second))) * time.Second)
	}
	until, err := http.ParseTime(given)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return 0
	}
	return wait(until.Sub(now))
}

func wait(d time.Duration) time.Duration { return min(max(d, 0), maxWait) }

// secondsAt reads seconds from a body; a fraction counts as a whole one.
func secondsAt(t *tape.Tape, path []string) time.Duration {
	if path == nil {
		return 0
	}
	at, ok := t.Get(tape.Root, path)
	if !ok || t.Kind(at) != tape.Number {
		return 0
	}
	// A number of seconds is the time that far from 1970.
	then, ok := convert.ParseUnix(t.Raw(at))
	if !ok {
		return maxWait
	}
	ms := then.UnixMilli()
	if ms > maxWait.Milliseconds() {
		return maxWait
	}
	return wait((time.Duration(ms)*time.Millisecond + time.Second - 1).Truncate(time.Second))
}

// maxMessage bounds a message of the platform's, in characters.
const maxMessage = 300

// clean makes one harmless line of a text of the platform's.
func clean(text string) string {
	out := make([]rune, 0, min(len(text), maxMessage))
	for _, r := range text {
		if len(out) == maxMessage {
			break
		}
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsPrint(r): // control and formatting characters, also those that turn a line around
			continue
		}
		if r == ' ' && (len(out) == 0 || out[len(out)-1] == ' ') {
			continue
		}
		out = append(out, r)
	}
	return strings.TrimRight(string(out), " ")
}

// refusals compiles the rules.
func (c *compiler) compileRefusals() {
	e := c.doc.Errors
	r := refusals{code: shape.Path(e.Code), message: shape.Path(e.Message), retryAfter: shape.Path(e.RetryAfter)}
	for _, k := range e.Kinds {
		r.rules = append(r.rules, refusalRule{codes: k.Code, statuses: k.Status, kind: RefusalKind(k.Kind)})
	}
	c.cat.refusals = r
}
