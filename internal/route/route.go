// Package route is the one table of operations that a face serves, and everything that is done around them once:
// request ids, authentication, scopes, admission, body checks, problems, metrics, the log line, and the OpenAPI document.
//
// A face adds rows with Typed or Plain and gets an http.Handler. A row that lacks something (an audit action, a summary,
// an example of its body) stops the start, so what is not declared cannot be served.
package route

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/apikey"
	"github.com/stagedoor/stagedoor/internal/audit"
	"github.com/stagedoor/stagedoor/internal/limit"
	"github.com/stagedoor/stagedoor/internal/problem"
	"github.com/stagedoor/stagedoor/internal/scope"
	"github.com/stagedoor/stagedoor/internal/usage"
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
	Quota  limit.Quota
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
	// Conditional operations answer 304 to an If-None-Match that still holds.
	Conditional bool

	hasBody bool
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

// admitter decides on calls; *limit.Limiter has it.
type admitter interface {
	Admit(ctx context.Context, c limit.Call) (limit.Decision, error)
}

// counter takes note of calls; *usage.Usage has it.
type counter interface{ Count(c usage.Call) }

// Config are a face's settings.
type Config struct {
	Title       string
	Version     string
	Description string
	// PublicURL is where callers reach the face, without a slash at its end.
	PublicURL string
	// ProblemsURL is where the pages about problems are.
	ProblemsURL string
}

// Deps is what a table needs.
type Deps struct {
	Config Config
	Auth   Authenticator
	// Admit and Count are nil for a face whose calls are not limited.
	Admit admitter
	Count counter
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
	inFlight  atomic.Int64
}

// New makes an empty table.
func New(d Deps) *Table {
	setErrorHooks()
	t := &Table{Deps: d, mux: http.NewServeMux(), byPattern: map[string]*Operation{}}
	t.secure = secureHeaders(strings.HasPrefix(d.Config.PublicURL, "https:"))
	cfg := huma.DefaultConfig(d.Config.Title, d.Config.Version)
	cfg.CreateHooks = nil                  // no $schema member in bodies
	cfg.OpenAPIPath, cfg.DocsPath = "", "" // the document is served as an operation like any other
	cfg.SchemasPath = ""
	cfg.RejectUnknownQueryParameters = true // a misspelt filter must not return everything
	cfg.Info.Description = d.Config.Description
	cfg.Servers = []*huma.Server{{URL: d.Config.PublicURL}}
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		securityScheme: {Type: "http", Scheme: "bearer", Description: "An API key: `Authorization: Bearer <API_KEY>`."},
	}
	t.api = humago.New(guardedMux{t}, cfg)
	t.mux.HandleFunc("/", t.unmatched)
	return t
}

const securityScheme = "apiKey"

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
		if err := t.admit(ctx, call); err != nil {
			return nil, t.reply(call, err)
		}
		ctx, cancel := context.WithTimeout(ctx, typedTimeout)
		defer cancel()
		out, err := handle(ctx, in)
		if err != nil {
			return nil, t.reply(call, err)
		}
		return out, nil
	})
	row.hasBody = t.operation(row).RequestBody != nil
	t.markSensitive(reflect.TypeFor[I]())
	t.markSensitive(reflect.TypeFor[O]())
	if row.hasBody && row.Example == nil {
		panic(fmt.Sprintf("%s takes a body and has no example of it", row.ID))
	}
	if row.hasBody {
		t.operation(row).RequestBody.Content["application/json"].Example = row.Example
	}
}

// typedTimeout bounds what a typed operation may take.
const typedTimeout = 10 * time.Second

// Plain adds an operation that reads and writes HTTP itself. It is admitted before it runs.
func Plain(t *Table, op Operation, handle func(http.ResponseWriter, *http.Request) error) {
	row := t.add(op)
	described := t.describe(row)
	described.Parameters = pathParameters(row.Path)
	media := map[string]*huma.MediaType{}
	for _, m := range row.Media {
		media[m] = &huma.MediaType{}
	}
	described.Responses[fmt.Sprint(row.Status)] = &huma.Response{Description: http.StatusText(row.Status), Content: media}
	t.api.OpenAPI().AddOperation(&described)
	t.mux.Handle(row.pattern(), t.guard(row, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := From(r.Context())
		err := t.admit(r.Context(), call)
		if err == nil {
			err = handle(w, r)
		}
		if err != nil {
			t.Fail(w, r, err)
		}
	})))
}

func (op *Operation) pattern() string { return op.Method + " " + op.Path }

// add checks a row and takes it into the table.
func (t *Table) add(op Operation) *Operation {
	row := &op
	mutates := op.Method != http.MethodGet && op.Method != http.MethodHead
	switch {
	case op.ID == "" || op.Summary == "" || op.Tag == "" || op.Status == 0:
		panic(op.pattern() + " lacks an id, a summary, a tag or a status")
	case mutates && (op.Audit == "") == (op.Unaudited == ""):
		panic(op.pattern() + " must declare either its audit action or why it has none")
	case !mutates && op.Audit != "":
		panic(op.pattern() + " only reads; it cannot have an audit action")
	case op.Quota == limit.Read || op.Quota == limit.Write:
		panic(op.pattern() + " uses an account's limits, and nothing here says which account's yet")
	case t.byPattern[op.pattern()] != nil:
		panic(op.pattern() + " is declared twice")
	}
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
