package driver_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testdex"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testplatform"
)

const oauthRedirect = "http://stagedoor.test/connect/oauth/callback"

// dexCatalog returns the catalogue of a platform that has only OAuth.
func dexCatalog(t testing.TB) *catalog.Catalog {
	t.Helper()
	c, err := catalog.Load(os.DirFS("testdata/dex"))
	must.OK(t, err)
	return c
}

// authServer is an authorization server whose next answer a test sets.
type authServer struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	body   string
	// forms and headers are those of the requests.
	forms   []url.Values
	headers []http.Header
}

func newAuthServer(t testing.TB) *authServer {
	t.Helper()
	s := &authServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		must.OK(t, r.ParseForm())
		s.forms, s.headers = append(s.forms, r.PostForm), append(s.headers, r.Header)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *authServer) answer(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body = status, body
}

// oauthDriver returns a driver for a catalogue at an origin.
func oauthDriver(t testing.TB, p *testplatform.Platform, c *catalog.Catalog, origin, password string) *driver.HTTP {
	t.Helper()
	d, err := driver.New(driver.Deps{
		Catalog: c, Egress: p.Egress, Origin: origin, Now: time.Now,
		OAuth: driver.OAuthClient{ID: testdex.Client, Secret: secret.New(password), RedirectURI: oauthRedirect},
	})
	must.OK(t, err)
	return d
}

var oauthVia = driver.Via{Region: "us", Account: "acct_oauth"}

// A response of the token endpoint is a session only if it is what RFC 6749 says. Every other response has a failure of
// ours, and nothing of it but the error code is in a failure or an error.
func TestOAuthTokenResponses(t *testing.T) {
	t.Parallel()
	p := testplatform.New(t, testplatform.Setup{})
	c := dexCatalog(t)
	long := strings.Repeat("x", 17<<10)
	for name, test := range map[string]struct {
		status int
		body   string
		// failure is the code of Exchange, problem the one of Refresh; empty for a session.
		failure string
		problem string
	}{
		"good":            {200, `{"access_token":"canary-a","token_type":"Bearer","expires_in":60,"refresh_token":"canary-r"}`, "", ""},
		"no lifetime":     {200, `{"access_token":"canary-a","token_type":"bearer"}`, "", ""},
		"no token":        {200, `{"token_type":"Bearer"}`, "upstream_changed", problem.UpstreamChanged.Code},
		"other type":      {200, `{"access_token":"canary-a","token_type":"mac"}`, "upstream_changed", problem.UpstreamChanged.Code},
		"header in token": {200, `{"access_token":"canary\r\nX: 1","token_type":"Bearer"}`, "upstream_changed", problem.UpstreamChanged.Code},
		"long token":      {200, `{"access_token":"` + long + `","token_type":"Bearer"}`, "upstream_changed", problem.UpstreamChanged.Code},
		"huge":            {200, `{"access_token":"canary","padding":"` + strings.Repeat(long, 8) + `"}`, "upstream_changed", problem.UpstreamInvalidResponse.Code},
		"bad lifetime":    {200, `{"access_token":"canary-a","token_type":"Bearer","expires_in":-1}`, "upstream_changed", problem.UpstreamChanged.Code},
		"not JSON":        {200, `access_token=canary-a`, "upstream_changed", problem.UpstreamChanged.Code},
		"not an object":   {200, `["canary-a"]`, "upstream_changed", problem.UpstreamChanged.Code},
		"invalid_grant":   {400, `{"error":"invalid_grant","error_description":"canary"}`, "expired", "session"},
		"invalid_client":  {401, `{"error":"invalid_client"}`, "upstream_changed", problem.UpstreamError.Code},
		"invalid_scope":   {400, `{"error":"invalid_scope"}`, "upstream_changed", problem.UpstreamError.Code},
		"odd error":       {400, `{"error":"canary is <b>odd</b>"}`, "upstream_changed", problem.UpstreamError.Code},
		"busy":            {429, `{}`, "upstream_unavailable", problem.UpstreamRateLimited.Code},
		"down":            {503, `<html>canary</html>`, "upstream_unavailable", problem.UpstreamUnavailable.Code},
		"temporarily":     {400, `{"error":"temporarily_unavailable"}`, "upstream_unavailable", problem.UpstreamUnavailable.Code},
		"redirect":        {302, ``, "upstream_changed", problem.UpstreamError.Code},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newAuthServer(t)
			d := oauthDriver(t, p, c, server.URL, "canary-secret")
			server.answer(200, `{"access_token":"old","token_type":"Bearer","expires_in":60,"refresh_token":"old-refresh"}`)
			first, err := d.Exchange(t.Context(), oauthVia, secret.New("code"), secret.New("verifier"))
			must.OK(t, err)
			server.answer(test.status, test.body)
			step, err := d.Exchange(t.Context(), oauthVia, secret.New("canary-code"), secret.New("canary-verifier"))
			must.OK(t, err)
			if test.failure == "" != (step.Session != nil) || step.Failure != nil && step.Failure.Code != test.failure {
				t.Errorf("exchange: %+v", step.Failure)
			}
			_, err = d.Refresh(t.Context(), oauthVia, *first.Session)
			refused, ended := errors.AsType[*driver.Refused](err)
			switch {
			case test.problem == "" && err != nil, test.problem == "session" && (!ended || refused.Kind != catalog.RefusedSession),
				test.problem != "" && test.problem != "session" && problem.Of(err).Kind.Code != test.problem:
				t.Errorf("refresh: %v", err)
			}
			if text := fmt.Sprintf("%+v %+v %v %+v", step, step.Failure, err, err); strings.Contains(text, "canary") {
				t.Errorf("a secret is in %s", text)
			}
		})
	}
}

// The client authenticates as the manifest says, the verifier belongs to the challenge, and rotation replaces tokens.
func TestOAuthRequests(t *testing.T) {
	t.Parallel()
	p := testplatform.New(t, testplatform.Setup{})
	server := newAuthServer(t)
	inBody := dexCatalog(t)
	inBody.SignIn.OAuth.ClientInBody = true
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("stagedoor:p%3Aw"))
	for name, test := range map[string]struct {
		catalog        *catalog.Catalog
		secret, header string
		form           string
	}{
		"basic":  {dexCatalog(t), "p:w", basic, ""},
		"body":   {inBody, "p:w", "", "stagedoor p:w"},
		"public": {dexCatalog(t), "", "", "stagedoor "},
	} {
		d := oauthDriver(t, p, test.catalog, server.URL, test.secret)
		server.answer(200, `{"access_token":"a1","token_type":"Bearer","expires_in":3600,"refresh_token":"r1"}`)
		step, err := d.Exchange(t.Context(), oauthVia, secret.New("c1"), secret.New("v1"))
		must.OK(t, err)
		s := *step.Session
		server.answer(200, `{"access_token":"a2","token_type":"Bearer","expires_in":3600}`)
		kept, err := d.Refresh(t.Context(), oauthVia, s)
		must.OK(t, err)
		server.answer(200, `{"access_token":"a3","token_type":"Bearer","expires_in":3600,"refresh_token":"r3"}`)
		rotated, err := d.Refresh(t.Context(), oauthVia, kept)
		must.OK(t, err)
		stored, err := driver.DecodeSession(rotated.Encode())
		must.OK(t, err)
		_, err = d.Refresh(t.Context(), oauthVia, stored)
		must.OK(t, err)
		server.mu.Lock()
		forms, headers := server.forms[len(server.forms)-4:], server.headers[len(server.headers)-4:]
		server.mu.Unlock()
		if got := forms[0]; got.Get("grant_type") != "authorization_code" || got.Get("code") != "c1" || got.Get("code_verifier") != "v1" || got.Get("redirect_uri") != oauthRedirect {
			t.Errorf("%s: %v", name, got)
		}
		for i, want := range []string{"", "r1", "r1", "r3"} {
			if forms[i].Get("refresh_token") != want {
				t.Errorf("%s: request %d refreshes %q", name, i, forms[i].Get("refresh_token"))
			}
			client := ""
			if test.form != "" {
				client = forms[i].Get("client_id") + " " + forms[i].Get("client_secret")
			}
			if headers[i].Get("Authorization") != test.header || client != test.form || headers[i].Get("Cookie") != "" {
				t.Errorf("%s: request %d has %q %q", name, i, headers[i].Get("Authorization"), client)
			}
		}
		if stored.Credentials() != catalog.ByOAuth || !stored.CanRefresh() || !stored.ExpiresAt(test.catalog).IsZero() {
			t.Errorf("%s: the stored session is another", name)
		}
	}
}

// A session is due for a refresh a minute before its end, or in the last quarter of a short life.
func TestOAuthRefreshIsDue(t *testing.T) {
	t.Parallel()
	p := testplatform.New(t, testplatform.Setup{})
	server := newAuthServer(t)
	d := oauthDriver(t, p, dexCatalog(t), server.URL, "x")
	for life, due := range map[int]time.Duration{3600: 59 * time.Minute, 40: 30 * time.Second} {
		server.answer(200, fmt.Sprintf(`{"access_token":"a","token_type":"Bearer","expires_in":%d,"refresh_token":"r"}`, life))
		began := time.Now()
		step, err := d.Exchange(t.Context(), oauthVia, secret.New("c"), secret.New("v"))
		must.OK(t, err)
		took := time.Since(began)
		if step.Session.RefreshDue(began.Add(due-time.Millisecond)) || !step.Session.RefreshDue(began.Add(due+took)) {
			t.Errorf("a life of %d s is not due after %s", life, due)
		}
		if end := time.Duration(life) * time.Second; step.Session.AccessEnded(began.Add(end-time.Millisecond)) || !step.Session.AccessEnded(began.Add(end+took)) {
			t.Errorf("a life of %d s does not end after it", life)
		}
	}
	server.answer(200, `{"access_token":"a","token_type":"Bearer","expires_in":60}`)
	step, err := d.Exchange(t.Context(), oauthVia, secret.New("c"), secret.New("v"))
	must.OK(t, err)
	if s := step.Session; s.RefreshDue(time.Now().Add(time.Hour)) || s.CanRefresh() || s.ExpiresAt(dexCatalog(t)).IsZero() {
		t.Error("a session without a refresh token is due for a refresh, or does not end")
	}
	if _, err := d.Refresh(t.Context(), oauthVia, *step.Session); err == nil {
		t.Error("a session without a refresh token was refreshed")
	}
}

// With a real OpenID provider, a user signs in through PKCE, the session calls and is refreshed, and a refresh token that
// was rotated away is refused. A code with another verifier is refused.
func TestOAuthAgainstDex(t *testing.T) {
	t.Parallel()
	dex := testdex.New(t, "10m", oauthRedirect)
	p := testplatform.New(t, testplatform.Setup{})
	d := oauthDriver(t, p, dexCatalog(t), strings.TrimSuffix(dex.Issuer, "/dex"), testdex.Secret)
	verifier := secret.New("a-verifier-of-at-least-forty-three-characters-0123")
	code := func(state string) secret.String {
		address, err := d.AuthorizeURL(secret.New(state), verifier)
		must.OK(t, err)
		query, err := url.ParseQuery(dex.Approve(t, address.Reveal(), "ada@example.test"))
		must.OK(t, err)
		if query.Get("state") != state || query.Get("code") == "" {
			t.Fatalf("%v", query)
		}
		return secret.New(query.Get("code"))
	}
	step, err := d.Exchange(t.Context(), oauthVia, code("s1"), verifier)
	must.OK(t, err)
	if step.Session == nil {
		t.Fatalf("%+v", step.Failure)
	}
	who, _, err := d.Probe(t.Context(), oauthVia, *step.Session)
	must.OK(t, err)
	if who.Username != "ada@example.test" || who.ID == "" {
		t.Errorf("%+v", who)
	}
	next, err := d.Refresh(t.Context(), oauthVia, *step.Session)
	must.OK(t, err)
	if again, _, err := d.Probe(t.Context(), oauthVia, next); err != nil || again.ID != who.ID {
		t.Errorf("after the refresh: %+v %v", again, err)
	}
	_, err = d.Refresh(t.Context(), oauthVia, *step.Session)
	wantRefusal(t, err, catalog.RefusedSession)
	step, err = d.Exchange(t.Context(), oauthVia, code("s2"), secret.New(verifier.Reveal()+"x"))
	must.OK(t, err)
	if step.Failure == nil || step.Failure.Code != "expired" {
		t.Errorf("a wrong verifier: %+v", step.Failure)
	}
}
