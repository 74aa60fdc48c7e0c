package auth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/sandbox/auth"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

const (
	login    = "oauth+1@sandbox.test"
	redirect = "http://127.0.0.1:9/connect/oauth/callback"
	verifier = "a-verifier-of-at-least-forty-three-characters-0123"
)

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// authorizeQuery returns a good request for the authorize page with some parameters changed; an empty value removes one.
func authorizeQuery(changes ...string) url.Values {
	query := url.Values{
		"response_type": {"code"}, "client_id": {auth.DefaultClient.ID}, "redirect_uri": {redirect}, "state": {"s1"}, "scope": {"read offline"},
		"code_challenge": {challengeOf(verifier)}, "code_challenge_method": {"S256"},
	}
	for i := 0; i < len(changes); i += 2 {
		query.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			query.Del(changes[i])
		}
	}
	return query
}

type oauthTest struct {
	t testing.TB
	*sandboxtest.Platform
}

// answer sends the form of the authorize page and returns the status and where the browser is sent.
func (o oauthTest) answer(query url.Values, form url.Values) (int, url.Values) {
	o.t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.PostForm(o.URL+"/oauth/authorize?"+query.Encode(), form)
	sandboxtest.OK(o.t, err)
	defer res.Body.Close()
	to, err := url.Parse(res.Header.Get("Location"))
	sandboxtest.OK(o.t, err)
	return res.StatusCode, to.Query()
}

func (o oauthTest) code() string {
	o.t.Helper()
	status, got := o.answer(authorizeQuery(), url.Values{"answer": {"allow"}, "login": {login}})
	if status != http.StatusSeeOther || got.Get("code") == "" || got.Get("state") != "s1" {
		o.t.Fatalf("%d %v", status, got)
	}
	return got.Get("code")
}

// post sends a form to an endpoint as the default client.
func (o oauthTest) post(path string, form url.Values, secret string) (int, map[string]any) {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, o.URL+path, strings.NewReader(form.Encode()))
	sandboxtest.OK(o.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.SetBasicAuth(auth.DefaultClient.ID, secret)
	res, err := http.DefaultClient.Do(req)
	sandboxtest.OK(o.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	sandboxtest.OK(o.t, err)
	body := map[string]any{}
	sandboxtest.OK(o.t, json.Unmarshal(text, &body))
	return res.StatusCode, body
}

func (o oauthTest) token(form url.Values) (int, map[string]any) {
	o.t.Helper()
	return o.post("/oauth/token", form, auth.DefaultClient.Secret)
}

func codeForm(code string) url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier}}
}

func refreshForm(token any) url.Values {
	text, _ := token.(string)
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {text}}
}

// me calls a method with an access token and returns the status.
func (o oauthTest) me(token any) int {
	o.t.Helper()
	text, _ := token.(string)
	req, err := http.NewRequestWithContext(o.t.Context(), http.MethodGet, o.URL+"/api/v2/me", nil)
	sandboxtest.OK(o.t, err)
	req.Header.Set("Authorization", "Bearer "+text)
	res, err := http.DefaultClient.Do(req)
	sandboxtest.OK(o.t, err)
	defer res.Body.Close()
	return res.StatusCode
}

func newOAuth(t testing.TB) oauthTest {
	t.Helper()
	return oauthTest{t, sandboxtest.New(t, nil)}
}

// A code becomes tokens once, and the access token calls the API until it ends. Refreshing rotates both tokens.
func TestOAuthTokensCallAndRotate(t *testing.T) {
	t.Parallel()
	o := newOAuth(t)
	o.Control(t, http.MethodPost, "oauth", map[string]any{"access_sec": 30})
	status, first := o.token(codeForm(o.code()))
	if status != http.StatusOK || first["token_type"] != "Bearer" || first["expires_in"] != 30.0 || first["scope"] != "read offline" {
		t.Fatalf("%d %v", status, first)
	}
	if got := o.me(first["access_token"]); got != http.StatusOK {
		t.Errorf("the access token gets %d", got)
	}
	o.Control(t, http.MethodPost, "clock", map[string]any{"advance_sec": 31})
	if got := o.me(first["access_token"]); got != http.StatusUnauthorized {
		t.Errorf("an expired token gets %d", got)
	}
	status, second := o.token(refreshForm(first["refresh_token"]))
	if status != http.StatusOK || second["refresh_token"] == first["refresh_token"] || o.me(second["access_token"]) != http.StatusOK {
		t.Fatalf("%d", status)
	}
	o.Control(t, http.MethodPost, "oauth/expire", map[string]any{"login": login})
	if got := o.me(second["access_token"]); got != http.StatusUnauthorized {
		t.Errorf("an ended token gets %d", got)
	}
	status, third := o.token(refreshForm(second["refresh_token"]))
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, third)
	}
	status, _ = o.post("/oauth/revoke", url.Values{"token": {third["refresh_token"].(string)}}, auth.DefaultClient.Secret)
	if status != http.StatusOK || o.me(third["access_token"]) != http.StatusUnauthorized {
		t.Errorf("after the revocation: %d, and the access token works", status)
	}
	if status, body := o.token(refreshForm(third["refresh_token"])); status != http.StatusBadRequest || body["error"] != "invalid_grant" {
		t.Errorf("a revoked token: %d %v", status, body)
	}
}

// A code or refresh token that is used twice ends everything that was issued for it.
func TestOAuthReuseEndsTheGrant(t *testing.T) {
	t.Parallel()
	for name, reuse := range map[string]func(o oauthTest, code string, first map[string]any) url.Values{
		"code": func(_ oauthTest, code string, _ map[string]any) url.Values { return codeForm(code) },
		"refresh token": func(o oauthTest, _ string, first map[string]any) url.Values {
			if status, _ := o.token(refreshForm(first["refresh_token"])); status != http.StatusOK {
				o.t.Fatalf("%d", status)
			}
			return refreshForm(first["refresh_token"])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOAuth(t)
			code := o.code()
			_, first := o.token(codeForm(code))
			if o.me(first["access_token"]) != http.StatusOK {
				t.Fatal("the token does not work")
			}
			status, body := o.token(reuse(o, code, first))
			if status != http.StatusBadRequest || body["error"] != "invalid_grant" || o.me(first["access_token"]) != http.StatusUnauthorized {
				t.Errorf("%d %v", status, body)
			}
		})
	}
}

// The token endpoint refuses everything that RFC 6749 and RFC 7636 do not allow.
func TestOAuthTokenEndpointIsStrict(t *testing.T) {
	t.Parallel()
	o := newOAuth(t)
	change := func(form url.Values, name, value string) url.Values {
		form.Set(name, value)
		return form
	}
	for name, c := range map[string]struct {
		form   url.Values
		secret string
		status int
		code   string
	}{
		"wrong secret":   {codeForm(o.code()), "wrong", http.StatusUnauthorized, "invalid_client"},
		"wrong verifier": {change(codeForm(o.code()), "code_verifier", verifier+"x"), auth.DefaultClient.Secret, http.StatusBadRequest, "invalid_grant"},
		"wrong redirect": {change(codeForm(o.code()), "redirect_uri", redirect+"/"), auth.DefaultClient.Secret, http.StatusBadRequest, "invalid_grant"},
		"unknown code":   {codeForm("nothing"), auth.DefaultClient.Secret, http.StatusBadRequest, "invalid_grant"},
		"unknown token":  {refreshForm("nothing"), auth.DefaultClient.Secret, http.StatusBadRequest, "invalid_grant"},
		"grant type":     {change(codeForm(o.code()), "grant_type", "password"), auth.DefaultClient.Secret, http.StatusBadRequest, "unsupported_grant_type"},
		"twice":          {change(codeForm(o.code()), "client_secret", "x"), auth.DefaultClient.Secret, http.StatusBadRequest, "invalid_request"},
	} {
		if status, body := o.post("/oauth/token", c.form, c.secret); status != c.status || body["error"] != c.code {
			t.Errorf("%s: %d %v", name, status, body)
		}
	}
	old := o.code()
	o.Control(t, http.MethodPost, "clock", map[string]any{"advance_sec": 61})
	if status, body := o.token(codeForm(old)); status != http.StatusBadRequest || body["error"] != "invalid_grant" {
		t.Errorf("an old code: %d %v", status, body)
	}
}

// The authorize page sends the browser only to a registered address, and requires state and PKCE.
func TestOAuthAuthorizePage(t *testing.T) {
	t.Parallel()
	o := newOAuth(t)
	allow := url.Values{"answer": {"allow"}, "login": {login}}
	for name, c := range map[string]struct {
		query  url.Values
		form   url.Values
		status int
		error  string
	}{
		"denied":         {authorizeQuery(), url.Values{"answer": {"deny"}}, http.StatusSeeOther, "access_denied"},
		"client":         {authorizeQuery("client_id", "other"), allow, http.StatusBadRequest, ""},
		"redirect":       {authorizeQuery("redirect_uri", "https://evil.example"+auth.CallbackPath), allow, http.StatusBadRequest, ""},
		"path":           {authorizeQuery("redirect_uri", "http://127.0.0.1:9/other"), allow, http.StatusBadRequest, ""},
		"no state":       {authorizeQuery("state", ""), allow, http.StatusSeeOther, "invalid_request"},
		"no challenge":   {authorizeQuery("code_challenge", ""), allow, http.StatusSeeOther, "invalid_request"},
		"plain":          {authorizeQuery("code_challenge_method", "plain"), allow, http.StatusSeeOther, "invalid_request"},
		"response type":  {authorizeQuery("response_type", "token"), allow, http.StatusSeeOther, "unsupported_response_type"},
		"scope":          {authorizeQuery("scope", "admin"), allow, http.StatusSeeOther, "invalid_scope"},
		"not a login":    {authorizeQuery(), url.Values{"answer": {"allow"}, "login": {"a@b.c"}}, http.StatusUnprocessableEntity, ""},
		"locked creator": {authorizeQuery(), url.Values{"answer": {"allow"}, "login": {"locked@sandbox.test"}}, http.StatusForbidden, ""},
	} {
		status, got := o.answer(c.query, c.form)
		if status != c.status || got.Get("error") != c.error || got.Has("code") {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
	res, err := http.Get(o.URL + "/oauth/authorize?" + authorizeQuery("login_hint", login).Encode())
	sandboxtest.OK(t, err)
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	sandboxtest.OK(t, err)
	if policy := res.Header.Get("Content-Security-Policy"); res.StatusCode != http.StatusOK || !strings.Contains(string(page), "oauth&#43;1@sandbox.test") ||
		!strings.Contains(policy, "form-action 'self' http://127.0.0.1:9;") {
		t.Errorf("%d %s\n%s", res.StatusCode, policy, page)
	}
}
