// Package problem is the vocabulary of failures that a caller can see.
//
// Each is a Kind, declared once in kinds.go with its code, status, title and whether a retry can help.
// The domain returns a kind with a detail; one writer turns it into an RFC 9457 document. Any other error
// is a fault of ours: its text goes to the log, and the caller sees Internal.
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ContentType is the media type of a problem document.
const ContentType = "application/problem+json"

// Kind is one row of the catalogue. Its code never changes its meaning within /v1.
type Kind struct {
	Code      string
	Status    int
	Title     string
	Retryable bool
	// Fix tells the caller in one sentence what to do.
	Fix string
}

// Upstream says whether the platform, not this service, is the cause.
func (k Kind) Upstream() bool { return strings.HasPrefix(k.Code, "upstream/") }

// New makes a problem of this kind. The detail is shown to the caller: no secret and no rejected value in it.
func (k Kind) New(detail string) *Error {
	return &Error{Kind: k, Detail: detail, retryable: k.Retryable}
}

// Newf is New with a format.
func (k Kind) Newf(format string, args ...any) *Error { return k.New(fmt.Sprintf(format, args...)) }

// Error is one occurrence of a kind. Its builder methods change and return the same value.
type Error struct {
	Kind   Kind
	Detail string
	// RetryAfter is in whole seconds; 0 leaves it out.
	RetryAfter int
	// Fields points at what is wrong in the request.
	Fields []Field

	members         []member
	retryable       bool
	upstreamCode    *int
	upstreamMessage *string
	cause           error
}

// Field is one error of validation.
type Field struct {
	// Pointer is a JSON pointer into the body, or the name of a parameter behind "query", "header" or "path".
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

type member struct {
	name  string
	value any
}

// Error is the text for logs.
func (e *Error) Error() string {
	text := e.Kind.Code + ": " + e.Detail
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap gives the cause, which callers never see.
func (e *Error) Unwrap() error { return e.cause }

// Is matches by kind, so that errors.Is(err, problem.KeyRevoked.New("")) holds for every revoked key.
func (e *Error) Is(target error) bool {
	other, ok := errors.AsType[*Error](target)
	return ok && other.Kind.Code == e.Kind.Code
}

// With adds a member to the document.
func (e *Error) With(name string, value any) *Error {
	e.members = append(e.members, member{name, value})
	return e
}

// Plus is a copy with another member. It leaves the problem alone, which several requests may have met with together.
func (e *Error) Plus(name string, value any) *Error {
	more := *e
	more.members = append(slices.Clone(e.members), member{name, value})
	return &more
}

// After sets how many seconds the caller must wait, at least one.
func (e *Error) After(seconds int) *Error {
	e.RetryAfter = max(seconds, 1)
	return e
}

// Retry overrides the kind's default, for a failure that is safe to repeat in one place and not in another.
func (e *Error) Retry(retryable bool) *Error {
	e.retryable = retryable
	return e
}

// Retryable says whether the same request may succeed later.
func (e *Error) Retryable() bool { return e.retryable }

// InDoubt says that the change may have been carried out although it failed. Such a problem is never retryable.
func (e *Error) InDoubt() *Error {
	e.retryable, e.RetryAfter = false, 0
	return e.With("outcome", "unknown")
}

// Unknown says whether nobody knows if what was asked for was carried out.
func (e *Error) Unknown() bool { return e.text("outcome") == "unknown" }

// Reason is which limit refused; empty if none did.
func (e *Error) Reason() string { return e.text("reason") }

// text is a member's value; empty if there is none, or it is no text.
func (e *Error) text(name string) string {
	for _, m := range e.members {
		if m.name == name {
			text, _ := m.value.(string)
			return text
		}
	}
	return ""
}

// At adds an error of one field.
func (e *Error) At(pointer, code, detail string) *Error {
	e.Fields = append(e.Fields, Field{pointer, code, detail})
	return e
}

// Because keeps the cause for the log.
func (e *Error) Because(cause error) *Error {
	e.cause = cause
	return e
}

// From keeps what the platform said. The message must already be free of secrets.
func (e *Error) From(code int, message string) *Error {
	e.upstreamCode, e.upstreamMessage = &code, &message
	return e
}

// Of finds the problem in an error, or makes it an internal one with the error as its cause.
func Of(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return Internal.New("The request could not be handled. Nothing about it is your fault.").Because(err)
}

// document is the wire form; members follow behind its fields.
type document struct {
	Type          string  `json:"type"`
	Title         string  `json:"title"`
	Status        int     `json:"status"`
	Detail        string  `json:"detail,omitempty"`
	Instance      string  `json:"instance,omitempty"`
	LogURL        string  `json:"logUrl,omitempty"`
	Code          string  `json:"code"`
	Retryable     bool    `json:"retryable"`
	RetryAfterSec int     `json:"retryAfterSec,omitempty"`
	Errors        []Field `json:"errors,omitempty"`
}

// upstream is always present on problems of the platform's, with null for what it did not say.
type upstream struct {
	Code    *int    `json:"upstreamCode"`
	Message *string `json:"upstreamMessage"`
}

// TypeURL is the address of the page about a kind.
func TypeURL(problemsURL string, k Kind) string { return problemsURL + "/" + k.Code }

// Place is where a problem happened.
type Place struct {
	// ProblemsURL is where the pages about problems are.
	ProblemsURL string
	// Instance is the URN of the request, LogURL where its log can be read; empty for none.
	Instance, LogURL string
}

// Document renders the problem. It may be rendered for several requests that met with it together.
func (e *Error) Document(at Place) ([]byte, error) {
	parts := []any{document{
		Type: TypeURL(at.ProblemsURL, e.Kind), Title: e.Kind.Title, Status: e.Kind.Status, Detail: e.Detail,
		Instance: at.Instance, LogURL: at.LogURL, Code: e.Kind.Code, Retryable: e.retryable, RetryAfterSec: e.RetryAfter, Errors: e.Fields,
	}}
	if e.Kind.Upstream() {
		parts = append(parts, upstream{e.upstreamCode, e.upstreamMessage})
	}
	for _, m := range e.members {
		parts = append(parts, map[string]any{m.name: m.value})
	}
	return joinObjects(parts)
}

// joinObjects writes several objects as one, in order.
func joinObjects(parts []any) ([]byte, error) {
	out := []byte{'{'}
	for _, part := range parts {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, fmt.Errorf("encode problem: %w", err)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, text[1:len(text)-1]...)
	}
	return append(out, '}'), nil
}
