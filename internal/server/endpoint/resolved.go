package endpoint

import (
	"context"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// Terms are the properties of a request that can depend on its contents: what it is called, which limits it uses, and
// whether it changes something. See Resolved.
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

// Resolved adds an operation whose terms depend on the request. resolve parses the request and returns its terms (what
// it refuses is not billed), then the request passes its gate and is admitted on these terms, then handle runs. A dry
// run is never stored under an Idempotency-Key: the real run with the same key would get its response.
func Resolved[P any](
	t *Table, op Operation, resolve func(r *http.Request, body []byte) (P, Terms, error),
	handle func(w http.ResponseWriter, r *http.Request, p P) error,
) {
	row := t.add(op)
	row.resolved = true
	row.hasBody = row.Body != nil
	row.bodyOptional = row.hasBody
	described := t.describe(row)
	described.Parameters = append(described.Parameters, pathParameters(row.Path)...)
	described.Responses[strconv.Itoa(row.Status)] = t.success(row)
	if row.hasBody {
		described.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{
			"application/json": {Schema: t.api.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(row.Body), true, row.ID+"Body"), Example: inOrder(row.Example, reflect.TypeOf(row.Body))},
		}}
	}
	t.api.OpenAPI().AddOperation(&described)
	t.mux.Handle(row.pattern(), t.guard(row, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := From(r.Context())
		p, terms, err := resolve(r, call.body)
		if err != nil && t.refreshLimits(r.Context(), call) {
			p, terms, err = resolve(r, call.body)
		}
		before := call.Identity.Principal
		err = t.serveResolved(r.Context(), call, terms, err, func() error {
			if after := call.Identity.Principal; after != before && !after.Key.Allow.Equal(&before.Key.Allow) {
				// Admission found that the limits of the key have changed since resolve checked them.
				if p, _, err = resolve(r, call.body); err != nil {
					return err
				}
			}
			return handle(w, r, p)
		})
		if err != nil {
			t.Fail(w, r, err)
		}
	})))
}

// serveResolved admits and handles a call on its own terms. refused is the error of resolve; the terms then only name
// the call.
func (t *Table) serveResolved(ctx context.Context, call *Call, terms Terms, refused error, handle func() error) error {
	call.terms.Name = terms.Name
	if refused != nil {
		return refused
	}
	if terms.Gate != nil {
		leave, err := terms.Gate(ctx)
		if err != nil {
			return err
		}
		defer leave()
	}
	if call.Account == "" {
		terms.Quota = call.terms.Quota // An account's limits need an account.
	}
	call.terms = terms
	if err := t.admit(ctx, call); err != nil {
		return err
	}
	return handle()
}

// dryRun reports whether a request only asks what would happen.
func dryRun(op *Operation, r *http.Request) bool {
	return op.resolved && r.Header.Get(DryRunHeader) == "true"
}
