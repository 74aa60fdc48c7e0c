package admin_test

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/server/admin"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// browse sends a request like a browser on the console's own pages, unless a header says otherwise.
func browse(t *testing.T, method, address string, form url.Values, headers map[string]string, cookies ...*http.Cookie) testnode.Reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	must.OK(t, err)
	req.Header.Set("Accept", "text/html,application/xhtml+xml")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	for _, c := range cookies {
		req.AddCookie(c)
	}
	reply, err := testnode.Send(req)
	must.OK(t, err)
	return reply
}

func cookieOf(t *testing.T, r testnode.Reply) *http.Cookie {
	t.Helper()
	for _, c := range (&http.Response{Header: r.Header}).Cookies() {
		if c.Name == "__Host-sd_ops" {
			return c
		}
	}
	t.Fatalf("no cookie: %d %v %s", r.Status, r.Header, r.Body)
	return nil
}

func signIn(t *testing.T, n *testnode.Node, name string) *http.Cookie {
	t.Helper()
	r := browse(t, http.MethodPost, n.Internal+"/ops/sign-in", url.Values{"name": {name}, "token": {testnode.AdminToken}, "to": {"/ops/orgs?q=x"}}, nil)
	if r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/ops/orgs?q=x" {
		t.Fatalf("%d %v %s", r.Status, r.Header, r.Body)
	}
	return cookieOf(t, r)
}

// Without an identity provider, the token is exchanged for a cookie that scripts cannot read and other sites cannot send
// with a change. With it the pages are shown and the admin API answers, under the given name, until the browser signs out.
// Without it only the form is shown.
func TestOperatorsSignIn(t *testing.T) {
	t.Parallel()
	n := testnode.Nodes(t, 1, testnode.Setup{})[0]
	r := browse(t, http.MethodGet, n.Internal+"/ops/orgs?q=x", nil, nil)
	if r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/ops/sign-in?to=%2Fops%2Forgs%3Fq%3Dx" {
		t.Errorf("%d %v", r.Status, r.Header)
	}
	r = browse(t, http.MethodGet, n.Internal+"/ops/sign-in?to=/ops/orgs", nil, nil)
	if r.Status != http.StatusOK || !contains(string(r.Body), `value="/ops/orgs"`, "Operators") {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	policy := r.Header.Get("Content-Security-Policy")
	if !contains(policy, "default-src 'none'", "frame-ancestors 'none'", "form-action 'self'") || strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") {
		t.Errorf("the policy of the form: %s", policy)
	}

	c := signIn(t, n, "Ana <script>")
	if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 8*3600 {
		t.Errorf("%+v", c)
	}
	r = browse(t, http.MethodGet, n.Internal+"/ops/orgs", nil, nil, c)
	if policy := r.Header.Get("Content-Security-Policy"); !contains(policy, "default-src 'none'", "'strict-dynamic'", "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("%d %s", r.Status, policy)
	}
	if r.Header.Get("Content-Type") != "text/html; charset=utf-8" || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%d %v", r.Status, r.Header)
	}
	r = browse(t, http.MethodGet, n.Internal+"/admin/v1/me", nil, nil, c)
	if r.Status != http.StatusOK || r.JSON()["name"] != "Ana <script>" || r.JSON()["role"] != "owner" || r.JSON()["person"] != false {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if r := browse(t, http.MethodGet, n.Internal+"/ops/sign-in?to=https://evil.example/", nil, nil, c); r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/ops" {
		t.Errorf("%d %v", r.Status, r.Header)
	}
	// Changes are in the audit log under the name.
	req := map[string]string{"Content-Type": "application/json"}
	if r := browseJSON(t, http.MethodPut, n.Internal+"/admin/v1/banner", `{"text":"Hello"}`, req, c); r.Status != http.StatusOK {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	entries := n.Operate(t, http.MethodGet, "/admin/v1/audit?own=true", nil).JSON()["entries"]
	if part(t, entries, 0, "action") != "banner.set" || part(t, entries, 0, "actor", "label") != "Ana <script>" || part(t, entries, 1, "action") != "operator.sign_in" {
		t.Errorf("%v", entries)
	}
	r = browse(t, http.MethodPost, n.Internal+"/ops/sign-out", url.Values{}, nil, c)
	if r.Status != http.StatusSeeOther || cookieOf(t, r).MaxAge >= 0 {
		t.Errorf("%d %v", r.Status, r.Header)
	}
	if r := browse(t, http.MethodGet, n.Internal+"/admin/v1/me", nil, nil, c); r.Code() != "signed-out" {
		t.Errorf("the old cookie: %d %s", r.Status, r.Body)
	}
}

func browseJSON(t *testing.T, method, address, body string, headers map[string]string, cookies ...*http.Cookie) testnode.Reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	must.OK(t, err)
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	for _, c := range cookies {
		req.AddCookie(c)
	}
	r, err := testnode.Send(req)
	must.OK(t, err)
	return r
}

// A page of another site can neither sign an operator in nor use an operator's cookie, to change or to read.
func TestOtherSitesCannotUseTheConsole(t *testing.T) {
	t.Parallel()
	n := testnode.Nodes(t, 1, testnode.Setup{})[0]
	c := signIn(t, n, "Ana")
	for what, headers := range map[string]map[string]string{
		"another site":   {"Sec-Fetch-Site": "cross-site", "Content-Type": "application/json"},
		"another origin": {"Origin": "https://evil.example", "Content-Type": "application/json"},
		"a subdomain":    {"Sec-Fetch-Site": "same-site", "Content-Type": "application/json"},
	} {
		if r := browseJSON(t, http.MethodPut, n.Internal+"/admin/v1/banner", `{"text":"Hello"}`, headers, c); r.Status != http.StatusForbidden || r.Code() != "cross-origin-refused" {
			t.Errorf("%s changes: %d %s", what, r.Status, r.Body)
		}
	}
	if r := browseJSON(t, http.MethodGet, n.Internal+"/admin/v1/orgs", "", map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, c); r.Status != http.StatusForbidden {
		t.Errorf("reads: %d %s", r.Status, r.Body)
	}
	form := url.Values{"name": {"x"}, "token": {testnode.AdminToken}}
	if r := browse(t, http.MethodPost, n.Internal+"/ops/sign-in", form, map[string]string{"Sec-Fetch-Site": "cross-site"}); r.Status != http.StatusForbidden || r.Header.Get("Set-Cookie") != "" {
		t.Errorf("signs in: %d %v", r.Status, r.Header)
	}
	if r := browse(t, http.MethodPost, n.Internal+"/ops/sign-out", url.Values{}, map[string]string{"Sec-Fetch-Site": "cross-site"}, c); r.Status != http.StatusForbidden || r.Header.Get("Set-Cookie") != "" {
		t.Errorf("signs out: %d %v", r.Status, r.Header)
	}
}

// A cookie that was invented or altered is rejected, and so are two cookies.
func TestCookiesCannotBeForged(t *testing.T) {
	t.Parallel()
	n := testnode.Nodes(t, 1, testnode.Setup{})[0]
	good := signIn(t, n, "Ana")
	for what, value := range map[string]string{
		"nothing": "x", "the token": testnode.AdminToken, "a part": good.Value[1:], "more": good.Value + "A", "invented": strings.Repeat("A", 43),
		"other case": strings.ToLower(good.Value),
	} {
		c := &http.Cookie{Name: "__Host-sd_ops", Value: value}
		if r := browse(t, http.MethodGet, n.Internal+"/admin/v1/orgs", nil, nil, c); r.Status != http.StatusUnauthorized || r.Code() != "signed-out" {
			t.Errorf("%s: %d %s", what, r.Status, r.Body)
		}
		if r := browse(t, http.MethodGet, n.Internal+"/ops", nil, nil, c); r.Status != http.StatusSeeOther {
			t.Errorf("%s: %d", what, r.Status)
		}
	}
	if r := browse(t, http.MethodGet, n.Internal+"/admin/v1/orgs", nil, nil, good, good); r.Status != http.StatusUnauthorized {
		t.Errorf("two: %d %s", r.Status, r.Body)
	}
	// The public listener does not accept it.
	if r := browse(t, http.MethodGet, n.URL+"/v1/me", nil, nil, good); r.Status != http.StatusUnauthorized {
		t.Errorf("in public: %d %s", r.Status, r.Body)
	}
	for _, path := range []string{"/ops", "/ops/sign-in", "/admin/v1/orgs"} {
		if r := browse(t, http.MethodGet, n.URL+path, nil, nil, good); r.Status != http.StatusNotFound {
			t.Errorf("%s in public: %d", path, r.Status)
		}
	}
}

// After a few wrong tokens the form rejects all of them. A name is required. The form repeats what was typed, escaped,
// but never the token.
func TestWrongTokensAreBounded(t *testing.T) {
	t.Parallel()
	n := testnode.Nodes(t, 1, testnode.Setup{})[0]
	try := func(name, token string) testnode.Reply {
		return browse(t, http.MethodPost, n.Internal+"/ops/sign-in", url.Values{"name": {name}, "token": {token}, "to": {"//evil.example"}}, nil)
	}
	if r := try(" \t", testnode.AdminToken); r.Status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	for i := range 5 {
		r := try(`"><img src=x>`, "canary-token")
		if r.Status != http.StatusForbidden || strings.Contains(string(r.Body), "canary-token") || strings.Contains(string(r.Body), "<img") || !contains(string(r.Body), `value="/ops"`) {
			t.Fatalf("try %d: %d %s", i, r.Status, r.Body)
		}
	}
	for _, token := range []string{"canary-token", testnode.AdminToken} {
		if r := try("Ana", token); r.Status != http.StatusTooManyRequests || r.Header.Get("Retry-After") == "" || r.Header.Get("Set-Cookie") != "" {
			t.Errorf("%d %v", r.Status, r.Header)
		}
	}
}

// The admin API checks 60 wrong tokens a minute from one source and refuses more. Other sources are not affected.
func TestWrongTokensOfTheAdminAPIAreThrottledPerSource(t *testing.T) {
	t.Parallel()
	n := testnode.Nodes(t, 1, testnode.Setup{})[0]
	try := func(from, token string) testnode.Reply {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext, DisableKeepAlives: true}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.Internal+"/admin/v1/me", nil)
		must.OK(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := client.Do(req)
		must.OK(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		must.OK(t, err)
		return testnode.Reply{Status: res.StatusCode, Header: res.Header, Body: body}
	}
	// guess sends wrong tokens until they are refused. A slow machine may send more than 60.
	guess := func(from string) (looked int) {
		for {
			switch r := try(from, "canary-token"); r.Status {
			case http.StatusUnauthorized:
				looked++
			case http.StatusTooManyRequests:
				if r.JSON()["reason"] != "auth_failures" || r.Header.Get("Retry-After") == "" || looked < 60 {
					t.Fatalf("after %d: %v %s", looked, r.Header, r.Body)
				}
				return looked
			default:
				t.Fatalf("%d %s", r.Status, r.Body)
			}
		}
	}
	guess("127.0.3.1")
	if r := try("127.0.3.2", testnode.AdminToken); r.Status != http.StatusOK {
		t.Errorf("the right token of another source: %d %s", r.Status, r.Body)
	}
}

// Wrong tokens are counted per source and for all sources together. A source over the limit is refused, even with the
// right token; a source that sent no wrong token never is.
func TestGuessingSourcesDoNotLockOutOthers(t *testing.T) {
	t.Parallel()
	now := time.Now()
	o := admin.NewAuthenticator(func() time.Time { return now })
	missed := func(source string, times int) {
		for range times {
			o.Missed(source)
		}
	}
	guessing := func(source string, want bool) {
		t.Helper()
		if got := o.Guessing(source); got != want {
			t.Errorf("guessing(%s) = %t", source, got)
		}
	}
	missed("a", 59)
	guessing("a", false)
	missed("a", 1)
	guessing("a", true)
	guessing("b", false)
	missed("b", 1)
	for _, source := range []string{"c", "d", "e", "f"} {
		missed(source, 60)
	}
	guessing("b", true) // All sources together are over the limit, and b sent some.
	guessing("g", false)
	now = now.Add(time.Second)
	guessing("a", false) // Another try is allowed after a second,
	guessing("b", false) // and also for all sources together.
	now = now.Add(time.Minute)
	guessing("c", false)
}

// The console's listener serves assets, and no other file of the site.
func TestAssetsOfTheConsole(t *testing.T) {
	t.Parallel()
	n := testnode.Nodes(t, 1, testnode.Setup{})[0]
	for _, path := range []string{"/app/assets/none.js", "/app/assets/..%2findex.html", "/app/assets/", "/app", "/app/index.html"} {
		if r := browse(t, http.MethodGet, n.Internal+path, nil, nil); r.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, r.Status, r.Body)
		}
	}
}
