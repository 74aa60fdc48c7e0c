package stagedoor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Problem is an error response of the API (status 400 and above), a problem document as in RFC 9457. Branch
// on Code and Retryable.
type Problem struct {
	// Status is the HTTP status.
	Status int `json:"status"`
	// Code is stable, such as CodeQuotaExceeded. It is empty if the response did not come from the service.
	Code ProblemCode `json:"code"`
	// Title describes the code and never changes. Detail describes this occurrence.
	Title  string `json:"title"`
	Detail string `json:"detail"`
	// Retryable reports whether the same request may succeed later, after RetryAfterSec if that is not 0.
	Retryable     bool `json:"retryable"`
	RetryAfterSec int  `json:"retryAfterSec"`
	// DocURL is the address of a page about this kind of problem.
	DocURL string `json:"type"`
	// Errors lists what is invalid in the request.
	Errors []FieldError `json:"errors"`
	// RequestID identifies the request in logs and to support.
	RequestID string `json:"-"`
	// Raw is the complete document. Some codes have additional members: see Member.
	Raw json.RawMessage `json:"-"`
	// Header is the response header.
	Header http.Header `json:"-"`
}

// FieldError describes an invalid part of a request.
type FieldError struct {
	// Pointer is a JSON pointer into the body, or query/name, header/name, path/name.
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// Error implements error. The text is for people; do not parse it.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "stagedoor: %d", p.Status)
	if p.Code != "" {
		fmt.Fprintf(&b, " %s", p.Code)
	}
	if text := p.Detail; text != "" {
		fmt.Fprintf(&b, ": %s", text)
	} else if p.Title != "" {
		fmt.Fprintf(&b, ": %s", p.Title)
	}
	for _, e := range p.Errors {
		fmt.Fprintf(&b, "; %s: %s", e.Pointer, e.Detail)
	}
	if p.RequestID != "" {
		fmt.Fprintf(&b, " (%s)", p.RequestID)
	}
	return b.String()
}

// Member decodes a member that only some codes have, such as uploadId, into v. It reports whether the member
// is present and fits.
func (p *Problem) Member(name string, v any) bool {
	var all map[string]json.RawMessage
	if json.Unmarshal(p.Raw, &all) != nil || all[name] == nil {
		return false
	}
	return json.Unmarshal(all[name], v) == nil
}

// IsProblem reports whether an error is a Problem with one of these codes. Without codes it reports whether
// it is a Problem.
func IsProblem(err error, codes ...ProblemCode) bool {
	var p *Problem
	if !errors.As(err, &p) {
		return false
	}
	for _, code := range codes {
		if p.Code == code {
			return true
		}
	}
	return len(codes) == 0
}

// newProblem decodes a problem. status is 0 for a problem in a stream.
func newProblem(status int, header http.Header, body []byte) *Problem {
	p := &Problem{}
	if err := json.Unmarshal(body, p); err != nil || p.Code == "" {
		p = &Problem{Title: http.StatusText(status)}
	}
	p.Raw, p.Header, p.RequestID = body, header, header.Get("X-Request-Id")
	if status != 0 {
		p.Status = status
	}
	if seconds, err := strconv.Atoi(header.Get("Retry-After")); err == nil && p.RetryAfterSec == 0 {
		p.RetryAfterSec = seconds
	}
	return p
}

// ConnectionError means that there was no complete response. The service may or may not have received the request.
type ConnectionError struct{ Err error }

// Error implements error.
func (e *ConnectionError) Error() string { return "stagedoor: no response: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }
