// Package endpoint is the HTTP layer below all operations of a server (the public API and the admin API). It holds the
// table of operations and does once what every operation needs: request ids, authentication, scopes, admission, body
// checks, idempotency keys, problems, compression, streams, metrics, the log line, and the OpenAPI document.
//
// A server adds operations with Typed, Written, Plain or Resolved and serves the Table as an http.Handler. An
// incomplete operation (no audit action, no summary, no example of its body) panics at start, so an undeclared
// operation cannot be served. The operations themselves are in server/api and server/admin.
//
// Start reading at Operation, then at Table.ServeHTTP and steps in guard.go, which show the order of all checks.
package endpoint

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
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

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// Operation is one row of the table: the declaration of one HTTP operation.
type Operation struct {
	// ID names the operation in the OpenAPI document, in logs and in usage.
	ID      string
	Method  string
	Path    string
	Summary string
	// Description is Markdown and says what a caller needs to know beyond the summary.
	Description string
	Tag         string
	// Public operations need no key.
	Public bool
	Scope  scope.Scope
	Quota  admission.Quota
	// Audit is the action that the operation writes to the audit log. An operation that changes something without an
	// entry gives the reason in Unaudited.
	Audit     string
	Unaudited string
	// Status is the status of a successful response.
	Status int
	// Problems are the kinds that the operation can return, in addition to those that every operation can return.
	Problems []problem.Kind
	// Example is a valid request body, for documents and for tests.
	Example any
	// Media are the media types of a successful response that the handler writes itself.
	Media []string
	// Answer is a value of the type that describes the JSON body of a response that the handler writes itself.
	Answer any
	// OtherForms are values of further types that the body of a successful response can have.
	OtherForms []any
	// OtherAnswers are successful responses with another status: a value of the type of the body, or nil for one of
	// Media.
	OtherAnswers map[int]any
	// Conditional operations answer 304 to an If-None-Match that matches.
	Conditional bool
	// Account names the path parameter that is the account id. It is required if the quota is Read or Write.
	Account string
	// Timeout bounds the operation if the default of typedTimeout is not right for it. The deadlines of the connection
	// follow it.
	Timeout time.Duration
	// Body is a value of the type that describes the JSON body of a plain operation; nil if it has none.
	Body any
	// Takes are the media types of a request body that is not JSON. The operation reads it itself.
	Takes []string
	// Ticket authenticates a token in the query, for callers that cannot send a header. Nil if the operation accepts
	// none.
	Ticket func(r *http.Request, token string) (Identity, error)
	// Recent means that a browser may call it only if its person signed in a few minutes ago. Keys are not affected.
	Recent bool
	// Streams means that the response is written as it is produced and cannot be stored for an Idempotency-Key.
	Streams bool
	// WhileDeleting means that the operation also serves browsers whose organisation is suspended because it is being
	// deleted.
	WhileDeleting bool
	// Deprecated says that the operation will be removed; nil if not.
	Deprecated *Deprecation
	// Repeatable means that running the operation twice has the same effect as once. Only such an operation is run
	// again under an Idempotency-Key whose first run died half-way.
	Repeatable bool

	hasBody bool
	// resolved means that the operation was added by Resolved, and parses its query and its body itself.
	resolved bool
	// bodyOptional means that a request without a body is accepted.
	bodyOptional bool
	// keyed means that the operation accepts an Idempotency-Key.
	keyed bool
	// json means that the response can be JSON, secret that it can contain a secret that is shown only once.
	json, secret bool
}

// Identity is the authenticated caller.
type Identity struct {
	// Principal is nil for operators.
	Principal *apikey.Principal
	Scopes    scope.Set
	Kind      audit.ActorKind
	ID        string
	Label     string
}

// Authenticator maps credentials to identities.
type Authenticator interface {
	// Authenticate checks a bearer token. Its errors are problems.
	Authenticate(ctx context.Context, token string) (Identity, error)
	// Refresh reloads an identity that admission reported as stale.
	Refresh(ctx context.Context, id Identity) (Identity, error)
}

// admitter decides whether a call may run. *admission.Limiter implements it.
type admitter interface {
	Admit(ctx context.Context, c admission.Call) (admission.Decision, error)
}

// counter counts calls for usage. *usage.Usage implements it.
type counter interface{ Count(c usage.Call) }

// requestLog stores requests for their org to read. *requestlog.Journal implements it.
type requestLog interface{ Add(e requestlog.Entry) }

// Config holds the settings of a server.
type Config struct {
	Title       string
	Version     string
	Description string
	// PublicURL is the address at which callers reach the server, without a trailing slash.
	PublicURL string
	// ProblemsURL is the address of the pages about problems.
	ProblemsURL string
	// MaxStreams bounds the streams and held responses of a node; 0 means maxStreams.
	MaxStreams int
	// Choices are the values of members with the tag choices, by the value of the tag. The document has them as an enum.
	Choices map[string][]string
	// ChoicesGrow means that more values can be added while the server runs. The document then says so, and the services
	// check the values.
	ChoicesGrow bool
}

// Deps are the dependencies of a Table.
type Deps struct {
	Config Config
	Auth   Authenticator
	// Browser is nil for a server that accepts keys only.
	Browser *Browser
	// Admit and Count are nil for a server whose calls are not limited.
	Admit admitter
	Count counter
	// Journal is nil for a server that keeps no request log.
	Journal requestLog
	// Idempotency is nil for a server that accepts no Idempotency-Key.
	Idempotency *idempotency.Keys
	// Reconnect returns the address of a page on which a person reconnects an account; nil for a server without
	// accounts. It is called for every account-disconnected problem, so it must be cheap.
	Reconnect func(ctx context.Context, org id.Org, account id.Account) (string, error)
	// Draining reports whether the process is about to stop.
	Draining func() bool
	// Source returns the network that a request comes from; see SourceOf.
	Source func(r *http.Request) string
	// Address returns the address that a request comes from, for keys that are limited to networks; see AddressOf. Nil if
	// no caller has such a key.
	Address func(r *http.Request) netip.Addr
	// HashIP hides a source but keeps equal sources equal.
	HashIP  func(source string) string
	Metrics *Metrics
	// Tracer is nil if nothing is traced.
	Tracer trace.Tracer
	Log    *slog.Logger
	Now    func() time.Time
	// Local is this machine's clock, for the deadlines of connections. Default: clock.Now.
	Local func() time.Time
}

// Table is the set of operations that a server offers, and their http.Handler. Operations are added before it serves.
type Table struct {
	deps Deps
	mux  *http.ServeMux
	api  huma.API
	rows []*Operation
	// parts are added to the OpenAPI document when it is generated.
	parts []func() (Part, error)
	// examples are added to it as well.
	examples Examples
	// byPattern finds a row by its mux pattern.
	byPattern map[string]*Operation
	secure    http.Header
	// origins keeps pages of other sites from using a browser's cookie.
	origins OriginGuard
	// inFlight counts the requests that are being processed. Streams and held requests are idle most of the time and
	// are counted in streams instead.
	inFlight inFlight
	// door sheds requests if the node is overloaded.
	door     door
	streams  atomic.Int64
	registry streamRegistry
	// scopes are those that an operation needs. The document describes them.
	scopes scope.Set
	// adding is the operation that is being added. It names the schema of its request.
	adding string
	// events is nil if the document has no webhooks section.
	events *eventSection
	// compressor wraps the handler of an operation that returns JSON.
	compressor func(http.Handler) http.HandlerFunc
}

// New returns an empty table.
func New(d Deps) *Table {
	setErrorHooks()
	if d.Local == nil {
		d.Local = clock.Now
	}
	t := &Table{deps: d, door: door{now: d.Local}, mux: http.NewServeMux(), byPattern: map[string]*Operation{}, compressor: newCompressor()}
	t.origins = NewOriginGuard(d.Config.PublicURL)
	t.secure = secureHeaders(strings.HasPrefix(d.Config.PublicURL, "https:"))
	cfg := huma.DefaultConfig(d.Config.Title, d.Config.Version)
	cfg.CreateHooks = nil                  // no $schema member in bodies
	cfg.OpenAPIPath, cfg.DocsPath = "", "" // the document is served as an operation like any other
	cfg.SchemasPath = ""
	cfg.RejectUnknownQueryParameters = true // a misspelt filter must not return everything
	cfg.Info.Description = d.Config.Description
	cfg.Info.Contact = &huma.Contact{Name: "Stagedoor", URL: project}
	cfg.Info.License = &huma.License{Name: "Apache 2.0", Identifier: "Apache-2.0"}
	cfg.Servers = []*huma.Server{{URL: d.Config.PublicURL}}
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", t.schemaName)
	cfg.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[stamp.Time](), reflect.TypeFor[time.Time]())
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		securityScheme: {Type: "http", Scheme: "bearer", Description: "An API key: `Authorization: Bearer <API_KEY>`."},
	}
	if d.Browser != nil {
		cfg.Components.SecuritySchemes[browserScheme] = &huma.SecurityScheme{
			Type: "apiKey", In: "cookie", Name: d.Browser.Cookie, Description: "The session of a browser that is signed in to the dashboard. Accepted only from the dashboard's own pages. `Stagedoor-Org` names the organisation.",
		}
	}
	t.api = humago.New(guardedMux{t}, cfg)
	t.mux.HandleFunc("/", t.unmatched)
	return t
}

// project is the address of the project.
const project = "https://github.com/stagedoor/stagedoor"

const (
	securityScheme = "apiKey"
	browserScheme  = "browser"
)

// guardedMux puts the guard around every handler that huma registers.
type guardedMux struct{ t *Table }

func (m guardedMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	op := m.t.byPattern[pattern]
	m.t.mux.Handle(pattern, m.t.guard(op, http.HandlerFunc(h)))
}

func (m guardedMux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.t.mux.ServeHTTP(w, r) }

// Typed adds an operation whose input and output are Go types. The OpenAPI document and the validation are derived from
// them.
func Typed[I, O any](t *Table, op Operation, handle func(context.Context, *I) (*O, error)) {
	row := t.add(op)
	huma.Register(t.api, t.describe(row), func(ctx context.Context, in *I) (*O, error) {
		call := From(ctx)
		if err := t.admit(ctx, call); err != nil {
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

// describeInput completes the description of the input of a typed operation.
func describeInput[I any](t *Table, row *Operation) {
	refuseHidden(row.ID, reflect.TypeFor[I]())
	for _, parameter := range t.operation(row).Parameters {
		// Some parameters of all operations and servers share a schema, so write only what changes.
		if parameter.Schema != nil && parameter.Schema.PatternDescription != "" {
			parameter.Schema.PatternDescription = "" // Its message is computed; OpenAPI has no such member.
		}
	}
	row.hasBody = t.operation(row).RequestBody != nil
	row.bodyOptional = row.hasBody && !t.operation(row).RequestBody.Required
	markSensitive(t.schemas(), reflect.TypeFor[I]())
	t.completeSchemas()
	if row.hasBody && row.Example == nil {
		panic(row.ID + " takes a body and has no example of it")
	}
	if body, ok := reflect.TypeFor[I]().FieldByName("Body"); ok && row.hasBody {
		t.operation(row).RequestBody.Content["application/json"].Example = inOrder(row.Example, body.Type)
	}
}

// refuseHidden panics if an input embeds an unexported type: huma would not see its fields, and would reject or drop
// what callers send in them.
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

// refuseBareTimes panics if a response contains a time.Time, which is encoded with as many decimals as it has.
func refuseBareTimes(answer reflect.Type) {
	if path := findBareTime(answer); path != "" {
		panic("a response has a time.Time in " + path + "; use stamp.Time")
	}
}

// typedTimeout bounds an operation that declares no timeout.
const typedTimeout = 10 * time.Second

func (op *Operation) timeout() time.Duration {
	if op.Timeout > 0 {
		return op.Timeout
	}
	return typedTimeout
}

// Written adds an operation whose input is a Go type and whose handler writes the response itself: a long list, a
// stream, a picture. It is bounded only by the timeout that the operation declares.
func Written[I any](t *Table, op Operation, handle func(w http.ResponseWriter, r *http.Request, in *I) error) {
	row := t.add(op)
	described := t.describe(row)
	described.Responses[strconv.Itoa(row.Status)] = t.success(row)
	huma.Register(t.api, described, func(ctx context.Context, in *I) (*written, error) {
		call := From(ctx)
		if err := t.admit(ctx, call); err != nil {
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

// written is a response body that writes itself.
type written struct{ Body func(huma.Context) }

// Plain adds an operation that reads and writes HTTP itself. The handler runs after admission. A declared body has been
// checked to be valid JSON by then.
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
			"application/json": {Schema: t.schemas().Schema(body, true, row.ID+"Body"), Example: inOrder(row.Example, body)},
		}}
	}
	t.completeSchemas()
	t.api.OpenAPI().AddOperation(&described)
	t.mux.Handle(row.pattern(), t.guard(row, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := t.admit(r.Context(), From(r.Context())); err != nil {
			t.Fail(w, r, err)
			return
		}
		t.handle(w, r, row, handle)
	})))
}

// handle runs a handler that writes HTTP itself, within the declared timeout.
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

// success describes the response of an operation that writes HTTP itself.
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

// add validates an operation and appends it to the table. It panics if the operation is incomplete or contradictory.
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
	case op.Deprecated != nil && op.Deprecated.Sunset.Before(op.Deprecated.Since.AddDate(1, 0, 0)):
		panic(op.pattern() + " ends less than 12 months after callers were told")
	case op.Account == "" && (op.Quota == admission.Read || op.Quota == admission.Write):
		panic(op.pattern() + " uses an account's limits but names no account parameter")
	case op.Account != "" && !slices.Contains(Parameters(op.Path), op.Account):
		panic(op.pattern() + " has no parameter " + op.Account)
	case t.byPattern[op.pattern()] != nil:
		panic(op.pattern() + " is declared twice")
	}
	row.json = op.Answer != nil || slices.Contains(op.Media, "application/json")
	row.secret = mutates && op.Answer != nil && isSensitive(reflect.TypeOf(op.Answer))
	row.keyed = mutates && !op.Public && !op.Streams && t.deps.Idempotency != nil
	t.rows, t.adding = append(t.rows, row), op.ID
	t.byPattern[op.pattern()] = row
	t.scopes |= scope.Of(op.Scope)
	t.api.OpenAPI().Components.SecuritySchemes[securityScheme].Extensions = map[string]any{
		"x-scopes": t.scopes.Definitions(),
	}
	return row
}

// Operations returns copies of all operations. Tests of rules that hold for every operation iterate over them.
func (t *Table) Operations() []Operation {
	list := make([]Operation, len(t.rows))
	for i, row := range t.rows {
		list[i] = *row
	}
	return list
}

// HasBody reports whether the operation accepts a JSON body.
func (op Operation) HasBody() bool { return op.hasBody }

// parameter matches the names in a path: {id}, {code...}.
var parameter = regexp.MustCompile(`\{([a-zA-Z]+)(\.\.\.)?\}`)

// Parameters returns the names of a path's parameters.
func Parameters(path string) []string {
	var names []string
	for _, m := range parameter.FindAllStringSubmatch(path, -1) {
		names = append(names, m[1])
	}
	return names
}

// parameterDocs describes the path parameters of operations that read them themselves.
var parameterDocs = map[string]string{
	"id": "The account's id.", "attemptId": "The attempt's id.", "code": "The code of the problem.",
	"resource": "A resource of the platform, such as messages.", "method": "A method of the resource, such as send.",
}

func pathParameters(path string) []*huma.Param {
	var list []*huma.Param
	for _, name := range Parameters(path) {
		list = append(list, &huma.Param{
			Name: name, In: "path", Required: true, Description: parameterDocs[name], Schema: &huma.Schema{Type: huma.TypeString},
		})
	}
	return list
}
