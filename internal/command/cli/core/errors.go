package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
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

func (f *Fault) Error() string { return f.Text }

func (f *Fault) Unwrap() error { return f.Err }

// Usage returns a fault for invalid usage of a command.
func Usage(format string, args ...any) error {
	return &Fault{Code: ExitUsage, Text: fmt.Sprintf(format, args...)}
}

// UsageHint is Usage with a hint.
func UsageHint(hint, format string, args ...any) error {
	return &Fault{Code: ExitUsage, Text: fmt.Sprintf(format, args...), Hint: hint}
}

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
	p, ok := errors.AsType[*stagedoor.Problem](err)
	if !ok {
		return ExitOther
	}
	switch {
	case p.Code == "":
		return ExitOther // not a response of the API
	case p.Status == 410:
		return ExitReconnect
	case p.Status == 429:
		return ExitLimited
	case strings.HasPrefix(string(p.Code), "upstream/") && p.Status >= 500,
		p.Code == stagedoor.CodeEgressUnavailable, p.Code == stagedoor.CodeConnectUnavailable:
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
	err = a.Explain(err)
	if p, ok := errors.AsType[*stagedoor.Problem](err); ok {
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

// Describe returns the text of an error in one line. For a problem it is shorter than the client's.
func Describe(err error) string {
	if p, ok := errors.AsType[*stagedoor.Problem](err); ok {
		return fmt.Sprintf("%d %s: %s", p.Status, p.Code, cmp.Or(p.Detail, p.Title))
	}
	return err.Error()
}

func (a *App) reportProblem(p *stagedoor.Problem) {
	o := a.Out
	o.Alert("%s %s %s", o.Err(output.Bad, "✗"), o.Err(output.Strong, fmt.Sprintf("%d %s:", p.Status, p.Code)),
		cmp.Or(p.Detail, p.Title))
	for _, e := range p.Errors {
		if e.Detail == p.Detail {
			continue
		}
		o.Alert("  %s: %s", strings.Trim(e.Pointer, "/"), e.Detail)
	}
	hint := hint(p)
	if a.operator {
		hint = operatorHint(p)
	}
	if hint != "" {
		o.Alert("  %s", hint)
	}
	foot := "stagedoor explain " + string(p.Code)
	if id := cmp.Or(p.RequestID, strings.TrimPrefix(member(p, "instance"), "urn:request:")); id != "" {
		foot = id + "   " + foot
	}
	o.Alert("  %s", o.Err(output.Faint, foot))
}

// hint suggests the next command for a problem. The detail of a problem speaks to callers of the API instead.
func hint(p *stagedoor.Problem) string {
	account := cmp.Or(member(p, "accountId"), "<account>")
	switch p.Code { //nolint:exhaustive // only some problems have a next command
	case stagedoor.CodeQuotaExceeded, stagedoor.CodeResendTooSoon, stagedoor.CodeUpstreamRateLimited:
		wait := " later"
		if p.RetryAfterSec > 0 {
			wait = " in " + output.Short(time.Duration(p.RetryAfterSec)*time.Second)
		}
		return "Retry" + wait + ", or add --retry."
	case stagedoor.CodeKeyMissing, stagedoor.CodeKeyInvalid, stagedoor.CodeKeyRevoked, stagedoor.CodeKeyExpired:
		return "Log in with another key: stagedoor login"
	case stagedoor.CodeScopeMissing:
		return "Use a key that has it, or create one: stagedoor keys create <label> --scopes " + member(p, "missingScope")
	case stagedoor.CodeAccountNotFound:
		return "List accounts: stagedoor accounts list"
	case stagedoor.CodeAccountDisconnected:
		return "The creator has to sign in again: stagedoor accounts reconnect " + account +
			", or stagedoor connect --account " + account
	case stagedoor.CodeAccountPaused:
		return "Resume it: stagedoor accounts resume " + account
	case stagedoor.CodeCredentialsMissing:
		return "Connect it again instead: stagedoor connect --account <id>"
	case stagedoor.CodeAttemptInProgress:
		return "Continue it: stagedoor connect --wait " + member(p, "attemptId") + "   or start over with --supersede"
	case stagedoor.CodeWebhookNotFound:
		return "Register one: stagedoor webhooks set <account> <url>"
	case stagedoor.CodeMethodNotFound:
		var similar []string
		if p.Member("suggestions", &similar) && len(similar) > 0 {
			return "Did you mean " + strings.Join(similar, " or ") + "?"
		}
		return "Find methods: stagedoor methods <word>"
	case stagedoor.CodeSessionIncomplete:
		return "Paste all request headers of the browser, not only its cookies."
	}
	if member(p, "outcome") == "unknown" {
		return "The call may have taken effect. Check before you repeat it."
	}
	if p.Retryable {
		return "A retry may help. Add --retry to retry automatically."
	}
	return ""
}

// operatorHint is hint for commands of operators.
func operatorHint(p *stagedoor.Problem) string {
	switch p.Code { //nolint:exhaustive // only some problems have a next command
	case stagedoor.CodeKeyMissing, stagedoor.CodeKeyInvalid:
		return "Log in with the operator token: stagedoor ops login"
	case stagedoor.CodeConsentRequired:
		return "Ask its owners: stagedoor ops access request <org> --reason <text>"
	}
	if p.Retryable {
		return "A retry may help. Add --retry to retry automatically."
	}
	return ""
}

// member returns a text that only some problems have, or an empty string.
func member(p *stagedoor.Problem, name string) string {
	text := ""
	p.Member(name, &text)
	return text
}

// Silent returns a fault that ends a command with an exit code and prints nothing.
func Silent(code int) error { return &Fault{Code: code} }
