package driver

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// OAuthClient is what the operator has registered at a platform.
type OAuthClient struct {
	ID string
	// Secret is empty for a client that has none and relies on PKCE alone.
	Secret secret.String
	// RedirectURI is our address to which the platform sends the creator back.
	RedirectURI string
}

// ErrNoOAuth means that the platform has no sign-in by OAuth, or that the operator has configured no client for it.
var ErrNoOAuth = errors.New("the platform has no sign-in by OAuth, or no client is configured")

// oauth holds the endpoints of the authorization server.
type oauth struct {
	spec   *catalog.OAuth
	client OAuthClient
	// authorize is the whole URL; token and revoke are split for egress. revoke is zero if there is none.
	authorize     string
	token, revoke endpoint
}

type endpoint struct {
	origin, path string
	origins      egress.Origins
}

// newOAuth returns nil if the platform or the operator has none.
func newOAuth(d Deps) (*oauth, error) {
	spec := d.Catalog.SignIn.OAuth
	if spec == nil || d.OAuth.ID == "" {
		return nil, nil //nolint:nilnil // nil is a driver without OAuth
	}
	o := &oauth{spec: spec, client: d.OAuth}
	whole := func(address string) string {
		if strings.HasPrefix(address, "/") {
			return strings.TrimSuffix(d.Origin, "/") + address
		}
		return address
	}
	o.authorize = whole(spec.Authorize)
	for _, at := range []struct {
		address string
		into    *endpoint
	}{{spec.Token, &o.token}, {spec.Revoke, &o.revoke}} {
		if at.address == "" {
			continue
		}
		u, err := url.Parse(whole(at.address))
		if err != nil {
			return nil, fmt.Errorf("platform %s: signIn.oauth: %w", d.Catalog.ID, err)
		}
		at.into.origin, at.into.path = u.Scheme+"://"+u.Host, u.EscapedPath()
		if at.into.origins, err = egress.ParseOrigins(at.into.origin); err != nil {
			return nil, fmt.Errorf("platform %s: signIn.oauth: %w", d.Catalog.ID, err)
		}
	}
	return o, nil
}

// HasOAuth reports whether accounts can be connected by OAuth.
func (d *HTTP) HasOAuth() bool { return d.oauth != nil }

// AuthorizeURL returns the platform's page on which the creator agrees. state comes back with the code; the platform
// learns only a hash of the verifier, which Exchange then proves.
func (d *HTTP) AuthorizeURL(state, verifier secret.String) (secret.String, error) {
	if d.oauth == nil {
		return secret.String{}, ErrNoOAuth
	}
	sum := sha256.Sum256([]byte(verifier.Reveal()))
	query := url.Values{
		"response_type": {"code"}, "client_id": {d.oauth.client.ID}, "redirect_uri": {d.oauth.client.RedirectURI}, "state": {state.Reveal()},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	if len(d.oauth.spec.Scopes) > 0 {
		query.Set("scope", strings.Join(d.oauth.spec.Scopes, " "))
	}
	for name, value := range d.oauth.spec.Send {
		query.Set(name, value)
	}
	return secret.New(d.oauth.authorize + "?" + query.Encode()), nil
}

// Exchange exchanges an authorization code for a session. A code works once, so the caller must not repeat the step,
// even if it fails.
func (d *HTTP) Exchange(ctx context.Context, via Via, code, verifier secret.String) (Step, error) {
	if d.oauth == nil {
		return Step{}, ErrNoOAuth
	}
	t, err := d.requestTokens(ctx, via, url.Values{
		"grant_type": {"authorization_code"}, "code": {code.Reveal()}, "redirect_uri": {d.oauth.client.RedirectURI},
		"code_verifier": {verifier.Reveal()},
	})
	if err == nil {
		return Step{Session: &Session{oauth: t}}, nil
	}
	if ctx.Err() != nil {
		return Step{}, fmt.Errorf("exchange a code: %w", context.Cause(ctx))
	}
	refused, ok := errors.AsType[*Refused](err)
	if !ok {
		f, known := transportFailure(err)
		if errors.Is(err, errTokenResponse) {
			f, known = Failure{Code: FailChanged}, true
		}
		if !known {
			return Step{}, fmt.Errorf("exchange a code: %w", err)
		}
		return failedStep(f), nil
	}
	f := Failure{UpstreamCode: refused.Code, RetryAfter: refused.RetryAfter}
	switch refused.Kind { //nolint:exhaustive // requestTokens returns only these kinds
	case catalog.RefusedSession:
		f.Code, f.Retryable = failExpired, true // the code is too old, or was used
	case catalog.RefusedUnavailable, catalog.RefusedRateLimited:
		f.Code, f.Retryable = FailUnavailable, true
	default:
		f.Code = FailChanged
	}
	return failedStep(f), nil
}

// failExpired is the failure of a sign-in that was not finished in time.
const failExpired = "expired"

// refreshMethod stands for a refresh in problems. It counts as a read, because it changes nothing of the creator's.
var refreshMethod = &catalog.Method{Resource: "session", Name: "refresh", Access: catalog.Read}

// Refresh exchanges the refresh token of a session for a new session. The platform may end the old refresh token, so the
// caller must store the new session before it uses it, and must not send the same token twice. If the platform does not
// accept the token, the error is a *Refused of kind session. Other errors are problems, or the context's.
func (d *HTTP) Refresh(ctx context.Context, via Via, s Session) (Session, error) {
	switch {
	case d.oauth == nil:
		return Session{}, problem.UpstreamUnavailable.New("This server has no OAuth client for the account's platform.").Because(ErrNoOAuth)
	case !s.CanRefresh():
		return Session{}, &Refused{Refusal: catalog.Refusal{Kind: catalog.RefusedSession}}
	}
	t, err := d.requestTokens(ctx, via, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {s.oauth.refresh.Reveal()}})
	refused, ok := errors.AsType[*Refused](err)
	switch {
	case err == nil:
		if t.refresh.Empty() { // the platform does not rotate it
			t.refresh = s.oauth.refresh
		}
		if t.scope == "" {
			t.scope = s.oauth.scope
		}
		s.oauth = t
		return s, nil
	case ok && refused.Kind == catalog.RefusedSession:
		return Session{}, refused
	case ok:
		return Session{}, refused.Problem(refreshMethod)
	case errors.Is(err, errTokenResponse):
		return Session{}, responseProblem(refreshMethod, errors.Join(catalog.ErrChanged, err))
	}
	return Session{}, d.transportProblem(ctx, refreshMethod, err)
}

// revokeTokens ends a session on the platform. It revokes the refresh token, with which the access tokens end (RFC 7009).
func (d *HTTP) revokeTokens(ctx context.Context, via Via, s Session) error {
	if d.oauth == nil || d.oauth.revoke.path == "" {
		return nil
	}
	form := url.Values{"token": {s.oauth.refresh.Reveal()}, "token_type_hint": {"refresh_token"}}
	if s.oauth.refresh.Empty() {
		form = url.Values{"token": {s.oauth.access.Reveal()}, "token_type_hint": {"access_token"}}
	}
	r, err := d.postForm(ctx, via, d.oauth.revoke, form)
	if err != nil {
		return fmt.Errorf("revoke tokens: %w", err)
	}
	if !r.ok() {
		return fmt.Errorf("revoke tokens: %w", d.oauth.refusal(r))
	}
	return nil
}

// tokens are the credentials of an OAuth session.
type tokens struct {
	access secret.String
	// refresh is empty if the platform issued none. Then the session ends with the access token.
	refresh secret.String
	// issued is when the response arrived; expires is zero if the platform did not say.
	issued, expires time.Time
	scope           string
}

// Bounds of a token response. Tokens are sent in headers and forms.
const (
	maxTokenResponse = 64 << 10
	maxToken         = 16 << 10
	maxScope         = 4 << 10
	// maxTokenLife bounds expires_in, in seconds: ten years.
	maxTokenLife = maxCookieAge
)

// errTokenResponse means that a response of the token endpoint is not what RFC 6749 says.
var errTokenResponse = errors.New("the token response is not valid")

// requestTokens sends a grant to the token endpoint. The error is *Refused for an error response, errTokenResponse, or an
// error of egress. No error contains a part of the response, apart from the error code of RFC 6749.
func (d *HTTP) requestTokens(ctx context.Context, via Via, form url.Values) (*tokens, error) {
	r, err := d.postForm(ctx, via, d.oauth.token, form)
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		return nil, d.oauth.refusal(r)
	}
	var in struct {
		AccessToken  string      `json:"access_token"`
		TokenType    string      `json:"token_type"`
		ExpiresIn    json.Number `json:"expires_in"`
		RefreshToken string      `json:"refresh_token"`
		Scope        string      `json:"scope"`
	}
	if json.Unmarshal(r.body, &in) != nil {
		return nil, errTokenResponse
	}
	if !isToken(in.AccessToken) || in.RefreshToken != "" && !isToken(in.RefreshToken) || !strings.EqualFold(in.TokenType, "bearer") || len(in.Scope) > maxScope {
		return nil, errTokenResponse
	}
	t := &tokens{access: secret.New(in.AccessToken), refresh: secret.New(in.RefreshToken), issued: d.deps.Now().UTC(), scope: in.Scope}
	if in.ExpiresIn != "" {
		seconds, err := in.ExpiresIn.Float64()
		if err != nil || seconds <= 0 {
			return nil, errTokenResponse
		}
		t.expires = t.issued.Add(time.Duration(min(seconds, maxTokenLife) * float64(time.Second)))
	}
	return t, nil
}

// isToken reports whether a text can be sent as a token: printable ASCII without spaces.
func isToken(text string) bool {
	return text != "" && len(text) <= maxToken && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// refusal classifies an error response of RFC 6749, section 5.2.
func (o *oauth) refusal(r *reply) *Refused {
	out := &Refused{Refusal: catalog.Refusal{Kind: catalog.RefusedError}, Status: r.status}
	var in struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(r.body, &in) == nil && isErrorCode(in.Error) {
		out.Code = in.Error
	}
	out.RetryAfter = catalog.RetryAfter(r.header)
	switch {
	case r.status == http.StatusTooManyRequests:
		out.Kind = catalog.RefusedRateLimited
	case r.status == http.StatusServiceUnavailable, r.status == http.StatusBadGateway, r.status == http.StatusGatewayTimeout, out.Code == "temporarily_unavailable":
		out.Kind = catalog.RefusedUnavailable
	case slices.Contains(o.spec.Ended, out.Code) && r.status >= 400 && r.status < 500:
		out.Kind = catalog.RefusedSession
	}
	return out
}

// isErrorCode reports whether a text may be an error code of OAuth. Codes are shown to callers.
func isErrorCode(text string) bool {
	return text != "" && len(text) <= 60 && !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && r != '_' && (r < '0' || r > '9')
	})
}

// AuthorizeError returns the failure for the error with which the platform sent the creator back instead of a code.
func AuthorizeError(code string) Failure {
	f := Failure{Code: FailChanged}
	if isErrorCode(code) {
		f.UpstreamCode = code
	}
	switch code {
	case "access_denied":
		f.Code = failDenied
	case "server_error", "temporarily_unavailable":
		f.Code, f.Retryable = FailUnavailable, true
	}
	return f
}

// failDenied is the failure of a sign-in that the creator refused on the platform's page.
const failDenied = "cancelled"

// postForm sends a form to the authorization server as the client, without a session.
func (d *HTTP) postForm(ctx context.Context, via Via, to endpoint, form url.Values) (*reply, error) {
	header := []egress.Field{
		{Name: "Content-Type", Value: "application/x-www-form-urlencoded"}, {Name: "Accept", Value: "application/json"},
		{Name: "User-Agent", Value: d.deps.Catalog.Session.UserAgent},
	}
	if d.deps.Catalog.Session.UserAgent == "" {
		header = header[:2]
	}
	form = maps.Clone(form)
	client := d.oauth.client
	switch {
	case client.Secret.Empty():
		form.Set("client_id", client.ID)
	case d.oauth.spec.ClientInBody:
		form.Set("client_id", client.ID)
		form.Set("client_secret", client.Secret.Reveal())
	default:
		pair := url.QueryEscape(client.ID) + ":" + url.QueryEscape(client.Secret.Reveal())
		header = append(header, egress.Field{Name: "Authorization", Value: "Basic " + base64.StdEncoding.EncodeToString([]byte(pair))})
	}
	began := d.deps.Now()
	limits := d.limits()
	limits.Bytes = maxTokenResponse
	got, err := d.client(via, to.origins).Call(ctx, &egress.Request{
		Method: http.MethodPost, Origin: to.origin, Path: to.path, Header: header, Body: []byte(form.Encode()),
	}, limits)
	defer got.Release()
	if err != nil {
		return nil, err
	}
	return &reply{status: got.Status, header: got.Header(), body: slices.Clone(got.Body), took: d.deps.Now().Sub(began)}, nil
}

// Refresh margins: a token is refreshed this long before its end, but not before three quarters of its life.
const refreshMargin = time.Minute

// CanRefresh reports whether the session has a refresh token.
func (s Session) CanRefresh() bool { return s.oauth != nil && !s.oauth.refresh.Empty() }

// RefreshDue reports whether the session must be refreshed before it is used.
func (s Session) RefreshDue(now time.Time) bool {
	if !s.CanRefresh() || s.oauth.expires.IsZero() {
		return false
	}
	margin := min(refreshMargin, s.oauth.expires.Sub(s.oauth.issued)/4)
	return !now.Before(s.oauth.expires.Add(-margin))
}

// AccessEnded reports whether the access token of an OAuth session has expired.
func (s Session) AccessEnded(now time.Time) bool {
	return s.oauth != nil && !s.oauth.expires.IsZero() && !now.Before(s.oauth.expires)
}

// storedTokens is the JSON form of tokens.
type storedTokens struct {
	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitempty"`
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires,omitzero"`
	Scope   string    `json:"scope,omitempty"`
}

func (t *tokens) toStored() *storedTokens {
	if t == nil {
		return nil
	}
	return &storedTokens{t.access.Reveal(), t.refresh.Reveal(), t.issued, t.expires, t.scope}
}

func (t *storedTokens) toTokens() *tokens {
	if t == nil {
		return nil
	}
	return &tokens{secret.New(t.Access), secret.New(t.Refresh), t.Issued, t.Expires, t.Scope}
}
