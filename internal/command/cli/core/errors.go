package core

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/output"
)

// Exit codes. They are documented in the reference (reference.go), and scripts rely on them.
const (
	ExitOK          = 0
	ExitOther       = 1
	ExitUsage       = 2
	ExitKey         = 3
	ExitNotFound    = 4
	ExitRejected    = 5
	ExitLimited     = 6
	ExitUpstream    = 7
	ExitReconnect   = 8
	ExitInterrupted = 130
)

// Fault is an error with an exit code and an optional hint. Text is lower case; Hint is a sentence or a command to run.
type Fault struct {
	Code       int
	Text, Hint string
	// Err is the cause, or nil.
	Err error
}

// Error implements error.
func (f *Fault) Error() string { return f.Text }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Usage returns a fault for invalid usage of a command.
func Usage(format string, args ...any) error {
	return &Fault{Code: ExitUsage, Text: fmt.Sprintf(format, args...)}
}

// UsageHint is Usage with a hint.
func UsageHint(hint, format string, args ...any) error {
	return &Fault{Code: ExitUsage, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Problem is an error response of the API, a problem document as in RFC 9457.
type Problem struct {
	Status        int          `json:"status"`
	Code          string       `json:"code"`
	Title         string       `json:"title"`
	Detail        string       `json:"detail"`
	Type          string       `json:"type"`
	Instance      string       `json:"instance"`
	Retryable     bool         `json:"retryable"`
	RetryAfterSec *int         `json:"retryAfterSec"`
	Reason        string       `json:"reason"`
	MissingScope  string       `json:"missingScope"`
	AttemptID     string       `json:"attemptId"`
	AccountID     string       `json:"accountId"`
	State         string       `json:"state"`
	Outcome       string       `json:"outcome"`
	Suggestions   []string     `json:"suggestions"`
	Missing       []string     `json:"missing"`
	NextActions   []string     `json:"nextActions"`
	Errors        []FieldFault `json:"errors"`
	// Raw is the complete body, including members without a field here.
	Raw json.RawMessage `json:"-"`
}

// FieldFault describes an invalid field of a request.
type FieldFault struct {
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// Error implements error.
func (p *Problem) Error() string {
	return fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.sentence())
}

func (p *Problem) sentence() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// RequestID returns the id of the request, as `stagedoor logs get` takes it.
func (p *Problem) RequestID() string { return strings.TrimPrefix(p.Instance, "urn:request:") }

// ExitCode maps an error to an exit code. An interruption wins over everything else, then a Fault's own code.
func ExitCode(err error) int {
	if err == nil {
		return ExitOK
	}
	if errors.Is(err, context.Canceled) {
		return ExitInterrupted
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Code
	}
	p, ok := errors.AsType[*Problem](err)
	if !ok {
		return ExitOther
	}
	switch {
	case p.Status == 410:
		return ExitReconnect
	case p.Status == 429:
		return ExitLimited
	case strings.HasPrefix(p.Code, "upstream/") && p.Status >= 500, p.Code == "egress-unavailable", p.Code == "connect-unavailable":
		return ExitUpstream
	case p.Status == 401 || p.Status == 403:
		return ExitKey
	case p.Status == 404:
		return ExitNotFound
	case p.Status >= 400 && p.Status < 500:
		return ExitRejected
	}
	return ExitOther
}

// Report prints an error and returns the exit code. With --json a problem is printed as the API's
// body on standard output.
func (a *App) Report(err error) int {
	code := ExitCode(err)
	if err == nil || code == ExitInterrupted {
		return code
	}
	o := a.Out
	if p, ok := errors.AsType[*Problem](err); ok {
		if o.JSON && len(p.Raw) > 0 {
			o.Body(p.Raw)
			return code
		}
		a.reportProblem(p)
		return code
	}
	text, hint := err.Error(), ""
	if f, ok := errors.AsType[*Fault](err); ok {
		hint = f.Hint
	}
	if text == "" {
		return code
	}
	o.Alert("%s %s", o.Err(output.Bad, "✗"), text)
	if hint != "" {
		o.Alert("  %s", hint)
	}
	return code
}

func (a *App) reportProblem(p *Problem) {
	o := a.Out
	o.Alert("%s %s %s", o.Err(output.Bad, "✗"), o.Err(output.Strong, fmt.Sprintf("%d %s:", p.Status, p.Code)),
		p.sentence())
	for _, e := range p.Errors {
		if e.Detail == p.Detail {
			continue
		}
		o.Alert("  %s: %s", strings.Trim(e.Pointer, "/"), e.Detail)
	}
	if hint := p.hint(); hint != "" {
		o.Alert("  %s", hint)
	}
	foot := "stagedoor explain " + p.Code
	if id := p.RequestID(); id != "" {
		foot = id + "   " + foot
	}
	o.Alert("  %s", o.Err(output.Faint, foot))
}

// hint suggests the next command for a problem. The detail of a problem speaks to callers of the API instead.
func (p *Problem) hint() string {
	switch p.Code {
	case "quota-exceeded", "resend-too-soon", "upstream/rate-limited":
		wait := " later"
		if p.RetryAfterSec != nil {
			wait = " in " + output.Short(time.Duration(*p.RetryAfterSec)*time.Second)
		}
		return "Retry" + wait + ", or add --retry."
	case "key-missing", "key-invalid", "key-revoked", "key-expired":
		return "Log in with another key: stagedoor login"
	case "scope-missing":
		return "Use a key that has it, or create one: stagedoor keys create <label> --scopes " + p.MissingScope
	case "account-not-found":
		return "List accounts: stagedoor accounts list"
	case "account-disconnected":
		account := cmp.Or(p.AccountID, "<account>")
		return "The creator has to sign in again: stagedoor accounts reconnect " + account +
			", or stagedoor connect --account " + account
	case "account-paused":
		return "Resume it: stagedoor accounts resume " + cmp.Or(p.AccountID, "<account>")
	case "credentials-missing":
		return "Connect it again instead: stagedoor connect --account <id>"
	case "attempt-in-progress":
		return "Continue it: stagedoor connect --wait " + p.AttemptID + "   or start over with --supersede"
	case "webhook-not-found":
		return "Register one: stagedoor webhooks set <account> <url>"
	case "method-not-found":
		if len(p.Suggestions) > 0 {
			return "Did you mean " + strings.Join(p.Suggestions, " or ") + "?"
		}
		return "Find methods: stagedoor methods <word>"
	case "session-incomplete":
		return "Paste all request headers of the browser, not only its cookies."
	}
	if p.Outcome == "unknown" {
		return "The call may have taken effect. Check before you repeat it."
	}
	if p.Retryable {
		return "A retry may help. Add --retry to retry automatically."
	}
	return ""
}

// Silent returns a fault that ends a command with an exit code and prints nothing.
func Silent(code int) error { return &Fault{Code: code} }
