package endpoint

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
)

// Problem is the response for an error, encoded from a problem.Error. It has the schema of the OpenAPI document.
type Problem struct {
	status   int
	document []byte
}

// Error returns the text of the status. Huma sends the document, not this text.
func (p *Problem) Error() string { return http.StatusText(p.status) }

// GetStatus returns the status, for huma.
func (p *Problem) GetStatus() int { return p.status }

// ContentType returns the media type, for huma.
func (p *Problem) ContentType(string) string { return problem.ContentType }

func (p *Problem) MarshalJSON() ([]byte, error) { return p.document, nil }

func (Problem) Schema(huma.Registry) *huma.Schema {
	text := func(about string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: about} }
	number := func(about string) *huma.Schema { return &huma.Schema{Type: huma.TypeInteger, Description: about} }
	return &huma.Schema{
		Type:        huma.TypeObject,
		Description: "An RFC 9457 problem. Branch on `code` and `retryable`; a kind may add members of its own.",
		Required:    []string{"type", "title", "status", "code", "retryable"},
		Properties: map[string]*huma.Schema{
			"type":            {Type: huma.TypeString, Format: "uri", Description: "The address of a page about this kind of problem."},
			"title":           text("A short summary, the same for every problem with this code."),
			"status":          number("The HTTP status."),
			"detail":          text("What happened in this case."),
			"instance":        {Type: huma.TypeString, Format: "uri", Description: "The request, as urn:request:<X-Request-Id>."},
			"code":            text("A stable slug."),
			"retryable":       {Type: huma.TypeBoolean, Description: "Whether the same request may succeed later."},
			"retryAfterSec":   number("Seconds to wait before retrying. Waiting this long is always sufficient."),
			"logUrl":          {Type: huma.TypeString, Format: "uri", Description: "The log entry of the request. Reading it needs the scope usage:read."},
			"upstreamCode":    {Description: "The platform's own code, an integer or a string, if it refused; else null."},
			"upstreamMessage": {Type: huma.TypeString, Nullable: true, Description: "The platform's own message, if it refused."},
			"errors": {
				Type: huma.TypeArray, Description: "The parts of the request that are wrong.",
				Items: &huma.Schema{Type: huma.TypeObject, Required: []string{"pointer", "code", "detail"}, Properties: map[string]*huma.Schema{
					"pointer": text("A JSON pointer into the body, or query/name, header/name, path/name."),
					"code":    text("A stable word for the error."), "detail": text("An explanation for people."),
				}},
			},
		},
		AdditionalProperties: true,
	}
}

// logURL returns the address of the request's log entry; empty if it is not logged.
func (t *Table) logURL(call *Call) string {
	if t.deps.Journal == nil || call.Identity.Principal == nil {
		return ""
	}
	return t.deps.Config.PublicURL + "/v1/logs/" + string(call.ID)
}

// reply turns any error into a response and sets the headers that go with it. It records the problem in the call, for
// the log and for the Idempotency-Key.
func (t *Table) reply(call *Call, err error) *Problem {
	if errors.Is(err, errReplayed) {
		return &Problem{status: http.StatusOK, document: []byte("null")} // Discarded: the stored response is sent.
	}
	p := problem.Of(err)
	if p.Kind.Code == problem.Internal.Code {
		switch {
		case errors.Is(err, seal.ErrUnavailable):
			p = problem.ServiceUnavailable.New("The service cannot read its keys right now.").After(2).Because(err)
		case postgres.Unavailable(err):
			p = problem.ServiceUnavailable.New("The service cannot reach its database right now.").After(2).Because(err)
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		// The caller disconnected. This is not a fault of the server.
		p = problem.RequestTimeout.New("The caller closed the connection before the response.")
	case p.Kind.Status >= http.StatusInternalServerError:
		call.outcome.fault = err
	}
	if call.terms.Changes && p.Retryable() &&
		(p.Kind.Code == problem.Internal.Code || errors.Is(err, postgres.ErrOutcomeUnknown) || errors.Is(err, context.Canceled)) {
		// The change may have been committed before the fault, so retrying is not safe.
		p = p.Kind.New(p.Detail).InDoubt().Because(err)
	}
	if p.Kind.Code == problem.AccountDisconnected.Code {
		p = t.withReconnect(call, p)
	}
	o := &call.outcome
	o.problem, o.retryable, o.reason, o.fields = p.Kind.Code, p.Retryable(), p.Reason(), requestlog.FieldsOf(p.Fields)
	o.members = requestlog.MembersOf(p)
	typeURL := problem.TypeURL(t.deps.Config.ProblemsURL, p.Kind)
	call.header.Set("Link", "<"+typeURL+`>; rel="type"`)
	if p.RetryAfter > 0 {
		call.header.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Kind.Status == http.StatusUnauthorized {
		call.header.Set("WWW-Authenticate", `Bearer realm="stagedoor"`)
	}
	document, err := p.Document(problem.Place{ProblemsURL: t.deps.Config.ProblemsURL, Instance: "urn:request:" + string(call.ID), LogURL: t.logURL(call)})
	if err != nil {
		t.deps.Log.Error("cannot encode problem", slog.String(logkey.Code, p.Kind.Code), slog.Any(logkey.Error, err))
		document = []byte(`{"type":"` + typeURL + `","title":"` + p.Kind.Title + `","status":` + strconv.Itoa(p.Kind.Status) +
			`,"code":"` + p.Kind.Code + `","retryable":false}`)
	}
	return &Problem{status: p.Kind.Status, document: document}
}

// withReconnect adds the address of a page on which a person reconnects the account, if the caller may create such a
// page.
func (t *Table) withReconnect(call *Call, p *problem.Error) *problem.Error {
	if t.deps.Reconnect == nil || call.Account == "" || call.Identity.Principal == nil || !call.Identity.Scopes.Has(scope.AccountsWrite) {
		return p
	}
	url, err := t.deps.Reconnect(call.Origin.request.Context(), call.Identity.Principal.Org.ID, call.Account)
	if err != nil {
		t.deps.Log.Warn("cannot make reconnect link", slog.String(logkey.RequestID, string(call.ID)), slog.Any(logkey.Error, err))
		return p
	}
	return p.Plus("reconnect", map[string]string{"url": url})
}

// Fail answers a request with a problem. If the response has started, it aborts the connection instead, so that the
// caller does not take the response for complete.
func (t *Table) Fail(w http.ResponseWriter, r *http.Request, err error) {
	call := From(r.Context())
	p := t.reply(call, err)
	if call.idempotent != nil {
		call.idempotent.withdraw()
	}
	if call.written.Status != 0 {
		if call.outcome.fault = err; r.Context().Err() != nil {
			call.outcome.fault = nil // The caller disconnected.
		}
		panic(http.ErrAbortHandler)
	}
	if p.status == http.StatusRequestEntityTooLarge {
		drain(r.Body)
	}
	w.Header().Set("Content-Type", problem.ContentType)
	w.WriteHeader(p.status)
	// The caller may have disconnected.
	_, _ = w.Write(p.document)
}

// hooksOnce guards huma's package-level hooks, which all tables share.
var hooksOnce sync.Once

// setErrorHooks replaces huma's errors with problems. Its default errors quote rejected values, including passwords.
func setErrorHooks() {
	hooksOnce.Do(func() {
		// encoding/json accepts "Scopes" for "scopes", so two spellings of a name would pass the check of repeated
		// names.
		huma.ValidateStrictCasing = true
		huma.DefaultArrayNullable = false // An empty list is [], never null.
		huma.NewError = func(status int, _ string, _ ...error) huma.StatusError { return &Problem{status: status} }
		huma.NewErrorWithContext = func(ctx huma.Context, status int, _ string, errs ...error) huma.StatusError {
			call := From(ctx.Context())
			return call.table.reply(call, validationProblem(status, errs))
		}
	})
}

// validationProblem explains why huma rejected a request. It uses what huma says about the schema, never the caller's
// values.
func validationProblem(status int, errs []error) error {
	switch status {
	case http.StatusNotAcceptable:
		return problem.NotAcceptable.New("The response is not available in the requested media type.")
	case http.StatusInternalServerError:
		return errors.Join(errs...)
	}
	inBody := true
	var fields []problem.Field
	for _, err := range errs {
		detail, ok := errors.AsType[*huma.ErrorDetail](err)
		if !ok {
			return problem.InvalidRequest.New("The request could not be read.").Because(err)
		}
		pointer, body := pointerOf(detail.Location, detail.Message)
		inBody = inBody && body
		code, text := explain(detail.Message)
		fields = append(fields, problem.Field{Pointer: pointer, Code: code, Detail: text})
	}
	p := problem.ValidationFailed.New("The body does not match the operation's schema.")
	if !inBody {
		p = problem.InvalidRequest.New("A query parameter, header or path parameter is invalid.")
	}
	p.Fields = fields
	return p
}

// Parts of huma's messages and locations.
var (
	requiredProperty = regexp.MustCompile(`^expected required property (\S+) to be present$`)
	index            = regexp.MustCompile(`\[(\d+)\]`)
)

// pointerOf turns a location of huma (body.scopes[0]) into a JSON pointer (/scopes/0).
func pointerOf(location, message string) (pointer string, inBody bool) {
	where, rest, _ := strings.Cut(index.ReplaceAllString(location, ".$1"), ".")
	if m := requiredProperty.FindStringSubmatch(message); m != nil {
		rest = strings.TrimPrefix(rest+"."+m[1], ".")
	}
	path := strings.ReplaceAll(rest, ".", "/")
	if where == "body" && path == "" {
		return "", true // the whole body
	}
	if where == "body" {
		return "/" + path, true
	}
	return where + "/" + path, false
}

// messageCodes are the codes of huma's messages by their prefix. The first match counts.
var messageCodes = []struct{ start, code string }{
	{"expected required property", "required"}, {"required ", "required"}, {"unexpected property", "unknown"},
	{"unknown query parameter", "unknown"}, {"expected value to be one of", "enum"}, {"expected length", "length"},
	{"expected array length", "items"}, {"expected array items to be unique", "unique"}, {"expected number ", "range"},
	{"expected string to be", "format"}, {"expected string to match", "pattern"}, {"expected property", "required"},
	{"expected", "type"}, {"invalid", "type"}, {"json", "type"},
}

// explain returns a code for a message, and the message up to its first colon: huma may quote the caller's value after
// it.
func explain(message string) (code, text string) {
	text, _, _ = strings.Cut(message, ": ")
	switch {
	case text == "json": // The decoder's error quotes the value.
		text = "cannot be read as the expected type"
	case strings.HasPrefix(text, "invalid date/time"): // It quotes a layout of Go.
		text = "expected an RFC 3339 time, for example 2026-11-16T18:43:15.120Z"
	}
	for _, w := range messageCodes {
		if strings.HasPrefix(message, w.start) {
			return w.code, text
		}
	}
	return "invalid", text
}
