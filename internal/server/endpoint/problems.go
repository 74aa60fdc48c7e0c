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

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
)

// Problem is the wire form of a failed answer, made by problem.Error. Its schema is that of the OpenAPI document.
type Problem struct {
	status   int
	document []byte
}

// Error is the status in words; huma writes the document.
func (p *Problem) Error() string { return http.StatusText(p.status) }

// GetStatus tells huma the status.
func (p *Problem) GetStatus() int { return p.status }

// ContentType tells huma the media type.
func (p *Problem) ContentType(string) string { return problem.ContentType }

// MarshalJSON returns the document as it is.
func (p *Problem) MarshalJSON() ([]byte, error) { return p.document, nil }

// Schema describes the document.
func (Problem) Schema(huma.Registry) *huma.Schema {
	text := func(about string) *huma.Schema { return &huma.Schema{Type: huma.TypeString, Description: about} }
	number := func(about string) *huma.Schema { return &huma.Schema{Type: huma.TypeInteger, Description: about} }
	return &huma.Schema{
		Type:        huma.TypeObject,
		Description: "An RFC 9457 problem. Branch on `code` and `retryable`; a kind may add members of its own.",
		Required:    []string{"type", "title", "status", "code", "retryable"},
		Properties: map[string]*huma.Schema{
			"type":            {Type: huma.TypeString, Format: "uri", Description: "The address of a page about this kind of problem."},
			"title":           text("What happened, in a few words that never change for a code."),
			"status":          number("The HTTP status."),
			"detail":          text("What happened this time."),
			"instance":        {Type: huma.TypeString, Format: "uri", Description: "The request, as urn:request:<X-Request-Id>."},
			"code":            text("A stable slug."),
			"retryable":       {Type: huma.TypeBoolean, Description: "Whether the same request may succeed later."},
			"retryAfterSec":   number("How many seconds to wait before trying again; always enough."),
			"logUrl":          {Type: huma.TypeString, Format: "uri", Description: "What is known of the request, for a key that may read usage."},
			"upstreamCode":    {Type: huma.TypeInteger, Nullable: true, Description: "What the platform answered."},
			"upstreamMessage": {Type: huma.TypeString, Nullable: true, Description: "What the platform said."},
			"errors": {
				Type: huma.TypeArray, Description: "What is wrong in the request.",
				Items: &huma.Schema{Type: huma.TypeObject, Required: []string{"pointer", "code", "detail"}, Properties: map[string]*huma.Schema{
					"pointer": text("A JSON pointer into the body, or query/name, header/name, path/name."),
					"code":    text("A stable word for what is wrong."), "detail": text("The same for people."),
				}},
			},
		},
		AdditionalProperties: true,
	}
}

// logURL is where the caller can read about the request; empty if it is kept nowhere.
func (t *Table) logURL(call *Call) string {
	if t.Journal == nil || call.Identity.Principal == nil {
		return ""
	}
	return t.Config.PublicURL + "/v1/logs/" + string(call.Request)
}

// reply turns any error into the answer to a call, with the headers that go with it.
func (t *Table) reply(call *Call, err error) *Problem {
	if errors.Is(err, errReplayed) {
		return &Problem{status: http.StatusOK, document: []byte("null")} // goes nowhere: the answer is there already
	}
	p := problem.Of(err)
	if p.Kind.Code == problem.Internal.Code && postgres.Unavailable(err) {
		p = problem.ServiceUnavailable.New("The service cannot reach its database right now.").After(2).Because(err)
	}
	switch {
	case errors.Is(err, context.Canceled):
		// Nobody is left to read the answer; it is no fault of ours.
		p = problem.RequestTimeout.New("The caller closed the connection before the answer.")
	case p.Kind.Status >= http.StatusInternalServerError:
		call.fault = err
	}
	if changes := call.op != nil && (call.op.Audit != "" || call.changes); changes && p.Retryable() &&
		(p.Kind.Code == problem.Internal.Code || errors.Is(err, postgres.ErrOutcomeUnknown) || errors.Is(err, context.Canceled)) {
		// The change may have happened before the fault.
		p = p.Kind.New(p.Detail).InDoubt().Because(err)
	}
	if p.Kind.Code == problem.AccountDisconnected.Code {
		p = t.withReconnect(call, p)
	}
	call.problem, call.retryable, call.reason, call.fields = p.Kind.Code, p.Retryable(), p.Reason(), requestlog.FieldsOf(p.Fields)
	typeURL := problem.TypeURL(t.Config.ProblemsURL, p.Kind)
	call.header.Set("Link", "<"+typeURL+`>; rel="type"`)
	if p.RetryAfter > 0 {
		call.header.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Kind.Status == http.StatusUnauthorized {
		call.header.Set("WWW-Authenticate", `Bearer realm="stagedoor"`)
	}
	document, err := p.Document(problem.Place{ProblemsURL: t.Config.ProblemsURL, Instance: "urn:request:" + string(call.Request), LogURL: t.logURL(call)})
	if err != nil {
		t.Log.Error("problem not encoded", slog.String("code", p.Kind.Code), slog.Any("error", err))
		document = []byte(`{"type":"` + typeURL + `","title":"` + p.Kind.Title + `","status":` + strconv.Itoa(p.Kind.Status) +
			`,"code":"` + p.Kind.Code + `","retryable":false}`)
	}
	return &Problem{status: p.Kind.Status, document: document}
}

// withReconnect adds the page on which a person connects the account again, for a caller who could make such a page.
func (t *Table) withReconnect(call *Call, p *problem.Error) *problem.Error {
	if t.Reconnect == nil || call.account == "" || call.Identity.Principal == nil || !call.Identity.Scopes.Has(scope.AccountsWrite) {
		return p
	}
	url, err := t.Reconnect(call.request.Context(), call.Identity.Principal.Org.ID, call.account)
	if err != nil {
		t.Log.Warn("no reconnect link", slog.String("request_id", string(call.Request)), slog.Any("error", err))
		return p
	}
	return p.Plus("reconnect", map[string]string{"url": url})
}

// Fail answers a request with a problem. An answer that has begun is cut off instead: the caller must not take it for whole.
func (t *Table) Fail(w http.ResponseWriter, r *http.Request, err error) {
	call := From(r.Context())
	p := t.reply(call, err)
	if call.keyed != nil {
		call.keyed.withdraw()
	}
	if call.written.status != 0 {
		if call.fault = err; r.Context().Err() != nil {
			call.fault = nil // the caller has gone
		}
		panic(http.ErrAbortHandler)
	}
	if p.status == http.StatusRequestEntityTooLarge {
		drain(r.Body)
	}
	w.Header().Set("Content-Type", problem.ContentType)
	w.WriteHeader(p.status)
	// The caller may have gone; there is nobody left to tell.
	_, _ = w.Write(p.document)
}

// hooksOnce guards huma's package-level hooks, which all tables share.
var hooksOnce sync.Once

// setErrorHooks makes huma's own errors ours. Its default echoes rejected values, passwords included.
func setErrorHooks() {
	hooksOnce.Do(func() {
		// encoding/json takes "Scopes" for "scopes": two spellings of one name would get past every check of repeated names.
		huma.ValidateStrictCasing = true
		huma.DefaultArrayNullable = false // a list without anything in it is empty, never null
		huma.NewError = func(status int, _ string, _ ...error) huma.StatusError { return &Problem{status: status} }
		huma.NewErrorWithContext = func(ctx huma.Context, status int, _ string, errs ...error) huma.StatusError {
			call := From(ctx.Context())
			return call.table.reply(call, rejected(status, errs))
		}
	})
}

// rejected explains why huma did not accept a request. It uses huma's words about the schema, never the caller's values.
func rejected(status int, errs []error) error {
	switch status {
	case http.StatusNotAcceptable:
		return problem.NotAcceptable.New("The answer cannot be given in the media type asked for.")
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
		pointer, body := place(detail.Location, detail.Message)
		inBody = inBody && body
		code, text := explain(detail.Message)
		fields = append(fields, problem.Field{Pointer: pointer, Code: code, Detail: text})
	}
	p := problem.ValidationFailed.New("The body does not have the form that the operation expects.")
	if !inBody {
		p = problem.InvalidRequest.New("A query parameter, header or path parameter is not what the operation expects.")
	}
	p.Fields = fields
	return p
}

// Messages of huma's that name a property.
var (
	requiredProperty = regexp.MustCompile(`^expected required property (\S+) to be present$`)
	index            = regexp.MustCompile(`\[(\d+)\]`)
)

// place turns huma's location (body.scopes[0]) into a JSON pointer (/scopes/0).
func place(location, message string) (pointer string, inBody bool) {
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

// words are the codes of huma's messages, by how these begin.
var words = []struct{ start, code string }{
	{"expected required property", "required"}, {"required ", "required"}, {"unexpected property", "unknown"},
	{"unknown query parameter", "unknown"}, {"expected value to be one of", "enum"}, {"expected length", "length"},
	{"expected array length", "items"}, {"expected array items to be unique", "unique"}, {"expected number ", "range"},
	{"expected string to be", "format"}, {"expected string to match", "pattern"}, {"expected property", "required"},
	{"expected", "type"}, {"invalid", "type"}, {"json", "type"},
}

// explain gives a message a code, and cuts off what huma quotes behind a colon: it may be the caller's.
func explain(message string) (code, text string) {
	text, _, _ = strings.Cut(message, ": ")
	switch {
	case text == "json": // the decoder's own error quotes the value
		text = "cannot be read as the expected type"
	case strings.HasPrefix(text, "invalid date/time"): // it quotes a layout of Go's
		text = "expected a time as in RFC 3339, such as 2026-11-16T18:43:15.120Z"
	}
	for _, w := range words {
		if strings.HasPrefix(message, w.start) {
			return w.code, text
		}
	}
	return "invalid", text
}
