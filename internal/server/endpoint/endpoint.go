// Package endpoint is the one table of operations that a face serves, and everything that is done around them once:
// request ids, authentication, scopes, admission, body checks, problems, metrics, the log line, and the OpenAPI document.
//
// A face adds rows with Typed or Plain and gets an http.Handler. A row that lacks something (an audit action, a summary,
// an example of its body) stops the start, so what is not declared cannot be served.
package endpoint

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// Operation is one row of the table.
type Operation struct {
	// ID names the operation in the OpenAPI document, in logs and in usage.
	ID      string
	Method  string
	Path    string
	Summary string
	// Description says what a caller must know beyond the summary, in Markdown.
	Description string
	Tag         string
	// Public operations need no key.
	Public bool
	Scope  scope.Scope
	Quota  admission.Quota
	// Audit is the action that the operation writes to the audit log. An operation that changes something without an
	// entry says why in Unaudited.
	Audit     string
	Unaudited string
	// Status is that of success.
	Status int
	// Problems are the kinds it can answer with, beyond those that every operation can.
	Problems []problem.Kind
	// Example is a request body that works, for documents and for tests.
	Example any
	// Media are the types of a plain operation's success.
	Media []string
	// Answer is a value of the type that describes the body of an operation which writes bytes that it has already.
	Answer any
	// OtherForms are values of types that the body of the success can also have.
	OtherForms []any
	// OtherAnswers are successes of another status: a value of the type of each one's body, or nil for one of Media.
	OtherAnswers map[int]any
	// Conditional operations answer 304 to an If-None-Match that still holds.
	Conditional bool
	// Account names the path parameter that is the account; needed where the quota is one of an account's.
	Account string
	// Timeout bounds what the operation may take, if the default is not right for it. The connection's own limits follow it.
	Timeout time.Duration
	// Body is a value of the type that describes the JSON body of a plain operation; nil if it takes none.
	Body any
	// Takes are the types of a body that is no JSON; the operation reads it itself.
	Takes []string
	// Ticket finds out who calls by a token in the query, where a caller cannot send a header. Nil for an operation that takes none.
	Ticket func(r *http.Request, token string) (Identity, error)
	// Streams means that the answer is written as it is made, and cannot be kept for a repetition.
	Streams bool
	// Repeatable means that running it twice is as good as once. Only such an operation is run again under an
	// Idempotency-Key whose first run died half-way.
	Repeatable bool

	hasBody bool
	// unchecked bodies are JSON as far as their media type says; the operation reads them itself. Judged operations are added by Judged.
	unchecked, judged bool
	// bodyless operations do without one if none is sent.
	bodyless bool
	// keyed means that the operation takes an Idempotency-Key.
	keyed bool
	// json means that it can answer with JSON, secret that the answer can hold a secret which is shown only there.
	json, secret bool
}

// Identity is who calls.
type Identity struct {
	// Principal is nil for operators.
	Principal *apikey.Principal
	Scopes    scope.Set
	Kind      audit.ActorKind
	ID        string
	Label     string
}

// Authenticator finds out who calls.
type Authenticator interface {
	// Authenticate judges a bearer token. Its errors are problems.
	Authenticate(ctx context.Context, token string) (Identity, error)
	// Refresh reads an identity again that admission called stale.
	Refresh(ctx context.Context, id Identity) (Identity, error)
}

// admitter decides on calls; *admission.Limiter has it.
type admitter interface {
	Admit(ctx context.Context, c admission.Call) (admission.Decision, error)
}

// counter takes note of calls; *usage.Usage has it.
type counter interface{ Count(c usage.Call) }

// diary keeps requests for their org to read; *requestlog.Journal has it.
type diary interface{ Add(e requestlog.Entry) }

// Config are a face's settings.
type Config struct {
	Title       string
	Version     string
	Description string
	// PublicURL is where callers reach the face, without a slash at its end.
	PublicURL string
	// ProblemsURL is where the pages about problems are.
	ProblemsURL string
	// MaxStreams bounds the streams and held answers of a node; 0 for the default.
	MaxStreams int
}

// Deps is what a table needs.
type Deps struct {
	Config Config
	Auth   Authenticator
	// Browser is nil for a face that takes keys only.
	Browser *Browser
	// Admit and Count are nil for a face whose calls are not limited.
	Admit admitter
	Count counter
	// Journal is nil for a face whose calls nobody reads about.
	Journal diary
	// Idempotency is nil for a face that takes no Idempotency-Key.
	Idempotency once
	// Reconnect makes the address of a page on which a person connects an account again; nil for a face without accounts. It is part of
	// every answer account-disconnected, so it must be cheap.
	Reconnect func(ctx context.Context, org id.Org, account id.Account) (string, error)
	// Draining says that the process is about to stop.
	Draining func() bool
	// Source finds where a request comes from; SourceOf makes one.
	Source func(r *http.Request) string
	// HashIP makes a source unreadable but comparable.
	HashIP  func(source string) string
	Metrics *Metrics
	// Tracer is nil where nothing is traced.
	Tracer trace.Tracer
	Log    *slog.Logger
	Now    func() time.Time
}

// Table is a face's operations.
type Table struct {
	Deps
	mux  *http.ServeMux
	api  huma.API
	rows []*Operation
	// parts are added to the document when it is made.
	parts []func() (Part, error)
	// byPattern finds the row of a mux pattern.
	byPattern map[string]*Operation
	secure    http.Header
	// origins keeps pages of other sites from using a browser's cookie.
	origins OriginGuard
	// places are those of requests under way; streams counts those that have none because they wait most of the time.
	places  places
	streams atomic.Int64
	keeper  keeper
	// compressor wraps what serves an operation that answers with JSON.
	compressor func(http.Handler) http.HandlerFunc
}

// New makes an empty table.
func New(d Deps) *Table {
	setErrorHooks()
	t := &Table{Deps: d, mux: http.NewServeMux(), byPattern: map[string]*Operation{}, compressor: newCompressor()}
	t.origins = NewOriginGuard(d.Config.PublicURL)
	t.secure = secureHeaders(strings.HasPrefix(d.Config.PublicURL, "https:"))
	cfg := huma.DefaultConfig(d.Config.Title, d.Config.Version)
	cfg.CreateHooks = nil                  // no $schema member in bodies
	cfg.OpenAPIPath, cfg.DocsPath = "", "" // the document is served as an operation like any other
	cfg.SchemasPath = ""
	cfg.RejectUnknownQueryParameters = true // a misspelt filter must not return everything
	cfg.Info.Description = d.Config.Description
	cfg.Servers = []*huma.Server{{URL: d.Config.PublicURL}}
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	cfg.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[stamp.Time](), reflect.TypeFor[time.Time]())
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		securityScheme: {Type: "http", Scheme: "bearer", Description: "An API key: `Authorization: Bearer <API_KEY>`."},
	}
	if d.Browser != nil {
		cfg.Components.SecuritySchemes[browserScheme] = &huma.SecurityScheme{
			Type: "apiKey", In: "cookie", Name: d.Browser.Cookie, Description: "A browser that is signed in to the dashboard, from its own pages only. `Stagedoor-Org` names the organisation.",
		}
	}
	t.api = humago.New(guardedMux{t}, cfg)
	t.mux.HandleFunc("/", t.unmatched)
	return t
}

const (
	securityScheme = "apiKey"
	browserScheme  = "browser"
)

// guardedMux puts the guard around whatever huma registers.
type guardedMux struct{ t *Table }

func (m guardedMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	op := m.t.byPattern[pattern]
	m.t.mux.Handle(pattern, m.t.guard(op, http.HandlerFunc(h)))
}

func (m guardedMux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.t.mux.ServeHTTP(w, r) }

// Typed adds an operation whose input and output are Go types: the OpenAPI document and the validation come from them.
func Typed[I, O any](t *Table, op Operation, handle func(context.Context, *I) (*O, error)) {
	row := t.add(op)
	huma.Register(t.api, t.describe(row), func(ctx context.Context, in *I) (*O, error) {
		call := From(ctx)
		if err := t.enter(ctx, call); err != nil {
			return nil, t.reply(call, err)
		}
		ctx, cancel := context.WithTimeout(ctx, row.timeout())
		defer cancel()
		out, err := handle(ctx, in)
		if err != nil {
			return nil, t.reply(call, err)
		}
		return out, nil
	})
	markSensitive(t.schemas(), reflect.TypeFor[O]())
	if body, ok := reflect.TypeFor[O]().FieldByName("Body"); ok {
		refuseBareTimes(body.Type)
	}
	row.json, row.secret = true, row.mutates() && isSensitive(reflect.TypeFor[O]())
	describeInput[I](t, row)
}

// describeInput completes the description of what a typed operation takes.
func describeInput[I any](t *Table, row *Operation) {
	refuseHidden(row.ID, reflect.TypeFor[I]())
	row.hasBody = t.operation(row).RequestBody != nil
	row.bodyless = row.hasBody && !t.operation(row).RequestBody.Required
	markSensitive(t.schemas(), reflect.TypeFor[I]())
	allowNulls(t.schemas())
	if row.hasBody && row.Example == nil {
		panic(row.ID + " takes a body and has no example of it")
	}
	if row.hasBody {
		t.operation(row).RequestBody.Content["application/json"].Example = row.Example
	}
}

// refuseHidden stops the start if an input embeds a type that is not exported: huma would not see its fields, and refuse or drop what
// callers send in them.
func refuseHidden(operation string, input reflect.Type) {
	if input.Kind() != reflect.Struct {
		return
	}
	for field := range input.Fields() {
		if field.Anonymous && !field.IsExported() {
			panic(operation + " embeds " + field.Name + " in its input; export that type")
		}
		if field.Anonymous || field.Name == "Body" {
			refuseHidden(operation, field.Type)
		}
	}
}

// refuseBareTimes stops the start if an answer contains a time.Time, which writes as many decimals as it has.
func refuseBareTimes(answer reflect.Type) {
	if path := findBareTime(answer); path != "" {
		panic("an answer has a time.Time in " + path + "; use stamp.Time")
	}
}

// typedTimeout bounds what a typed operation may take.
const typedTimeout = 10 * time.Second

func (op *Operation) timeout() time.Duration {
	if op.Timeout > 0 {
		return op.Timeout
	}
	return typedTimeout
}

// Written adds an operation whose input is a Go type, and whose handler writes the answer itself: a long list, a stream, a
// picture. Nothing but the timeout that the operation declares bounds it.
func Written[I any](t *Table, op Operation, handle func(w http.ResponseWriter, r *http.Request, in *I) error) {
	row := t.add(op)
	described := t.describe(row)
	described.Responses[strconv.Itoa(row.Status)] = t.success(row)
	huma.Register(t.api, described, func(ctx context.Context, in *I) (*written, error) {
		call := From(ctx)
		if err := t.enter(ctx, call); err != nil {
			return nil, t.reply(call, err)
		}
		return &written{func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			t.handle(w, r, row, func(w http.ResponseWriter, r *http.Request) error { return handle(w, r, in) })
		}}, nil
	})
	describeInput[I](t, row)
	if len(row.Takes) > 0 {
		t.operation(row).RequestBody = t.bytes(row)
	}
}

// written is an answer that writes itself.
type written struct{ Body func(huma.Context) }

// Plain adds an operation that reads and writes HTTP itself. It is admitted before it runs. If it declares a body, that is
// sound JSON by then.
func Plain(t *Table, op Operation, handle func(http.ResponseWriter, *http.Request) error) {
	row := t.add(op)
	row.hasBody = row.Body != nil
	described := t.describe(row)
	described.Parameters = append(described.Parameters, pathParameters(row.Path)...)
	described.Responses[strconv.Itoa(row.Status)] = t.success(row)
	if row.hasBody {
		if row.Example == nil {
			panic(row.ID + " takes a body and has no example of it")
		}
		body := reflect.TypeOf(row.Body)
		described.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: t.schemas().Schema(body, true, row.ID+"Body"), Example: row.Example},
		}}
	}
	allowNulls(t.schemas())
	t.api.OpenAPI().AddOperation(&described)
	t.mux.Handle(row.pattern(), t.guard(row, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := t.enter(r.Context(), From(r.Context())); err != nil {
			t.Fail(w, r, err)
			return
		}
		t.handle(w, r, row, handle)
	})))
}

// handle runs a handler that writes HTTP itself.
func (t *Table) handle(w http.ResponseWriter, r *http.Request, row *Operation, handle func(http.ResponseWriter, *http.Request) error) {
	if row.Timeout > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), row.Timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	if err := handle(w, r); err != nil {
		t.Fail(w, r, err)
	}
}

// success describes what an operation answers that writes HTTP itself.
func (t *Table) success(row *Operation) *huma.Response {
	content := map[string]*huma.MediaType{}
	for _, m := range row.Media {
		content[m] = &huma.MediaType{}
	}
	if row.Answer != nil {
		content["application/json"] = &huma.MediaType{Schema: t.schema(row.Answer)}
	}
	return &huma.Response{Description: http.StatusText(row.Status), Content: content}
}

func (op *Operation) pattern() string { return op.Method + " " + op.Path }

func (op *Operation) mutates() bool {
	return op.Method != http.MethodGet && op.Method != http.MethodHead
}

// add checks a row and takes it into the table.
func (t *Table) add(op Operation) *Operation {
	row := &op
	mutates := op.mutates()
	switch {
	case op.ID == "" || op.Summary == "" || op.Tag == "" || op.Status == 0:
		panic(op.pattern() + " lacks an id, a summary, a tag or a status")
	case mutates && (op.Audit == "") == (op.Unaudited == ""):
		panic(op.pattern() + " must declare either its audit action or why it has none")
	case !mutates && op.Audit != "":
		panic(op.pattern() + " only reads; it cannot have an audit action")
	case op.Account == "" && (op.Quota == admission.Read || op.Quota == admission.Write):
		panic(op.pattern() + " uses an account's limits, and does not say which account's")
	case op.Account != "" && !slices.Contains(Parameters(op.Path), op.Account):
		panic(op.pattern() + " has no parameter " + op.Account)
	case t.byPattern[op.pattern()] != nil:
		panic(op.pattern() + " is declared twice")
	}
	row.json = op.Answer != nil || slices.Contains(op.Media, "application/json")
	row.secret = mutates && op.Answer != nil && isSensitive(reflect.TypeOf(op.Answer))
	row.keyed = mutates && !op.Public && !op.Streams && t.Idempotency != nil
	t.rows = append(t.rows, row)
	t.byPattern[op.pattern()] = row
	return row
}

// Operations lists the table. Tests that must hold for every operation, present and future, are made from it.
func (t *Table) Operations() []Operation {
	list := make([]Operation, len(t.rows))
	for i, row := range t.rows {
		list[i] = *row
	}
	return list
}

// HasBody says whether the operation takes a JSON body.
func (op Operation) HasBody() bool { return op.hasBody }

// parameter finds the names in a path: {id}, {code...}.
var parameter = regexp.MustCompile(`\{([a-zA-Z]+)(\.\.\.)?\}`)

// Parameters lists the names of a path's parameters.
func Parameters(path string) []string {
	var names []string
	for _, m := range parameter.FindAllStringSubmatch(path, -1) {
		names = append(names, m[1])
	}
	return names
}

func pathParameters(path string) []*huma.Param {
	var list []*huma.Param
	for _, name := range Parameters(path) {
		list = append(list, &huma.Param{Name: name, In: "path", Required: true, Schema: &huma.Schema{Type: huma.TypeString}})
	}
	return list
}
