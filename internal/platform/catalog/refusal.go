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

// RefusalKind is the meaning of an error response of the platform.
type RefusalKind string

// The kinds of refusals.
const (
	// RefusedSession means that the session has ended, or may have.
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
	// RefusedError is an error of the platform, and everything that fits no other kind.
	RefusedError RefusalKind = "error"
)

// Refusal is a classified error response of the platform.
type Refusal struct {
	Kind RefusalKind
	// Code is the platform's error code, or 0 if it gave none.
	Code int
	// Message is the platform's message as one line of at most 300 characters.
	Message string
	// RetryAfter is how long the platform asks us to wait, at most 24 hours, or 0 if it does not say.
	RetryAfter time.Duration
}

// refusals holds the rules that classify error responses. The first rule that matches wins.
type refusals struct {
	// code, message and retryAfter are paths in the body.
	code, message, retryAfter []string
	rules                     []refusalRule
}

type refusalRule struct {
	codes, statuses []int
	kind            RefusalKind
}

func (r refusalRule) matches(status, code int) bool {
	return (r.codes == nil || slices.Contains(r.codes, code)) && (r.statuses == nil || slices.Contains(r.statuses, status))
}

// Classify returns the meaning of an error response. The body need not be JSON.
func (c *Catalog) Classify(status int, header http.Header, body []byte) Refusal {
	r := Refusal{RetryAfter: retryAfter(header)}
	// Gateways answer with HTML or nothing; then only the status and the header count.
	if t, err := tape.Read(body, frameLimits); err == nil {
		r.Code, _ = strconv.Atoi(textAt(t, tape.Root, c.refusals.code))
		r.Message = oneLine(textAt(t, tape.Root, c.refusals.message))
		if r.RetryAfter == 0 {
			r.RetryAfter = secondsAt(t, c.refusals.retryAfter)
		}
		t.Release()
	}
	r.Kind = c.refusals.classify(status, r.Code)
	return r
}

// classify returns the kind of the first matching rule. Without one, other 4xx statuses are RefusedRejected and
// everything else is RefusedError.
func (r *refusals) classify(status, code int) RefusalKind {
	for _, rule := range r.rules {
		if rule.matches(status, code) {
			return rule.kind
		}
	}
	if status >= http.StatusBadRequest && status < http.StatusInternalServerError {
		return RefusedRejected
	}
	return RefusedError
}

// maxWait bounds the wait that a platform can ask for.
const maxWait = 24 * time.Hour

// retryAfter reads the header Retry-After: seconds, or a date. A date is relative to the response's own Date header, so
// that the clocks need not agree.
func retryAfter(header http.Header) time.Duration {
	given := strings.TrimSpace(header.Get("Retry-After"))
	if given == "" {
		return 0
	}
	if seconds, err := strconv.Atoi(given); err == nil {
		return clampWait(time.Duration(min(seconds, int(maxWait/time.Second))) * time.Second)
	}
	until, err := http.ParseTime(given)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return 0
	}
	return clampWait(until.Sub(now))
}

func clampWait(d time.Duration) time.Duration { return min(max(d, 0), maxWait) }

// secondsAt reads a number of seconds from a body and rounds it up.
func secondsAt(t *tape.Tape, path []string) time.Duration {
	if path == nil {
		return 0
	}
	at, ok := t.Get(tape.Root, path)
	if !ok || t.Kind(at) != tape.Number {
		return 0
	}
	// ParseUnix parses the number without a float; the time since 1970 is the wait.
	then, ok := convert.ParseUnix(t.Raw(at))
	if !ok {
		return maxWait
	}
	ms := then.UnixMilli()
	if ms > maxWait.Milliseconds() {
		return maxWait
	}
	return clampWait((time.Duration(ms)*time.Millisecond + time.Second - 1).Truncate(time.Second))
}

// maxMessage bounds a message of the platform, in characters.
const maxMessage = 300

// oneLine makes a text of the platform safe to show and log: one line of printable characters with single spaces, cut
// at maxMessage.
func oneLine(text string) string {
	out := make([]rune, 0, min(len(text), maxMessage))
	for _, r := range text {
		if len(out) == maxMessage {
			break
		}
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsPrint(r): // control and format characters, including those that reverse the direction of text
			continue
		}
		if r == ' ' && (len(out) == 0 || out[len(out)-1] == ' ') {
			continue
		}
		out = append(out, r)
	}
	return strings.TrimRight(string(out), " ")
}

// compileRefusals compiles the rules that classify error responses.
func (c *compiler) compileRefusals() {
	e := c.doc.Errors
	r := refusals{code: shape.SplitPath(e.Code), message: shape.SplitPath(e.Message), retryAfter: shape.SplitPath(e.RetryAfter)}
	for _, k := range e.Kinds {
		r.rules = append(r.rules, refusalRule{codes: k.Code, statuses: k.Status, kind: RefusalKind(k.Kind)})
	}
	c.cat.refusals = r
}
