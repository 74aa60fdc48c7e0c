package stagedoor

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Problem is an answer of 400 and above: an RFC 9457 document. Branch on Code and Retryable.
type Problem struct {
	// Status is the HTTP status.
	Status int `json:"status"`
	// Code is a stable slug, such as CodeQuotaExceeded; empty if the answer did not come from the service.
	Code ProblemCode `json:"code"`
	// Title says what happened in a few words that never change for a code; Detail, what happened this time.
	Title  string `json:"title"`
	Detail string `json:"detail"`
	// Retryable says whether the same request may succeed later, after RetryAfterSec if it is not 0.
	Retryable     bool `json:"retryable"`
	RetryAfterSec int  `json:"retryAfterSec"`
	// DocURL is the address of a page about this kind of problem.
	DocURL string `json:"type"`
	// Errors points at what is wrong in the request.
	Errors []FieldError `json:"errors"`
	// RequestID names the request to the people who run the service.
	RequestID string `json:"-"`
	// Raw is the whole document; a kind may have members of its own. See Member.
	Raw json.RawMessage `json:"-"`
	// Header is the answer's.
	Header http.Header `json:"-"`
}

// FieldError is one thing that is wrong in a request.
type FieldError struct {
	// Pointer is a JSON pointer into the body, or query/name, header/name, path/name.
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// Error says what happened, for people.
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

// Member reads a member of the document that only some kinds have, such as uploadId, into v. It says whether it is there.
func (p *Problem) Member(name string, v any) bool {
	var all map[string]json.RawMessage
	if json.Unmarshal(p.Raw, &all) != nil || all[name] == nil {
		return false
	}
	return json.Unmarshal(all[name], v) == nil
}

// IsProblem says whether an error is a problem with one of these codes; with none, whether it is a problem at all.
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

// newProblem reads a problem. Status is 0 for one that a stream ends with.
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

// ConnectionError means that there was no answer, or not all of it: the request may have arrived or not.
type ConnectionError struct{ Err error }

// Error says what broke.
func (e *ConnectionError) Error() string { return "stagedoor: no answer: " + e.Err.Error() }

// Unwrap is what broke.
func (e *ConnectionError) Unwrap() error { return e.Err }
