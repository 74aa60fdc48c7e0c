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

// Terms are what one request of an operation uses and may do, where the operation alone does not say.
type Terms struct {
	// Name stands for the operation in usage and logs, such as messages.send.
	Name  string
	Quota admission.Quota
	// Changes means that it may change something, so that a fault in the middle leaves the outcome open.
	Changes bool
	// Repeatable is as an operation's.
	Repeatable bool
	// Gate is passed before the request is admitted, so that who is turned away there has used nothing up. What it returns is called
	// when the request is over. Nil for none.
	Gate func(ctx context.Context) (leave func(), err error)
}

// DryRunHeader asks what would happen, and that nothing does.
const DryRunHeader = "X-Dry-Run"

// Judged adds an operation that decides for each request what it is. It judges first (what it refuses is not billed), then the request is
// admitted on its terms, then it is handled. A dry run is never kept under an Idempotency-Key: the run that it was for would be told
// its answer.
func Judged[P any](
	t *Table, op Operation, judge func(r *http.Request, body []byte) (P, Terms, error), handle func(w http.ResponseWriter, r *http.Request, p P) error,
) {
	row := t.add(op)
	row.unchecked, row.judged = true, true
	row.hasBody = row.Body != nil
	row.bodyless = row.hasBody
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
		if err := t.serveJudged(r, func(call *Call) (Terms, func() error, error) {
			p, terms, err := judge(r, call.body)
			return terms, func() error { return handle(w, r, p) }, err
		}); err != nil {
			t.Fail(w, r, err)
		}
	})))
}

func (t *Table) serveJudged(r *http.Request, judge func(*Call) (Terms, func() error, error)) error {
	ctx := r.Context()
	call := From(ctx)
	terms, handle, err := judge(call)
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
	if err := t.enter(ctx, call); err != nil {
		return err
	}
	return handle()
}

// Account is the account that the path names; empty if it names none, or in a way that no account has.
func (c *Call) Account() id.Account { return c.account }

// Header is that of the answer, also of one that will be a problem.
func (c *Call) Header() http.Header { return c.header }

// Upstream notes what the platform took, and its own code if it refused.
func (c *Call) Upstream(took time.Duration, code int) { c.upstream, c.upstreamCode = took, code }

// dryRun says whether a request only asks what would happen.
func dryRun(op *Operation, r *http.Request) bool {
	return op.judged && r.Header.Get(DryRunHeader) == "true"
}
