package connect

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/curlimport"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

type cookieInput struct {
	endpoint.Prefer
	Body struct {
		Common
		Cookie    *secret.String           `json:"cookie,omitempty" maxLength:"16384" sensitive:"true" doc:"A Cookie header, a JSON export of a browser extension, or a Netscape cookies.txt."`
		Cookies   []cookieBody             `json:"cookies,omitempty" maxItems:"200" doc:"Cookies in the form that browser extensions export. Unknown members are ignored. Send exactly one of cookie and cookies."`
		UserAgent string                   `json:"user_agent" minLength:"1" maxLength:"512" doc:"The User-Agent that the browser sent with these cookies."`
		Headers   map[string]secret.String `json:"headers,omitempty" maxProperties:"32" doc:"Headers that the platform ties to the session. GET /v1/connect/flows lists them."`
	}
}

type cookieBody struct {
	// Extensions export more members, such as expirationDate, sameSite, session, storeId and partitionKey.
	_        struct{}      `schema:"Cookie" additionalProperties:"true" doc:"A cookie of the platform."`
	Name     string        `json:"name" minLength:"1" maxLength:"256" doc:"The name of the cookie."`
	Value    secret.String `json:"value" maxLength:"8192" sensitive:"true" doc:"The value of the cookie."`
	Domain   *string       `json:"domain,omitempty" maxLength:"256" doc:"Default: the platform's own domain."`
	Path     *string       `json:"path,omitempty" maxLength:"1024" doc:"The path of the cookie. Default: /."`
	HostOnly *bool         `json:"hostOnly,omitempty" doc:"True if the cookie is not sent to subdomains."`
	Expires  any           `json:"expires,omitempty" doc:"Ignored: the platform is asked whether the session is valid."`
	HTTPOnly *bool         `json:"httpOnly,omitempty" doc:"Ignored."`
	Secure   *bool         `json:"secure,omitempty" doc:"Ignored."`
}

type tokenInput struct {
	endpoint.Prefer
	Body struct {
		Common
		Token secret.String `json:"token" minLength:"1" maxLength:"512" sensitive:"true" doc:"The key as its owner copied it. GET /v1/connect/flows says what the platform calls it and where it is."`
	}
}

type curlInput struct {
	endpoint.Prefer
	Body struct {
		Common
		Curl   secret.String `json:"curl" maxLength:"65536" sensitive:"true" doc:"The command from the browser's Copy as cURL (bash, cmd or PowerShell). It is parsed, never executed."`
		DryRun bool          `json:"dry_run,omitempty" doc:"Only report what was found. Nothing is stored or counted."`
	}
}

// Extracted names what was found in a command.
type Extracted struct {
	_       struct{} `schema:"CurlExtract" doc:"The session that was found in a cURL command."`
	Cookies []string `json:"cookies" doc:"Names of the cookies that will be used."`
	Headers []string `json:"headers" doc:"Names of the headers that will be used."`
	Missing []string `json:"missing" doc:"Names that the platform requires and the command lacks."`
}

type curlAnswer struct {
	_ struct{} `schema:"CurlAttempt" doc:"A connect attempt, with what was found in the cURL command."`
	*contract.Attempt
	Extracted Extracted `json:"extracted" doc:"Names only, never values."`
}

// curlFound is the response to a dry run.
type curlFound struct {
	Extracted Extracted `json:"extracted" doc:"Names only, never values."`
}

type curlOutput struct {
	Location   string `header:"Location"`
	RetryAfter string `header:"Retry-After"`
	ETag       string `header:"ETag"`
	Status     int
	Body       curlAnswer
}

type flowsInput struct {
	Platform string `query:"platform" maxLength:"32" doc:"The platform. Default: the first one of GET /v1/platforms."`
}

type flowsOutput struct {
	Body struct {
		_     struct{}   `schema:"ConnectFlowList" doc:"The methods to connect an account."`
		Flows []flowBody `json:"flows" doc:"The ways to connect an account."`
	}
}

type flowBody struct {
	_              struct{}    `schema:"ConnectFlow" doc:"A method to connect an account."`
	Kind           string      `json:"kind" doc:"The kind of the attempts that it starts."`
	Name           string      `json:"name" doc:"The name to show to people."`
	Fields         []flowField `json:"fields" doc:"What the person must enter."`
	ProxyCountries []string    `json:"proxy_countries" doc:"The regions through which the account's traffic can leave."`
	Enabled        bool        `json:"enabled" doc:"Whether it can be used now."`
	Help           string      `json:"help,omitempty" doc:"Where to find the input on the platform."`
}

type flowField struct {
	_         struct{} `schema:"ConnectFlowField" doc:"An input of a connect method."`
	ID        string   `json:"id" doc:"The name of the member to send."`
	Type      string   `json:"type" enum:"email,password,text,url,cookie,header,boolean" doc:"The kind of input, such as email or password."`
	Required  bool     `json:"required" doc:"Whether it must be sent."`
	Pattern   string   `json:"pattern,omitempty" doc:"The regular expression that the value must match."`
	MaxLength int      `json:"max_length,omitempty" doc:"The largest number of characters."`
}

func (a *operations) importRoutes(t *endpoint.Table) {
	endpoint.Typed(t, endpoint.Operation{
		ID: "connectToken", Method: http.MethodPost, Path: "/v1/connect/token", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Audit: "connect.start", Timeout: endpoint.WaitTimeout, Problems: startProblems,
		Summary: "Connect with a key of the platform", Description: "For platforms that issue keys to programs, which is what they recommend: checks the key through the account's region and stores it encrypted. " +
			"No person signs in, and no code is asked for. A key that the platform refuses ends the attempt with the failure `session_invalid`.",
		Example: map[string]any{"platform": "ghost", "site": "https://maya.example.com", "token": "<id>:<secret>", "label": "Maya"},
	}, a.connectToken)
	imported := append([]problem.Kind{problem.SessionIncomplete}, startProblems...)
	endpoint.Typed(t, endpoint.Operation{
		ID: "connectCookie", Method: http.MethodPost, Path: "/v1/connect/cookie", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Audit: "connect.start", Timeout: endpoint.WaitTimeout, Problems: imported,
		Summary: "Connect with cookies", Description: "For your own accounts: checks a session that was copied from a browser, through the account's region, and stores it encrypted.",
		Example: map[string]any{"cookie": "auth_id=1; sess=abc", "user_agent": "Mozilla/5.0", "headers": map[string]string{"x-device": "abc"}, "proxy_country": "us"},
	}, a.connectCookie)
	endpoint.Typed(t, endpoint.Operation{
		ID: "connectCurl", Method: http.MethodPost, Path: "/v1/connect/curl", Tag: tag, Status: http.StatusAccepted,
		Scope: scope.AccountsWrite, Quota: admission.Plain, Audit: "connect.start", Timeout: endpoint.WaitTimeout,
		Problems: append([]problem.Kind{problem.CurlUnparseable, problem.CurlUnsupported, problem.CurlWrongHost}, imported...),
		Summary:  "Connect with a copied cURL command", Description: "Reads the session from the command of a browser's Copy as cURL. With `dry_run` the response is 200 and only reports what was found.",
		OtherAnswers: map[int]any{http.StatusOK: curlFound{}},
		Example:      map[string]any{"curl": "curl 'https://platform.example/' -H 'cookie: auth_id=1; sess=abc' -H 'user-agent: Mozilla/5.0'", "dry_run": true},
	}, a.connectCurl)
	endpoint.Typed(t, endpoint.Operation{
		ID: "listFlows", Method: http.MethodGet, Path: "/v1/connect/flows", Tag: tag, Status: http.StatusOK, Quota: admission.Free,
		Problems: []problem.Kind{problem.InvalidRequest},
		Summary:  "List connect methods", Description: "The input of each connect method, for building a form from it. `enabled` is false if no platform is available to the organisation.",
	}, a.listFlows)
}

// newImport returns the start of an attempt with a copied session, its platform, and the hosts whose cookies count.
func (a *operations) newImport(ctx context.Context, kind attempt.Kind, in Common) (connect.Start, registry.Platform, []string, error) {
	s, err := a.newStart(ctx, kind, in)
	if err != nil {
		return s, registry.Platform{}, nil, err
	}
	p, place, err := a.Connects.Locate(ctx, &s)
	return s, p, p.Hosts(place.Root), err
}

func (a *operations) connectToken(ctx context.Context, in *tokenInput) (*attemptOutput, error) {
	s, err := a.newStart(ctx, attempt.Token, in.Body.Common)
	if err != nil {
		return nil, err
	}
	s.Token = in.Body.Token
	return a.startAttempt(ctx, s)
}

func (a *operations) connectCookie(ctx context.Context, in *cookieInput) (*attemptOutput, error) {
	s, p, hosts, err := a.newImport(ctx, attempt.Cookie, in.Body.Common)
	if err != nil {
		return nil, err
	}
	if (in.Body.Cookie == nil) == (in.Body.Cookies == nil) {
		return nil, problem.ValidationFailed.New("Send exactly one of cookie and cookies.").At("", "oneOf", "must have exactly one of cookie and cookies")
	}
	var cookies map[string]secret.String
	if in.Body.Cookie != nil {
		cookies, err = curlimport.Cookies(*in.Body.Cookie, hosts)
	} else {
		list := make([]curlimport.Cookie, len(in.Body.Cookies))
		for i, c := range in.Body.Cookies {
			list[i] = curlimport.Cookie{Name: c.Name, Value: c.Value, Domain: deref(c.Domain), Path: deref(c.Path), HostOnly: deref(c.HostOnly)}
		}
		cookies, err = curlimport.List(list, hosts)
	}
	if err != nil {
		return nil, err
	}
	bad := problem.ValidationFailed.New("Some headers are not session headers.")
	for name := range in.Body.Headers {
		if !slices.Contains(p.Catalog.Session.Headers.Allowed, strings.ToLower(name)) {
			bad.At("/headers/"+name, "unknown", "is not a session header; the session headers are "+strings.Join(p.Catalog.Session.Headers.Allowed, ", "))
		}
	}
	if len(bad.Fields) > 0 {
		return nil, bad
	}
	session, missing := driver.NewSession(p.Catalog, cookies, in.Body.Headers, in.Body.UserAgent)
	if len(missing) > 0 {
		return nil, incomplete(missing)
	}
	s.Imported = &session
	return a.startAttempt(ctx, s)
}

func incomplete(missing []string) error {
	return problem.SessionIncomplete.Newf("The session lacks %s.", strings.Join(missing, ", ")).With("missing", missing)
}

func (a *operations) connectCurl(ctx context.Context, in *curlInput) (*curlOutput, error) {
	s, p, hosts, err := a.newImport(ctx, attempt.Curl, in.Body.Common)
	if err != nil {
		return nil, err
	}
	pasted, err := curlimport.Curl(in.Body.Curl, hosts)
	if err != nil {
		return nil, err
	}
	session, missing := driver.NewSession(p.Catalog, pasted.Cookies, pasted.Headers, pasted.UserAgent)
	found := extracted(p.Catalog, pasted, missing)
	if in.Body.DryRun {
		return &curlOutput{Status: http.StatusOK, Body: curlAnswer{Extracted: found}}, nil
	}
	if len(missing) > 0 {
		return nil, incomplete(missing)
	}
	s.Imported = &session
	out, err := a.startAttempt(ctx, s)
	if err != nil {
		return nil, err
	}
	return &curlOutput{out.Location, out.RetryAfter, out.ETag, out.Status, curlAnswer{
		Attempt: out.Body, Extracted: found,
	}}, nil
}

// extracted returns the names of what is used of a command.
func extracted(c *catalog.Catalog, p curlimport.Pasted, missing []string) Extracted {
	out := Extracted{Cookies: []string{}, Headers: []string{}, Missing: missing}
	for name := range p.Cookies {
		if slices.Contains(c.Session.Cookies.Kept, name) {
			out.Cookies = append(out.Cookies, name)
		}
	}
	for name := range p.Headers {
		if slices.Contains(c.Session.Headers.Allowed, name) {
			out.Headers = append(out.Headers, name)
		}
	}
	if p.UserAgent != "" {
		out.Headers = append(out.Headers, "user-agent")
	}
	if out.Missing == nil {
		out.Missing = []string{}
	}
	slices.Sort(out.Cookies)
	slices.Sort(out.Headers)
	return out
}

func (a *operations) listFlows(ctx context.Context, in *flowsInput) (*flowsOutput, error) {
	out := &flowsOutput{}
	env := endpoint.Caller(ctx).Org.Environment
	_, ok := a.Platforms.Default(env)
	var p registry.Platform
	if ok {
		var err error
		if p, err = a.Platforms.Choose(env, in.Platform); err != nil {
			return nil, problem.InvalidRequest.New("There is no such platform.").At("query/platform", "unknown", "is not a platform of GET /v1/platforms")
		}
	}
	label := flowField{ID: "label", Type: "text", MaxLength: 120}
	flow := func(kind attempt.Kind, name string, fields ...flowField) {
		if ok && p.Catalog.Site != nil {
			fields = append([]flowField{{ID: "site", Type: "url", Required: true, MaxLength: 2048}}, fields...)
		}
		out.Body.Flows = append(out.Body.Flows, flowBody{
			Kind: string(kind), Name: name, Fields: append(fields, label), ProxyCountries: a.Regions(), Enabled: ok && p.Has(string(kind)),
		})
	}
	if ok && p.Has(string(attempt.OAuth)) {
		flow(attempt.OAuth, "The page of "+p.Catalog.Name)
	}
	if ok && p.Has(string(attempt.Token)) {
		flow(attempt.Token, p.Catalog.Session.JWT.Name, flowField{ID: "token", Type: "password", Required: true, MaxLength: 512})
		out.Body.Flows[len(out.Body.Flows)-1].Help = p.Catalog.Session.JWT.Where
	}
	flow(attempt.Credentials, "Email and password", flowField{ID: "email", Type: "email", Required: true, MaxLength: 254},
		flowField{ID: "password", Type: "password", Required: true, MaxLength: 1024}, flowField{ID: "remember_credentials", Type: "boolean"})
	flow(attempt.Mobile, "The creator's phone")
	var session []flowField
	if ok {
		for _, name := range p.Catalog.Session.Cookies.Required {
			session = append(session, flowField{ID: name, Type: "cookie", Required: true})
		}
		for _, name := range p.Catalog.Session.Headers.Allowed {
			session = append(session, flowField{ID: name, Type: "header", Required: slices.Contains(p.Catalog.Session.Headers.Required, name)})
		}
	}
	flow(attempt.Cookie, "Cookies", append([]flowField{{ID: "cookie", Type: "text", Required: true, MaxLength: 16384}, {ID: "user_agent", Type: "text", Required: true, MaxLength: 512}}, session...)...)
	flow(attempt.Curl, "Copy as cURL", flowField{ID: "curl", Type: "text", Required: true, MaxLength: 65536})
	return out, nil
}
