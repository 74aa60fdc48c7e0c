package catalog

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/convert"
	"github.com/stagedoor/stagedoor/internal/platform/catalog/internal/manifest"
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
	// Code is the platform's error code, a text or a number, as one line of at most 100 characters. It is empty if the
	// platform gave none.
	Code string
	// Message is the platform's message and its detail, as one line of at most 300 characters.
	Message string
	// RetryAfter is how long to wait, at most 24 hours: as the platform asks, or as the manifest says. It is 0 if neither
	// says.
	RetryAfter time.Duration

	// message is the platform's message without its detail. Rules look at it.
	message string
	// asked is the part of RetryAfter that the response itself contains, or 0 if the manifest decided.
	asked time.Duration
}

// refusals holds the rules that classify error responses. The first rule that matches wins.
type refusals struct {
	// codes, message, detail and retryAfter are paths in the body. The first of codes with a value counts.
	codes                       [][]string
	message, detail, retryAfter []string
	rules                       []refusalRule
}

type refusalRule struct {
	matcher
	kind RefusalKind
}

// matcher holds the conditions of a rule about error responses. A condition that is empty always holds.
type matcher struct {
	codes    []string
	statuses []int
	// message is a whole message, or the beginning of one if prefix is set.
	message string
	prefix  bool
	// wait is how long to wait if the response does not say so itself, or 0.
	wait time.Duration
}

func newMatcher(from manifest.Matcher) matcher {
	m := matcher{codes: from.Code, statuses: from.Status, wait: time.Duration(from.RetryAfter) * time.Second}
	m.message, m.prefix = strings.CutSuffix(from.Message, "*")
	return m
}

func (m *matcher) matches(status int, code, message string) bool {
	return (m.codes == nil || slices.Contains(m.codes, code)) && (m.statuses == nil || slices.Contains(m.statuses, status)) &&
		(m.message == "" || m.matchesMessage(message, false))
}

// matchesMessage reports whether the condition on the message holds, for a whole message or for the beginning of any.
func (m *matcher) matchesMessage(message string, beginning bool) bool {
	if m.prefix {
		return strings.HasPrefix(message, m.message)
	}
	return message == m.message && !beginning
}

// covers reports whether m matches whenever other does.
func (m *matcher) covers(other *matcher) bool {
	return (m.codes == nil || other.codes != nil && containsAll(m.codes, other.codes)) &&
		(m.statuses == nil || other.statuses != nil && containsAll(m.statuses, other.statuses)) &&
		(m.message == "" || m.matchesMessage(other.message, other.prefix))
}

func containsAll[T comparable](list, of []T) bool {
	return !slices.ContainsFunc(of, func(one T) bool { return !slices.Contains(list, one) })
}

// Classify returns the meaning of an error response. The body need not be JSON.
func (c *Catalog) Classify(status int, header http.Header, body []byte) Refusal {
	r := Refusal{asked: RetryAfter(header)}
	// Gateways answer with HTML or nothing; then only the status and the header count.
	if t, err := tape.Read(body, frameLimits); err == nil {
		for _, path := range c.refusals.codes {
			if r.Code = oneLine(textAt(t, tape.Root, path), maxCode); r.Code != "" {
				break
			}
		}
		r.message = oneLine(textAt(t, tape.Root, c.refusals.message), maxMessage)
		r.Message = r.message
		if detail := textAt(t, tape.Root, c.refusals.detail); detail != r.message {
			r.Message = oneLine(r.message+" "+detail, maxMessage)
		}
		if r.asked == 0 {
			r.asked = secondsAt(t, c.refusals.retryAfter)
		}
		t.Release()
	}
	r.RetryAfter = r.asked
	for i := range c.refusals.rules {
		if rule := &c.refusals.rules[i]; rule.matches(status, r.Code, r.message) {
			r.Kind, r.RetryAfter = rule.kind, cmp.Or(r.asked, rule.wait)
			return r
		}
	}
	// No rule matches.
	r.Kind = RefusedError
	if status >= http.StatusBadRequest && status < http.StatusInternalServerError {
		r.Kind = RefusedRejected
	}
	return r
}

// maxWait bounds the wait that a platform can ask for.
const maxWait = 24 * time.Hour

// RetryAfter reads the header Retry-After: seconds, or a date. A date is relative to the response's own Date header, so
// that the clocks need not agree.
func RetryAfter(header http.Header) time.Duration {
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

// maxMessage and maxCode bound a message and a code of the platform, in characters.
const (
	maxMessage = 300
	maxCode    = 100
)

// oneLine makes a text of the platform safe to show and log: one line of printable characters with single spaces, cut
// at a number of characters.
func oneLine(text string, most int) string {
	out := make([]rune, 0, min(len(text), most))
	for _, r := range text {
		if len(out) == most {
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
	r := refusals{message: shape.SplitPath(e.Message), detail: shape.SplitPath(e.Detail), retryAfter: shape.SplitPath(e.RetryAfter)}
	for _, path := range e.Code {
		r.codes = append(r.codes, shape.SplitPath(path))
	}
	for i, k := range e.Kinds {
		c.checkMatcher("errors.kinds", i, k.Matcher)
		rule := refusalRule{matcher: newMatcher(k.Matcher), kind: RefusalKind(k.Kind)}
		first := slices.IndexFunc(r.rules, func(earlier refusalRule) bool { return earlier.covers(&rule.matcher) })
		if first >= 0 {
			c.upstreamFault("errors.kinds: rule %d never applies, because rule %d matches first", i+1, first+1)
		}
		r.rules = append(r.rules, rule)
	}
	c.cat.refusals = r
}

// checkMatcher checks that the conditions of the rule with index i can hold.
func (c *compiler) checkMatcher(where string, i int, m manifest.Matcher) {
	if m.Code != nil && c.doc.Errors.Code == nil {
		c.upstreamFault("%s: rule %d has a code, which requires errors.code", where, i+1)
	}
	if m.Message != "" && c.doc.Errors.Message == "" {
		c.upstreamFault("%s: rule %d has a message, which requires errors.message", where, i+1)
	}
}
