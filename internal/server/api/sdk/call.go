// Package sdk has the operations of the public API that list the SDK's methods (methods.go, documents.go) and call them
// on accounts (call.go), which is the product's hot path. resolve turns a request into a call and call writes its
// response; the call itself is done by calls/invoke. Start reading at Routes.
package sdk

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// invoker runs calls. *invoke.Invoker implements it.
type invoker interface {
	Enter(ctx context.Context, c *invoke.Call, limits *org.Limits) (leave func(), err error)
	Do(ctx context.Context, c invoke.Call) (invoke.Answer, error)
}

// accounts finds accounts and says why one cannot be used. *account.Accounts implements it.
type accounts interface {
	Get(ctx context.Context, owner id.Org, at id.Account) (account.Account, error)
	PlatformOf(ctx context.Context, owner id.Org, at id.Account) (string, error)
	Refusal(a account.Account) error
}

// Deps are the dependencies of the operations.
type Deps struct {
	Invoke   invoker
	Accounts accounts
	// PublicURL is the address at which callers reach the service.
	PublicURL string
	Platforms registry.Registry
}

type calls struct {
	Deps
	documents *sdkDocuments
	// byEnvironment holds the platforms of each environment.
	byEnvironment map[environment.Environment][]registry.Platform
}

// argsBody describes arguments in general. Each method has its own path in the OpenAPI document.
type argsBody map[string]any

type resultBody struct {
	_      struct{} `schema:"MethodResult" doc:"The result of a call."`
	Result any      `json:"result" doc:"The result of the method; null in a dry run."`
	DryRun bool     `json:"dryRun,omitempty" doc:"True if nothing was sent."`
}

const (
	path = "/v1/accounts/{id}/{resource}/{method}"
	// timeout bounds a call with everything around it: the platform may be asked twice, with a probe in between.
	timeout = 65 * time.Second
)

// Routes adds the operations.
func Routes(t *endpoint.Table, d Deps) {
	c := &calls{Deps: d, documents: newSDKDocuments(d.PublicURL), byEnvironment: map[environment.Environment][]registry.Platform{}}
	for _, env := range environment.All() {
		c.byEnvironment[env] = d.Platforms.In(env)
	}
	c.listRoutes(t)
	problems := []problem.Kind{
		problem.MethodNotFound, problem.MethodNotAllowedForKey, problem.CredentialsNotAccepted, problem.AccountNotAllowedForKey, problem.AccountNotFound, problem.AccountPaused,
		problem.AccountDisconnected, problem.AccountReauthenticating, problem.PlatformUnavailable, problem.EgressUnavailable, problem.ValidationFailed,
		problem.UpstreamForbidden, problem.UpstreamCreatorOnly, problem.UpstreamAccountRestricted, problem.UpstreamNotFound,
		problem.UpstreamConflict, problem.UpstreamRejected, problem.UpstreamRateLimited, problem.UpstreamError, problem.UpstreamInvalidResponse,
		problem.UpstreamChanged, problem.UpstreamUnavailable, problem.UpstreamTimeout,
	}
	const about = "`GET /v1/sdk/methods` lists the methods with their arguments and results, and each has its own path in this document. "
	endpoint.Resolved(t, endpoint.Operation{
		ID: "callMethod", Method: http.MethodPost, Path: path, Tag: "SDK", Status: http.StatusOK, Scope: scope.SDKCall, Quota: admission.Plain,
		Account: "id", Timeout: timeout, Body: argsBody{}, Example: map[string]any{"chatId": "3438267820000000001", "text": "Thank you!"}, Answer: resultBody{},
		Unaudited: "every call is in the request log, and its changes are on the platform", Problems: problems,
		Summary: "Call a method", Description: about + "Send the arguments as fields, or as `{\"args\": [...]}` in the method's order. " +
			"`X-Dry-Run: true` checks everything and sends nothing. An `Idempotency-Key` makes retries of a write safe. `Prefer: handling=lenient` drops unknown arguments. " +
			"`Cache-Control: no-cache` keeps a read from sharing the response of an identical concurrent read.",
	}, c.resolve, c.call)
	endpoint.Resolved(t, endpoint.Operation{
		ID: "readMethod", Method: http.MethodGet, Path: path, Tag: "SDK", Status: http.StatusOK, Scope: scope.SDKCall, Quota: admission.Plain,
		Account: "id", Timeout: timeout, Answer: resultBody{}, Problems: append([]problem.Kind{problem.MethodNotAllowed}, problems...),
		Summary: "Call a read method", Description: about + "Send the arguments as query parameters: repeat lists or separate them with commas; send objects and positional arguments as JSON in `args`.",
	}, c.resolve, c.call)
}

type request struct {
	call invoke.Call
	dry  bool
}

// resolve finds the method and parses the arguments. A request that it refuses is not billed.
func (c *calls) resolve(r *http.Request, body []byte) (*request, endpoint.Terms, error) {
	call := endpoint.From(r.Context())
	caller, at := call.Identity.Principal, call.Account
	catalogue, err := c.catalogue(r.Context(), &caller.Org, at)
	if err != nil {
		return nil, endpoint.Terms{}, err
	}
	method, err := findMethod(catalogue, r)
	if err != nil {
		return nil, endpoint.Terms{}, err
	}
	call.RecordPlatform(method.Platform)
	terms := endpoint.Terms{Name: method.ID(), Quota: admission.Read, Repeatable: method.Access == catalog.Read}
	if method.Access == catalog.Write {
		terms.Quota, terms.Changes = admission.Write, true
	}
	if !caller.Key.Allow.MayCall(keyMethod(method)) {
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
		Fresh: fresh(r.Header), Away: call.Away,
	}, dry: dry}
	if at == "" {
		return nil, terms, endpoint.AccountNotFound()
	}
	if err := c.checkCredentials(r.Context(), catalogue, method, caller.Org.ID, at); err != nil {
		return nil, terms, err
	}
	if req.dry {
		terms.Quota, terms.Changes = admission.Plain, false
		return req, terms, nil
	}
	terms.Gate = func(ctx context.Context) (func(), error) { return c.Invoke.Enter(ctx, &req.call, &caller.Org.Limits) }
	return req, terms, nil
}

// checkCredentials fails if the platform does not accept the account's credentials for a method. It looks the account up
// only if the method does not accept all.
func (c *calls) checkCredentials(ctx context.Context, catalogue *catalog.Catalog, m *catalog.Method, owner id.Org, at id.Account) error {
	if len(m.Credentials) == 0 {
		return nil
	}
	a, err := c.Accounts.Get(ctx, owner, at)
	if err != nil {
		return err
	}
	return catalogue.RefuseCredentials(m, a.Credentials)
}

// catalogue returns the methods of an account's platform. If the environment has only one platform, it does not look
// the account up.
func (c *calls) catalogue(ctx context.Context, o *org.Org, at id.Account) (*catalog.Catalog, error) {
	list := c.byEnvironment[o.Environment]
	switch {
	case len(list) == 0:
		return nil, noPlatform()
	case len(list) == 1:
		return list[0].Catalog, nil
	}
	platform, err := c.Accounts.PlatformOf(ctx, o.ID, at)
	if errors.Is(err, problem.AccountNotFound.New("")) {
		return list[0].Catalog, nil // The method and its arguments are checked first, whichever platforms there are.
	}
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if p.ID == platform {
			return p.Catalog, nil
		}
	}
	return nil, registry.Unavailable(platform)
}

func noPlatform() error {
	return problem.ServiceUnavailable.New("No platform is configured for this environment.").After(60)
}

// keyMethod returns a method as the limits of a key name it.
func keyMethod(m *catalog.Method) apikey.Method {
	return apikey.Method{Platform: m.Platform, Resource: m.Resource, Name: m.Name, Sensitive: m.Sensitive}
}

// findMethod finds the method in the path.
func findMethod(catalogue *catalog.Catalog, r *http.Request) (*catalog.Method, error) {
	resource, name := r.PathValue("resource"), r.PathValue("method")
	m, ok := catalogue.Method(resource, name)
	if !ok && catalog.Reserved(resource) {
		return nil, problem.RouteNotFound.New("Nothing is served at this path.")
	}
	if !ok {
		near := catalogue.Nearest(resource, name)
		e := problem.MethodNotFound.New("The SDK has no such method. GET /v1/sdk/methods lists all methods.")
		if len(near) > 0 {
			e = problem.MethodNotFound.Newf("The SDK has no such method. Did you mean %s? GET /v1/sdk/methods lists all methods.", near[0])
		}
		return nil, e.With("suggestions", near)
	}
	if m.Access == catalog.Write && r.Method != http.MethodPost {
		endpoint.From(r.Context()).Header().Set("Allow", http.MethodPost)
		return nil, problem.MethodNotAllowed.Newf("%s is a write. Call it with POST.", m.ID())
	}
	return m, nil
}

// arguments parses the arguments in any of their forms.
func arguments(m *catalog.Method, r *http.Request, body []byte) (catalog.Args, error) {
	lenient := prefers(r.Header, "handling=lenient")
	if r.Method == http.MethodPost {
		if r.URL.RawQuery != "" {
			return catalog.Args{}, problem.InvalidRequest.New("Send the arguments of a POST in the body, not in the query.")
		}
		return m.Parse(body, lenient)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return catalog.Args{}, problem.InvalidRequest.New("The query string is malformed. Percent-encode special characters.")
	}
	return m.FromQuery(values, lenient)
}

// dryRun reports whether the request is a dry run. It rejects other values of the header: a misspelt dry run must not
// become a real call.
func dryRun(h http.Header) (bool, error) {
	switch h.Get(endpoint.DryRunHeader) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	}
	return false, problem.InvalidRequest.New("X-Dry-Run must be true or false.").At("header/"+endpoint.DryRunHeader, "enum", "must be true or false")
}

// prefers reports whether a Prefer header has a preference (RFC 7240).
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

// fresh reports whether a read must not share the response of another.
func fresh(h http.Header) bool {
	for _, line := range h["Cache-Control"] {
		if strings.Contains(strings.ToLower(line), "no-cache") {
			return true
		}
	}
	return false
}

func (c *calls) call(w http.ResponseWriter, r *http.Request, req *request) error {
	ctx := r.Context()
	call := endpoint.From(ctx)
	if req.dry {
		return c.dryRun(ctx, w, req)
	}
	req.call.Admission = call.Decision
	a, err := c.Invoke.Do(ctx, req.call)
	call.RecordUpstream(a.Took, a.Code)
	h := w.Header()
	// One backing array for all header values, to save allocations.
	backing := [...]string{string(a.State), strconv.FormatInt(a.Took.Milliseconds(), 10), strconv.Itoa(len(a.Whole))}
	values := backing[:]
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
	// The caller may have disconnected.
	_, _ = w.Write(a.Whole)
	return nil
}

var jsonType = []string{"application/json"}

// dryRun reports what would happen to the call, as far as is known without the platform.
func (c *calls) dryRun(ctx context.Context, w http.ResponseWriter, req *request) error {
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
