// Package problem defines the failures that a caller can see.
//
// Each is a Kind, declared once in kinds.go with its code, status, title and whether a retry can help. Domain
// packages return Kind.New with a detail, and package endpoint writes it as an RFC 9457 document. Any other error is
// a fault of this service: Of turns it into Internal, so its text goes to the log and never to the caller.
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// ContentType is the media type of a problem document.
const ContentType = "application/problem+json"

// Kind is one entry of the catalogue. A code never changes its meaning within /v1.
type Kind struct {
	Code      string
	Status    int
	Title     string
	Retryable bool
	// Fix says in one or two sentences what the caller can do.
	Fix string
}

// Upstream reports whether the platform, not this service, is the cause.
func (k Kind) Upstream() bool { return strings.HasPrefix(k.Code, "upstream/") }

// New makes a problem of this kind. Callers see the detail: it must not contain a secret or a rejected value.
func (k Kind) New(detail string) *Error {
	return &Error{Kind: k, Detail: detail, retryable: k.Retryable}
}

func (k Kind) Newf(format string, args ...any) *Error { return k.New(fmt.Sprintf(format, args...)) }

// Error is one occurrence of a kind. Its builder methods change and return the same value, except Plus. After it was
// returned to several requests, for example by a shared load, only Plus and the methods that read are safe.
type Error struct {
	Kind   Kind
	Detail string
	// RetryAfter is in whole seconds; 0 means that the document does not name a time.
	RetryAfter int
	// Fields points at the invalid parts of the request.
	Fields []Field

	members         []extraMember
	retryable       bool
	upstreamCode    any
	upstreamMessage *string
	cause           error
}

// Field is one validation error.
type Field struct {
	// Pointer is a JSON pointer into the body, or the name of a parameter after "query/", "header/" or "path/".
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// extraMember is a member of the document beyond those that every problem has.
type extraMember struct {
	name  string
	value any
}

// Error returns the text for logs, including the cause.
func (e *Error) Error() string {
	text := e.Kind.Code + ": " + e.Detail
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns the cause, which callers of the API never see.
func (e *Error) Unwrap() error { return e.cause }

// Is matches by kind, so that errors.Is(err, problem.KeyRevoked.New("")) holds for every revoked key.
func (e *Error) Is(target error) bool {
	other, ok := errors.AsType[*Error](target)
	return ok && other.Kind.Code == e.Kind.Code
}

// With adds a member to the document. The name must not be one that every problem has.
func (e *Error) With(name string, value any) *Error {
	e.members = append(e.members, extraMember{name, value})
	return e
}

// Plus returns a copy with another member. Unlike With, it does not change the problem, which several requests may
// share.
func (e *Error) Plus(name string, value any) *Error {
	more := *e
	more.members = append(slices.Clone(e.members), extraMember{name, value})
	return &more
}

// After sets how many seconds the caller should wait, at least one.
func (e *Error) After(seconds int) *Error {
	e.RetryAfter = max(seconds, 1)
	return e
}

// Retry overrides the kind's default, for a kind that can be retried in some situations and not in others.
func (e *Error) Retry(retryable bool) *Error {
	e.retryable = retryable
	return e
}

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool { return e.retryable }

// InDoubt marks a change that failed but may have been carried out: the document gets "outcome": "unknown". Such a
// problem is never retryable.
func (e *Error) InDoubt() *Error {
	e.retryable, e.RetryAfter = false, 0
	return e.With("outcome", "unknown")
}

// Unknown reports whether the problem was marked by InDoubt.
func (e *Error) Unknown() bool { return e.textMember("outcome") == "unknown" }

// Reason returns the limit that refused the request; empty if none did.
func (e *Error) Reason() string { return e.textMember("reason") }

// Members yields the members that were added by With and Plus.
func (e *Error) Members() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, m := range e.members {
			if !yield(m.name, m.value) {
				return
			}
		}
	}
}

// textMember returns the value of an extra member; empty if there is none or it is not a string.
func (e *Error) textMember(name string) string {
	for _, m := range e.members {
		if m.name == name {
			text, _ := m.value.(string)
			return text
		}
	}
	return ""
}

// At adds a validation error of one field.
func (e *Error) At(pointer, code, detail string) *Error {
	e.Fields = append(e.Fields, Field{pointer, code, detail})
	return e
}

// Because sets the cause, which is logged.
func (e *Error) Because(cause error) *Error {
	e.cause = cause
	return e
}

// From sets the code and message of the platform. The message must not contain secrets.
func (e *Error) From(code, message string) *Error {
	e.upstreamCode, e.upstreamMessage = UpstreamCode(code), &message
	return e
}

// UpstreamCode returns the code of a platform as it is in JSON: an integer as a number, any other code as a string, and
// nil for an empty one.
func UpstreamCode(code string) any {
	if code == "" {
		return nil
	}
	if n, err := strconv.Atoi(code); err == nil && strconv.Itoa(n) == code {
		return n
	}
	return code
}

// Of returns the problem that err wraps. If there is none, it returns an Internal with err as its cause.
func Of(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return Internal.New("The request failed because of an internal error. It is not your fault.").Because(err)
}

// document has the members of every problem. Extra members follow it.
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

// upstream is part of every problem of the platform. A value is null if the platform gave none.
type upstream struct {
	Code    any     `json:"upstreamCode"`
	Message *string `json:"upstreamMessage"`
}

// TypeURL returns the address of the documentation page of a kind.
func TypeURL(problemsURL string, k Kind) string { return problemsURL + "/" + k.Code }

// Place holds what a document says about the request that failed.
type Place struct {
	// ProblemsURL is the base address of the documentation pages.
	ProblemsURL string
	// Instance is the URN of the request, LogURL the address of its entry in the request log. Both may be empty.
	Instance, LogURL string
}

// Document renders the problem as JSON. It only reads the problem, so several requests may render it concurrently.
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

// joinObjects encodes several objects as one. Unlike a map, it keeps the order of the members. Each part must have at
// least one.
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
