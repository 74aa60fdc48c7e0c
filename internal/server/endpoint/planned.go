package endpoint

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// Terms are the properties of one request of a planned operation: what it is called, which limits it uses, and whether
// it changes something.
type Terms struct {
	// Name replaces the operation's id in usage and logs, for example messages.send.
	Name  string
	Quota admission.Quota
	// Changes means that the request may change something, so a fault half-way leaves the outcome unknown.
	Changes bool
	// Repeatable is as in Operation.
	Repeatable bool
	// Gate is passed before the request is admitted, so that a request refused there consumes nothing. leave is called
	// when the request is done. Nil for none.
	Gate func(ctx context.Context) (leave func(), err error)
}

// DryRunHeader asks what would happen without doing it.
const DryRunHeader = "X-Dry-Run"

// Planned adds an operation whose terms depend on the request. plan parses the request and returns its terms (what it
// refuses is not billed), then the request passes its gate and is admitted on these terms, then handle runs. A dry run
// is never stored under an Idempotency-Key: the real run with the same key would get its response.
func Planned[P any](
	t *Table, op Operation, plan func(r *http.Request, body []byte) (P, Terms, error), handle func(w http.ResponseWriter, r *http.Request, p P) error,
) {
	row := t.add(op)
	row.unchecked, row.planned = true, true
	row.hasBody = row.Body != nil
	row.bodyOptional = row.hasBody
	described := t.describe(row)
	described.Parameters = append(described.Parameters, pathParameters(row.Path)...)
	described.Responses[strconv.Itoa(row.Status)] = t.success(row)
	if row.hasBody {
		described.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{
			"application/json": {Schema: t.api.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(row.Body), true, row.ID+"Body"), Example: row.Example},
		}}
	}
	t.api.OpenAPI().AddOperation(&described)
	t.mux.Handle(row.pattern(), t.guard(row, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := t.servePlanned(r, func(call *Call) (Terms, func() error, error) {
			p, terms, err := plan(r, call.body)
			return terms, func() error { return handle(w, r, p) }, err
		}); err != nil {
			t.Fail(w, r, err)
		}
	})))
}

func (t *Table) servePlanned(r *http.Request, plan func(*Call) (Terms, func() error, error)) error {
	ctx := r.Context()
	call := From(ctx)
	terms, handle, err := plan(call)
	call.name = terms.Name
	if err != nil {
		return err
	}
	if terms.Gate != nil {
		leave, err := terms.Gate(ctx)
		if err != nil {
			return err
		}
		defer leave()
	}
	call.changes, call.repeatable = terms.Changes, terms.Repeatable
	if call.account != "" {
		call.quota = terms.Quota
	}
	if err := t.admitAndReserve(ctx, call); err != nil {
		return err
	}
	return handle()
}

// Account returns the account in the path; empty if there is none or its id is malformed.
func (c *Call) Account() id.Account { return c.account }

// Header returns the header of the response, which is also sent if the response becomes a problem.
func (c *Call) Header() http.Header { return c.header }

// Upstream records the time that the platform took, and its own code if it refused.
func (c *Call) Upstream(took time.Duration, code int) { c.upstream, c.upstreamCode = took, code }

// dryRun reports whether a request only asks what would happen.
func dryRun(op *Operation, r *http.Request) bool {
	return op.planned && r.Header.Get(DryRunHeader) == "true"
}
