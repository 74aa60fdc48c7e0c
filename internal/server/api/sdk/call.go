// Package sdk is the part of the public face that lists the SDK's methods (methods.go, documents.go) and calls them on accounts (call.go):
// the product's hot path. It turns a request into a call (judge), and its answer into one (call); the call itself is package invoke's.
package sdk

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// invoker carries calls; *invoke.Invoker does.
type invoker interface {
	Enter(ctx context.Context, c *invoke.Call, limits *org.Limits) (leave func(), err error)
	Do(ctx context.Context, c invoke.Call) (invoke.Answer, error)
}

// accounts says where an account stands; *account.Accounts does.
type accounts interface {
	Get(ctx context.Context, owner id.Org, at id.Account) (account.Account, error)
	Refusal(a account.Account) error
}

// Deps is what the calls need.
type Deps struct {
	Invoke   invoker
	Accounts accounts
	// PublicURL is where callers reach the service.
	PublicURL string
	// Catalogs are what can be called, by the org's environment.
	Catalogs map[org.Environment]*catalog.Catalog
}

// Calls are the operations.
type Calls struct {
	Deps
	documents *sdkDocuments
}

// argsBody describes the arguments in general; each method has its own path in the document.
type argsBody map[string]any

// resultBody is the answer.
type resultBody struct {
	Result any  `json:"result" doc:"What the method returns; null in a dry run."`
	DryRun bool `json:"dryRun,omitempty" doc:"True if nothing was sent."`
}

const (
	path = "/v1/accounts/{id}/{resource}/{method}"
	// timeout is for a call with everything around it: the platform may be asked twice, and a probe come between.
	timeout = 65 * time.Second
)

// Routes adds the operations.
func Routes(t *endpoint.Table, d Deps) {
	c := &Calls{Deps: d, documents: newSDKDocuments(d.PublicURL)}
	c.listRoutes(t)
	problems := []problem.Kind{
		problem.MethodNotFound, problem.MethodNotAllowedForKey, problem.AccountNotAllowedForKey, problem.AccountNotFound, problem.AccountPaused,
		problem.AccountDisconnected, problem.AccountReauthenticating, problem.EgressUnavailable, problem.ValidationFailed,
		problem.UpstreamForbidden, problem.UpstreamCreatorOnly, problem.UpstreamAccountRestricted, problem.UpstreamNotFound,
		problem.UpstreamConflict, problem.UpstreamRejected, problem.UpstreamRateLimited, problem.UpstreamError, problem.UpstreamInvalidResponse,
		problem.UpstreamChanged, problem.UpstreamUnavailable, problem.UpstreamTimeout,
	}
	const about = "The methods, with their arguments and results, are listed by `GET /v1/sdk/methods`, and each has a path of its own in this document. "
	endpoint.Judged(t, endpoint.Operation{
		ID: "callMethod", Method: http.MethodPost, Path: path, Tag: "SDK", Status: http.StatusOK, Scope: scope.SDKCall, Quota: admission.Plain,
		Account: "id", Timeout: timeout, Body: argsBody{}, Example: map[string]any{"chatId": "3438267820000000001", "text": "Thank you!"}, Answer: resultBody{},
		Unaudited: "every call is in the request log, and what it changes is on the platform", Problems: problems,
		Summary: "Call a method", Description: about + "Send the arguments as fields, or as `{\"args\": [...]}` in the method's order. " +
			"`X-Dry-Run: true` checks everything and sends nothing. An `Idempotency-Key` makes repeating a write safe. `Prefer: handling=lenient` drops unknown arguments. " +
			"`Cache-Control: no-cache` keeps a read from sharing the answer of an identical one that is under way.",
	}, c.judge, c.call)
	endpoint.Judged(t, endpoint.Operation{
		ID: "readMethod", Method: http.MethodGet, Path: path, Tag: "SDK", Status: http.StatusOK, Scope: scope.SDKCall, Quota: admission.Plain,
		Account: "id", Timeout: timeout, Answer: resultBody{}, Problems: append([]problem.Kind{problem.MethodNotAllowed}, problems...),
		Summary: "Call a method that reads", Description: about + "The arguments are query parameters: lists by repetition or with commas, objects and positions as `args` in JSON.",
	}, c.judge, c.call)
}

// request is a call that was judged.
type request struct {
	call invoke.Call
	dry  bool
}

// judge finds out what is to be called, and with what. Nothing of it costs the caller anything.
func (c *Calls) judge(r *http.Request, body []byte) (*request, endpoint.Terms, error) {
	caller, at := endpoint.Caller(r.Context()), endpoint.From(r.Context()).Account()
	method, err := c.method(caller.Org.Environment, r)
	if err != nil {
		return nil, endpoint.Terms{}, err
	}
	terms := endpoint.Terms{Name: method.ID(), Quota: admission.Read, Repeatable: method.Access == catalog.Read}
	if method.Access == catalog.Write {
		terms.Quota, terms.Changes = admission.Write, true
	}
	if !caller.Key.Allow.MayCall(method.Resource, method.Name, method.Sensitive) {
		return nil, terms, problem.MethodNotAllowedForKey.Newf("This key may not call %s.", method.ID()).With("method", method.ID())
	}
	dry, err := dryRun(r.Header)
	if err != nil {
		return nil, terms, err
	}
	args, err := arguments(method, r, body)
	if err != nil {
		return nil, terms, err
	}
	req := &request{call: invoke.Call{
		Org: caller.Org.ID, Account: at, Method: method, Args: args,
		Fresh: fresh(r.Header),
	}, dry: dry}
	if at == "" {
		return nil, terms, problem.AccountNotFound.New("The organisation has no account with this id.")
	}
	if req.dry {
		terms.Quota, terms.Changes = admission.Plain, false
		return req, terms, nil
	}
	terms.Gate = func(ctx context.Context) (func(), error) { return c.Invoke.Enter(ctx, &req.call, &caller.Org.Limits) }
	return req, terms, nil
}

// method finds what the path names.
func (c *Calls) method(env org.Environment, r *http.Request) (*catalog.Method, error) {
	resource, name := r.PathValue("resource"), r.PathValue("method")
	catalogue := c.Catalogs[env]
	if catalogue == nil {
		return nil, problem.ServiceUnavailable.New("No platform is set up for this environment.").After(60)
	}
	m, ok := catalogue.Method(resource, name)
	if !ok && catalog.Reserved(resource) {
		return nil, problem.RouteNotFound.New("Nothing is served at this path.")
	}
	if !ok {
		near := catalogue.Nearest(resource, name)
		e := problem.MethodNotFound.New("The SDK has no such method. GET /v1/sdk/methods lists all of them.")
		if len(near) > 0 {
			e = problem.MethodNotFound.Newf("The SDK has no such method. Is %s meant? GET /v1/sdk/methods lists all of them.", near[0])
		}
		return nil, e.With("suggestions", near)
	}
	if m.Access == catalog.Write && r.Method != http.MethodPost {
		endpoint.From(r.Context()).Header().Set("Allow", http.MethodPost)
		return nil, problem.MethodNotAllowed.Newf("%s changes something, so it must be called by POST.", m.ID())
	}
	return m, nil
}

// arguments reads them in whatever form they came.
func arguments(m *catalog.Method, r *http.Request, body []byte) (catalog.Args, error) {
	lenient := prefers(r.Header, "handling=lenient")
	if r.Method == http.MethodPost {
		if r.URL.RawQuery != "" {
			return catalog.Args{}, problem.InvalidRequest.New("A POST takes its arguments in the body, not in the query.")
		}
		return m.Parse(body, lenient)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return catalog.Args{}, problem.InvalidRequest.New("The query string is not well-formed; escape what is special in it.")
	}
	return m.FromQuery(values, lenient)
}

// dryRun says whether nothing is to be sent. Who asks for it in other words must not be taken for somebody who does not.
func dryRun(h http.Header) (bool, error) {
	switch h.Get(endpoint.DryRunHeader) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	}
	return false, problem.InvalidRequest.New("X-Dry-Run must be true or false.").At("header/"+endpoint.DryRunHeader, "enum", "must be true or false")
}

// prefers says whether a Prefer header names a preference (RFC 7240).
func prefers(h http.Header, wanted string) bool {
	for _, line := range h["Prefer"] {
		for one := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.ReplaceAll(strings.TrimSpace(one), " ", ""), wanted) {
				return true
			}
		}
	}
	return false
}

// fresh says whether a read must not share another one's answer.
func fresh(h http.Header) bool {
	for _, line := range h["Cache-Control"] {
		if strings.Contains(strings.ToLower(line), "no-cache") {
			return true
		}
	}
	return false
}

// call carries it out.
func (c *Calls) call(w http.ResponseWriter, r *http.Request, req *request) error {
	ctx := r.Context()
	call := endpoint.From(ctx)
	if req.dry {
		return c.dryRun(ctx, w, req)
	}
	req.call.Admission = call.Decision
	a, err := c.Invoke.Do(ctx, req.call)
	call.Upstream(a.Took, a.Code)
	h := w.Header()
	told := [...]string{string(a.State), strconv.FormatInt(a.Took.Milliseconds(), 10), strconv.Itoa(len(a.Whole))}
	values := told[:]
	if a.State != "" {
		h["X-Account-State"] = values[0:1:1]
	}
	if a.Took > 0 {
		h["X-Upstream-Duration-Ms"] = values[1:2:2]
	}
	if err != nil {
		return err
	}
	h["Content-Type"], h["Content-Length"] = jsonType, values[2:3:3]
	if r.Method == http.MethodHead {
		return nil
	}
	// The caller may have gone; there is nobody left to tell.
	_, _ = w.Write(a.Whole)
	return nil
}

var jsonType = []string{"application/json"}

// dryRun says what would become of the call, as far as that is known without the platform.
func (c *Calls) dryRun(ctx context.Context, w http.ResponseWriter, req *request) error {
	a, err := c.Accounts.Get(ctx, req.call.Org, req.call.Account)
	if err != nil {
		return err
	}
	if err := c.Accounts.Refusal(a); err != nil {
		return err
	}
	w.Header().Set("X-Account-State", string(a.State))
	w.Header()["Content-Type"] = jsonType
	_, _ = w.Write([]byte(`{"result":null,"dryRun":true}` + "\n"))
	return nil
}
