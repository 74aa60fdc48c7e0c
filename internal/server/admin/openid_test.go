package admin_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testdex"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// withDex starts a node whose operators sign in at a real provider. Their roles are in the returned file.
func withDex(t *testing.T) (*testnode.Node, *testdex.Dex, string) {
	t.Helper()
	d := testdex.New(t, "10m", "http://stagedoor.test/ops/callback")
	file := filepath.Join(t.TempDir(), "operators")
	must.OK(t, os.WriteFile(file, []byte("ada@example.test=operator\nunverified@example.test=owner\n"), 0o600))
	n := testnode.Nodes(t, 1, testnode.Setup{Configure: func(c *config.Config) {
		c.OperatorsIssuer, c.OperatorsClientID, c.OperatorsSecret = d.Issuer, testdex.Client, secret.New(testdex.Secret)
		c.OperatorsURL, c.OperatorsFile = "http://stagedoor.test", file
	}})[0]
	return n, d, file
}

// start starts a sign-in, and returns the cookie that binds it to the browser and the address of the provider.
func start(t *testing.T, n *testnode.Node, to string, change func(url.Values)) (*http.Cookie, string) {
	t.Helper()
	r := browse(t, http.MethodGet, n.Internal+"/ops/sign-in/start?to="+url.QueryEscape(to), nil, nil)
	at, err := url.Parse(r.Header.Get("Location"))
	must.OK(t, err)
	q := at.Query()
	if r.Status != http.StatusSeeOther || q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" || q.Get("state") == "" {
		t.Fatalf("%d %v", r.Status, r.Header)
	}
	if change != nil {
		change(q)
		at.RawQuery = q.Encode()
	}
	for _, c := range (&http.Response{Header: r.Header}).Cookies() {
		if c.Name == "__Host-sd_ops_signin" && c.HttpOnly && c.Secure && c.Path == "/" {
			return c, at.String()
		}
	}
	t.Fatalf("no cookie: %v", r.Header)
	return nil, ""
}

// back returns the response to the browser that the provider has sent back.
func back(t *testing.T, n *testnode.Node, query string, pending *http.Cookie) testnode.Reply {
	t.Helper()
	return browse(t, http.MethodGet, n.Internal+"/ops/callback?"+query, nil, map[string]string{"Sec-Fetch-Site": "cross-site"}, pending)
}

func hasSession(r testnode.Reply) bool {
	return strings.Contains(strings.Join(r.Header["Set-Cookie"], "\n"), "__Host-sd_ops=")
}

// With a real provider an operator signs in and has the role of the settings, which can change at any time. What they do
// is in the audit log under their address. Tokens do not sign browsers in any more.
func TestOperatorsSignInWithDex(t *testing.T) {
	t.Parallel()
	n, d, file := withDex(t)
	page := browse(t, http.MethodGet, n.Internal+"/ops/sign-in?to=/ops/orgs", nil, nil)
	if page.Status != http.StatusOK || !contains(string(page.Body), `href="/ops/sign-in/start?to=%2fops%2forgs"`) || strings.Contains(string(page.Body), `name="token"`) {
		t.Errorf("%d %s", page.Status, page.Body)
	}
	form := url.Values{"name": {"Ana"}, "token": {testnode.AdminToken}}
	if r := browse(t, http.MethodPost, n.Internal+"/ops/sign-in", form, nil); r.Status != http.StatusForbidden || hasSession(r) {
		t.Errorf("a token: %d %s", r.Status, r.Body)
	}
	pending, address := start(t, n, "/ops/orgs", nil)
	r := back(t, n, d.Approve(t, address, "ada@example.test"), pending)
	if r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/ops/orgs" {
		t.Fatalf("%d %v %s", r.Status, r.Header, r.Body)
	}
	ada := cookieOf(t, r)
	if !ada.Secure || !ada.HttpOnly || ada.SameSite != http.SameSiteLaxMode || ada.Path != "/" || ada.Domain != "" {
		t.Errorf("%+v", ada)
	}
	me := browse(t, http.MethodGet, n.Internal+"/admin/v1/me", nil, nil, ada).JSON()
	if me["name"] != "ada@example.test" || me["role"] != "operator" || me["person"] != true {
		t.Errorf("%v", me)
	}
	banner := func() testnode.Reply {
		t.Helper()
		return browseJSON(t, http.MethodPut, n.Internal+"/admin/v1/banner", `{"text":"Hello"}`, map[string]string{"Content-Type": "application/json"}, ada)
	}
	if r := banner(); r.Status != http.StatusOK {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	entries := n.Operate(t, http.MethodGet, "/admin/v1/audit?own=true", nil).JSON()["entries"]
	for i, want := range []string{"banner.set", "operator.sign_in"} {
		if part(t, entries, i, "action") != want || part(t, entries, i, "actor", "label") != "ada@example.test" || part(t, entries, i, "actor", "id") == "token" {
			t.Errorf("%v", part(t, entries, i))
		}
	}
	must.OK(t, os.WriteFile(file, []byte("ada@example.test=viewer"), 0o600))
	if r := banner(); r.Code() != "role-required" {
		t.Errorf("a viewer: %d %s", r.Status, r.Body)
	}
	must.OK(t, os.WriteFile(file, []byte("someone@example.test=owner"), 0o600))
	if r := banner(); r.Code() != "signed-out" {
		t.Errorf("removed: %d %s", r.Status, r.Body)
	}
	if r := browse(t, http.MethodGet, n.Internal+"/ops", nil, nil, ada); r.Status != http.StatusSeeOther {
		t.Errorf("removed: %d", r.Status)
	}
}

// Responses of the provider that do not match the sign-in, addresses that it has not verified, and people without a role
// are refused.
func TestOnlyOperatorsSignIn(t *testing.T) {
	t.Parallel()
	n, d, _ := withDex(t)
	for name, c := range map[string]struct {
		email  string
		change func(url.Values)
		query  func(string) string
		status int
	}{
		"no role":               {email: "Bob@example.test", status: http.StatusForbidden},
		"an unverified address": {email: "unverified@example.test", status: http.StatusForbidden},
		"another nonce":         {email: "ada@example.test", change: func(q url.Values) { q.Set("nonce", "x") }, status: http.StatusForbidden},
		"another challenge":     {email: "ada@example.test", change: func(q url.Values) { q.Set("code_challenge", strings.Repeat("x", 43)) }, status: http.StatusForbidden},
		"another state":         {email: "ada@example.test", change: func(q url.Values) { q.Set("state", "x") }, status: http.StatusBadRequest},
		"another client":        {email: "ada@example.test", change: func(q url.Values) { q.Set("client_id", "other") }, status: http.StatusForbidden},
		"no code":               {query: func(string) string { return "state=x" }, status: http.StatusBadRequest},
	} {
		pending, address := start(t, n, "/ops", c.change)
		query := ""
		if c.email != "" {
			query = d.Approve(t, address, c.email)
		}
		if c.query != nil {
			query = c.query(query)
		}
		if r := back(t, n, query, pending); r.Status != c.status || hasSession(r) {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	// Another browser cannot complete a sign-in, and a code works once.
	pending, address := start(t, n, "/ops", nil)
	query := d.Approve(t, address, "ada@example.test")
	other, _ := start(t, n, "/ops", nil)
	if r := back(t, n, query, other); r.Status != http.StatusBadRequest || hasSession(r) {
		t.Errorf("another browser: %d", r.Status)
	}
	if r := back(t, n, query, pending); r.Status != http.StatusSeeOther {
		t.Errorf("the same browser: %d %s", r.Status, r.Body)
	}
	if r := back(t, n, query, pending); r.Status != http.StatusForbidden || hasSession(r) {
		t.Errorf("the code again: %d", r.Status)
	}
}
