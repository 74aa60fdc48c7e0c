package dashboard_test

import (
	"bytes"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/dashboard"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// After sign-in a browser goes only to addresses of the dashboard, whatever was requested.
func TestOnlyOwnAddressesAreGoneTo(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"/app/events?kind=tips&x=%2F%2Fevil.test": "/app/events?kind=tips&x=%2F%2Fevil.test", "/app/invitation/abc": "/app/invitation/abc", "/app": "/app", "/app/": "/app/",
		"": "/app/", "https://evil.test/app/": "/app/", "//evil.test/app/": "/app/", "///evil.test": "/app/", "/\\evil.test": "/app/", "\\\\evil.test": "/app/",
		"/app/\\evil.test": "/app/", "/app//evil.test": "/app/", "/app/../../evil": "/app/", "/app/..//evil.test": "/app/", "/apple": "/app/", "/v1/me": "/app/",
		"javascript:alert(1)": "/app/", "/app/\nLocation: https://evil.test": "/app/", "/app/\x00": "/app/", " /app/x": "/app/", "/app/é": "/app/", "app/x": "/app/",
		"/app/sign-in?to=/app/": "/app/", "/app/sign-out": "/app/", "/app/callback?code=x": "/app/", "/app/session": "/app/", "/app/%2e%2e/x": "/app/",
		"/app/x#https://evil.test": "/app/", "http:/app/x": "/app/", "//user@evil.test/app/": "/app/", "/app/" + strings.Repeat("x", 2000): "/app/", "%2F%2Fevil.test": "/app/",
	} {
		if got := dashboard.SafeTo(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

func FuzzOnlyOwnAddressesAreGoneTo(f *testing.F) {
	for _, seed := range []string{"/app/x", "//evil.test", "/app/..", "/app/%5c%5cevil.test", "/app/?//"} {
		f.Add(seed)
	}
	base, err := url.Parse("https://here.test/app/sign-in")
	must.OK(f, err)
	f.Fuzz(func(t *testing.T, given string) {
		got := dashboard.SafeTo(given)
		u, err := base.Parse(got)
		if err != nil || u.Host != "here.test" || u.Scheme != "https" || u.Path != "/app" && !strings.HasPrefix(u.Path, "/app/") || strings.ContainsAny(got, "\\\r\n\t ") || strings.HasPrefix(got, "//") {
			t.Errorf("%q leads to %q", given, got)
		}
	})
}

func fleet(t *testing.T, n int, s testnode.Setup) ([]*testnode.Node, testnode.Org) {
	t.Helper()
	nodes := testnode.Nodes(t, n, s)
	return nodes, nodes[0].NewOrg(t, nil)
}

// Every sign-in sets a new cookie that scripts cannot read, and ends the browser's earlier session. A planted cookie
// never becomes valid.
func TestSessionsCannotBeFixed(t *testing.T) {
	t.Parallel()
	nodes, org := fleet(t, 1, testnode.Setup{})
	first := nodes[0].Join(t, org.ID, "ada@example.test", "owner")
	planted := strings.Repeat("A", 43)
	for _, before := range []string{planted, first.Cookie} {
		b := &testnode.Browser{Node: nodes[0], Cookie: before, Org: org.ID}
		r := b.Form(t, "/app/sign-in", url.Values{"email": {"ada@example.test"}, "to": {"//evil.test"}})
		if r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/app/" {
			t.Fatalf("%d %v", r.Status, r.Header)
		}
		set := r.Header.Get("Set-Cookie")
		if !regexp.MustCompile(`^__Host-sd_session=[A-Za-z0-9_-]{43}; Path=/; Max-Age=86400; HttpOnly; Secure; SameSite=Lax$`).MatchString(set) {
			t.Errorf("the cookie is %s", set)
		}
		if strings.Contains(set, before) {
			t.Error("the old cookie is still used")
		}
		if r := b.Do(t, http.MethodGet, "/v1/me", nil); r.Code() != "signed-out" {
			t.Errorf("the old cookie: %d %s", r.Status, r.Body)
		}
		b.Keep(t, r)
		if r := b.Do(t, http.MethodGet, "/v1/me", nil); r.Status != http.StatusOK {
			t.Errorf("the new cookie: %d %s", r.Status, r.Body)
		}
	}
}

// Signing out ends the session, with a POST only.
func TestSignOut(t *testing.T) {
	t.Parallel()
	nodes, org := fleet(t, 1, testnode.Setup{})
	b := nodes[0].Join(t, org.ID, "ada@example.test", "owner")
	if r := b.Page(t, "/app/sign-out"); r.Status != http.StatusOK && r.Status != http.StatusServiceUnavailable || b.Do(t, http.MethodGet, "/v1/me", nil).Status != http.StatusOK {
		t.Errorf("a GET signs out: %d", r.Status)
	}
	r := b.Form(t, "/app/sign-out", nil)
	if r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/app/sign-in?out=1" || !strings.Contains(r.Header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("%d %v", r.Status, r.Header)
	}
	if r := b.Do(t, http.MethodGet, "/v1/me", nil); r.Code() != "signed-out" {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if r := b.Do(t, http.MethodGet, "/app/session", nil); r.Status != http.StatusOK || r.JSON()["signedIn"] != false {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if r := b.Page(t, "/app/events?kind=tips"); r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/app/sign-in?to=%2Fapp%2Fevents%3Fkind%3Dtips" {
		t.Errorf("%d %v", r.Status, r.Header)
	}
}

// Requests that pages of other sites make in a signed-in browser are refused by every address that changes something,
// and change nothing.
func TestOtherSitesCannotAct(t *testing.T) {
	t.Parallel()
	nodes, org := fleet(t, 1, testnode.Setup{})
	b := nodes[0].Join(t, org.ID, "ada@example.test", "owner")
	state := func() string {
		keys, team := b.Do(t, http.MethodGet, "/v1/me/keys", nil), b.Do(t, http.MethodGet, "/v1/org/members", nil)
		return string(keys.Body) + regexp.MustCompile(`"lastSeenAt":"[^"]*"`).ReplaceAllString(string(team.Body), "")
	}
	before := state()
	for _, from := range []map[string]string{
		{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
		{"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
		{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Origin": "https://evil.test"},
		{"Origin": "https://evil.test"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
	} {
		for _, to := range []struct{ method, path, kind, body string }{
			{"POST", "/v1/me/keys", "application/json", `{"label":"stolen"}`},
			{"POST", "/v1/me/keys", "text/plain", `{"label":"stolen"}`},
			{"POST", "/v1/org/invitations", "application/json", `{"email":"eve@evil.test","role":"owner"}`},
			{"DELETE", "/v1/org/members/" + b.Person, "", ""},
			{"PATCH", "/v1/me", "application/json", `{"name":"Evil"}`},
			{"POST", "/app/session/org", "application/json", `{"org":"` + org.ID + `"}`},
			{"POST", "/app/sign-out", "application/x-www-form-urlencoded", ""},
			{"POST", "/app/sign-in", "application/x-www-form-urlencoded", "email=eve@evil.test"},
			{"POST", "/app/invitation/x", "application/x-www-form-urlencoded", ""},
			{"POST", "/app/support/x", "application/x-www-form-urlencoded", ""},
		} {
			req := b.Request(t, to.method, to.path, []byte(to.body))
			req.Header.Del("Sec-Fetch-Site")
			for name, value := range from {
				req.Header.Set(name, value)
			}
			req.Header.Set("Content-Type", to.kind)
			if r := b.Send(t, req); r.Status != http.StatusForbidden || r.Code() != "cross-origin-refused" || r.Header.Get("Set-Cookie") != "" {
				t.Errorf("%s %s from %v: %d %s", to.method, to.path, from, r.Status, r.Body)
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("changed:\n%s\n%s", before, after)
	}
	for want, from := range map[int]map[string]string{
		http.StatusForbidden: {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
		http.StatusOK:        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
	} {
		req := b.Request(t, http.MethodGet, "/v1/me", nil)
		for name, value := range from {
			req.Header.Set(name, value)
		}
		if r := b.Send(t, req); r.Status != want {
			t.Errorf("read from %v: %d %s", from, r.Status, r.Body)
		}
	}
	// A key is not a cookie: its holder may call from anywhere.
	req := b.Request(t, http.MethodPatch, "/v1/me", []byte(`{"name":"Fine"}`))
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+org.Key)
	if r := b.Send(t, req); r.Status != http.StatusOK {
		t.Errorf("with a key: %d %s", r.Status, r.Body)
	}
}

// No page can be framed, sniffed or cached, or leaks its address. Only the web application has scripts, with a nonce.
func TestPagesAreLockedDown(t *testing.T) {
	t.Parallel()
	nodes, org := fleet(t, 1, testnode.Setup{})
	b, anonymous := nodes[0].Join(t, org.ID, "ada@example.test", "owner"), &testnode.Browser{Node: nodes[0]}
	for path, who := range map[string]*testnode.Browser{
		"/app/sign-in": anonymous, "/app/invitation/" + strings.Repeat("x", 43): anonymous, "/app/support/x": anonymous, "/app/callback?state=x&code=y": anonymous, "/app/nothing.js": anonymous,
		"/app/session": b, "/app": b, "/app/accounts/acct_x": b, "/app/sign-in?again=1": b,
	} {
		r := who.Page(t, path)
		policy := r.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s lacks %s: %s", path, want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
			t.Errorf("%s: %s", path, policy)
		}
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if ref := r.Header.Get("Referrer-Policy"); ref != "no-referrer" && ref != "same-origin" {
			t.Errorf("%s: %q", path, ref)
		}
		if bytes.Contains(r.Body, []byte("<script")) && !strings.Contains(policy, "'nonce-") {
			t.Errorf("%s has a script", path)
		}
	}
	// Programs, too, learn where the dashboard is.
	if r := anonymous.Do(t, http.MethodGet, "/app", nil); r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/app/" {
		t.Errorf("/app: %d %s", r.Status, r.Header.Get("Location"))
	}
	if r := anonymous.Do(t, http.MethodGet, "/app/", nil); r.Status != http.StatusSeeOther || !strings.HasPrefix(r.Header.Get("Location"), "/app/sign-in") {
		t.Errorf("/app/: %d %s", r.Status, r.Header.Get("Location"))
	}
	if r := anonymous.Do(t, http.MethodGet, "/app/some/page", nil); r.Status != http.StatusNotFound || r.Code() != "route-not-found" {
		t.Errorf("not a page: %d %s", r.Status, r.Body)
	}
}

// Names, labels and addresses that users have chosen are shown as text.
func TestUserTextsAreEscaped(t *testing.T) {
	t.Parallel()
	nodes, org := fleet(t, 1, testnode.Setup{})
	evil := `<img src=x onerror=alert(1)>"'--><script>alert(2)</script>`
	if r := nodes[0].Call(t, http.MethodPatch, "/v1/me", org.Key, map[string]any{"name": evil}); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	key := nodes[0].Call(t, http.MethodPost, "/v1/me/keys", org.Key, map[string]any{"label": evil}).JSON()["key"].(string)
	r := nodes[0].Call(t, http.MethodPost, "/v1/org/invitations", key, map[string]any{"email": "a'b&c@example.test", "role": "support"})
	link, _ := r.JSON()["url"].(string)
	if link == "" {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	anonymous := &testnode.Browser{Node: nodes[0]}
	for _, path := range []string{strings.TrimPrefix(link, "http://stagedoor.test"), "/app/sign-in?to=" + url.QueryEscape(evil)} {
		if page := anonymous.Page(t, path); bytes.Contains(page.Body, []byte("<script")) || bytes.Contains(page.Body, []byte("<img")) {
			t.Errorf("%s: %s", path, page.Body)
		}
	}
	page := anonymous.Form(t, "/app/sign-in", url.Values{"email": {evil}, "name": {evil}, "to": {evil}})
	if page.Status != http.StatusUnprocessableEntity || bytes.Contains(page.Body, []byte("<script")) || bytes.Contains(page.Body, []byte("<img")) {
		t.Errorf("%d %s", page.Status, page.Body)
	}
}

// An invitation is shown to anyone with the link. Only the invited address can accept it, once.
func TestInvitationPages(t *testing.T) {
	t.Parallel()
	nodes, org := fleet(t, 1, testnode.Setup{Signup: "open"})
	n := nodes[0]
	owner := n.Join(t, org.ID, "owner@example.test", "owner")
	r := owner.Do(t, http.MethodPost, "/v1/org/invitations", map[string]any{"email": "bob@example.test", "role": "developer"})
	path := strings.TrimPrefix(r.JSON()["url"].(string), "http://stagedoor.test")
	anonymous := &testnode.Browser{Node: n}
	for range 3 { // Opening it does not use it up.
		page := anonymous.Page(t, path)
		if page.Status != http.StatusOK || !strings.Contains(string(page.Body), "owner@example.test invited") || !strings.Contains(string(page.Body), `href="/app/sign-in?to=%2Fapp%2Finvitation%2F`) {
			t.Fatalf("%d %s", page.Status, page.Body)
		}
	}
	if page := anonymous.Form(t, path, nil); page.Status != http.StatusSeeOther || !strings.HasPrefix(page.Header.Get("Location"), "/app/sign-in?to=") {
		t.Errorf("without signing in: %d %v", page.Status, page.Header)
	}
	eve := n.SignIn(t, "eve@example.test") // Eve gets her own org.
	if page := eve.Form(t, path, nil); page.Status != http.StatusForbidden || !strings.Contains(string(page.Body), "another address") {
		t.Errorf("by another: %d %s", page.Status, page.Body)
	}
	bob := &testnode.Browser{Node: n, Org: org.ID}
	page := bob.Form(t, "/app/sign-in", url.Values{"email": {"bob@example.test"}, "to": {path}})
	if page.Header.Get("Location") != path {
		t.Errorf("%d %v", page.Status, page.Header)
	}
	bob.Keep(t, page)
	if page := bob.Page(t, "/app/"); page.Status != http.StatusOK || !strings.Contains(string(page.Body), "not a member of any organisation") {
		t.Errorf("before joining: %d %s", page.Status, page.Body)
	}
	if r := bob.Do(t, http.MethodGet, "/v1/me", nil); r.Code() != "membership-missing" {
		t.Errorf("before joining: %d %s", r.Status, r.Body)
	}
	if page := bob.Form(t, path, nil); page.Status != http.StatusSeeOther || page.Header.Get("Location") != "/app/" {
		t.Errorf("joining: %d %v", page.Status, page.Header)
	}
	if r := bob.Do(t, http.MethodGet, "/v1/me", nil); r.Status != http.StatusOK || r.JSON()["member"].(map[string]any)["role"] != "developer" {
		t.Errorf("joined: %d %s", r.Status, r.Body)
	}
	for _, again := range []testnode.Reply{bob.Page(t, path), bob.Form(t, path, nil), anonymous.Page(t, "/app/invitation/"+strings.Repeat("A", 43))} {
		if again.Status != http.StatusNotFound || !strings.Contains(string(again.Body), "does not work") {
			t.Errorf("a used link: %d %s", again.Status, again.Body)
		}
	}
}

// The session has the user and their orgs. A user can switch only to their own orgs.
func TestSession(t *testing.T) {
	t.Parallel()
	nodes, org := fleet(t, 1, testnode.Setup{})
	n := nodes[0]
	other, foreign := n.NewOrg(t, nil), n.NewOrg(t, nil)
	n.Join(t, org.ID, "ada@example.test", "owner")
	b := n.Join(t, other.ID, "ada@example.test", "support")
	r := b.Do(t, http.MethodGet, "/app/session", nil)
	body := r.JSON()
	orgs, _ := body["orgs"].([]any)
	if r.Status != http.StatusOK || body["signedIn"] != true || len(orgs) != 2 || body["expiresAt"] == nil {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	for at, want := range map[string]string{org.ID: "", other.ID: "", foreign.ID: "membership-missing", "org_x": "membership-missing"} {
		r := b.Do(t, http.MethodPost, "/app/session/org", map[string]any{"org": at})
		if r.Code() != want {
			t.Errorf("switch to %s: %d %s", at, r.Status, r.Body)
		}
		if want == "" && b.Do(t, http.MethodGet, "/app/session", nil).JSON()["currentOrg"] != at {
			t.Errorf("the session does not show %s", at)
		}
	}
	// Without the header, the current org of the session is used.
	b.Org = ""
	if r := b.Do(t, http.MethodPost, "/app/session/org", map[string]any{"org": other.ID}); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if got := b.Do(t, http.MethodGet, "/v1/me", nil).JSON()["org"].(map[string]any)["id"]; got != other.ID {
		t.Errorf("%v", got)
	}
	for kind, want := range map[string]int{"text/plain": http.StatusUnsupportedMediaType, "application/json": http.StatusBadRequest} {
		req := b.Request(t, http.MethodPost, "/app/session/org", []byte("{"))
		req.Header.Set("Content-Type", kind)
		if r := b.Send(t, req); r.Status != want {
			t.Errorf("%s: %d %s", kind, r.Status, r.Body)
		}
	}
}

// safeBuffer is a log that nodes write while a test reads it.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// No log line contains a cookie or the token of a link, whatever happens to a request.
func TestNothingSecretIsLogged(t *testing.T) {
	t.Parallel()
	var log safeBuffer
	nodes, org := fleet(t, 1, testnode.Setup{Log: &log})
	n := nodes[0]
	b := n.Join(t, org.ID, "ada@example.test", "owner")
	r := b.Do(t, http.MethodPost, "/v1/org/invitations", map[string]any{"email": "bob@example.test", "role": "developer"})
	path := strings.TrimPrefix(r.JSON()["url"].(string), "http://stagedoor.test")
	token := strings.TrimPrefix(path, "/app/invitation/")
	b.Page(t, path)
	b.Form(t, path, nil)
	b.Page(t, path+"/x")
	b.Page(t, "/app/sign-in?to="+url.QueryEscape(path))
	b.Page(t, "/app/callback?state=canary-state&code=canary-code")
	b.Do(t, http.MethodGet, "/v1/me", nil)
	b.Do(t, http.MethodGet, "/v1/accounts/"+token, nil)
	unknown := *b
	unknown.Cookie = "canary" + strings.Repeat("0", 37)
	unknown.Do(t, http.MethodGet, "/v1/me", nil)
	b.Form(t, "/app/sign-out", nil)
	for _, secret := range []string{b.Cookie, token, unknown.Cookie, "canary-"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
	if !strings.Contains(log.String(), `"operation":"appInvitation"`) {
		t.Error("the log has no line for the pages")
	}
}
