package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/command/cli/out"
)

// The exit codes; scripts rely on them.
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

// Fault is a failure with words for a person and an exit code.
type Fault struct {
	Code       int
	Text, Hint string
	// Err is what caused it, if anything did.
	Err error
}

// Error is the fault in a line.
func (f *Fault) Error() string { return f.Text }

// Unwrap is the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Usage is the fault of a command that was written wrongly.
func Usage(format string, args ...any) error {
	return &Fault{Code: ExitUsage, Text: fmt.Sprintf(format, args...)}
}

// UsageHint is Usage with a line that says what to do instead.
func UsageHint(hint, format string, args ...any) error {
	return &Fault{Code: ExitUsage, Text: fmt.Sprintf(format, args...), Hint: hint}
}

// Problem is the API's refusal, as RFC 9457 has it.
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
	// Raw is the whole body, with the members that are not here.
	Raw json.RawMessage `json:"-"`
}

// FieldFault is what is wrong with one field of a request.
type FieldFault struct {
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// Error is the problem in a line.
func (p *Problem) Error() string {
	return fmt.Sprintf("%d %s: %s", p.Status, p.Code, p.sentence())
}

func (p *Problem) sentence() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// RequestID is the id by which the request can be looked up.
func (p *Problem) RequestID() string { return strings.TrimPrefix(p.Instance, "urn:request:") }

// ExitCode is the code that a command ends with.
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

// Report tells a failure, in words and under --json as the API's own body, and returns the exit code.
func (a *App) Report(err error) int {
	code := ExitCode(err)
	if err == nil {
		return code
	}
	if code == ExitInterrupted {
		return code // whoever pressed Ctrl-C knows
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
	o.Alert("%s %s", o.Err(out.Bad, "✗"), text)
	if hint != "" {
		o.Alert("  %s", hint)
	}
	return code
}

func (a *App) reportProblem(p *Problem) {
	o := a.Out
	o.Alert("%s %s %s", o.Err(out.Bad, "✗"), o.Err(out.Strong, fmt.Sprintf("%d %s:", p.Status, p.Code)), p.sentence())
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
	o.Alert("  %s", o.Err(out.Faint, foot))
}

// hint is what the caller of a command, not of the API, does about a problem.
func (p *Problem) hint() string {
	switch p.Code {
	case "quota-exceeded", "resend-too-soon", "upstream/rate-limited":
		wait := ""
		if p.RetryAfterSec != nil {
			wait = " in " + out.Short(time.Duration(*p.RetryAfterSec)*time.Second)
		}
		return "Try again" + wait + ", or add --retry."
	case "key-missing", "key-invalid", "key-revoked", "key-expired":
		return "Log in with another key: stagedoor login"
	case "scope-missing":
		return "Use a key that has it, or make one: stagedoor keys create <label> --scopes " + p.MissingScope
	case "account-not-found":
		return "List accounts: stagedoor accounts list"
	case "account-disconnected":
		return "The creator has to sign in again: stagedoor accounts reconnect " + named(p.AccountID, "<account>") + ", or stagedoor connect --account " + named(p.AccountID, "<account>")
	case "account-paused":
		return "Resume it: stagedoor accounts resume " + named(p.AccountID, "<account>")
	case "credentials-missing":
		return "Connect it again instead: stagedoor connect --account <id>"
	case "attempt-in-progress":
		return "Go on with it: stagedoor connect --wait " + p.AttemptID + "   or start over with --supersede"
	case "webhook-not-found":
		return "Register one: stagedoor webhooks set <account> <url>"
	case "method-not-found":
		if len(p.Suggestions) > 0 {
			return "Did you mean " + strings.Join(p.Suggestions, " or ") + "?"
		}
		return "Find methods: stagedoor methods <word>"
	case "session-incomplete":
		return "Give all request headers of the browser, not its cookies alone."
	}
	if p.Outcome == "unknown" {
		return "Whether it was carried out is not known: look before you repeat it."
	}
	if p.Retryable {
		return "Trying again may help; add --retry to have it done for you."
	}
	return ""
}

// named is a name where there is one.
func named(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return name
}

// Silent ends a command with a code when everything has been said already.
func Silent(code int) error { return &Fault{Code: code} }
