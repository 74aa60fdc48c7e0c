package dashboard_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// dex is a real identity provider in its own process.
type dex struct{ issuer string }

// password is that of all users at the provider; passwordHash is its bcrypt hash.
const (
	password     = "password"
	passwordHash = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"
)

// newDex builds Dex if needed and starts it. expiry is the lifetime of its ID tokens.
func newDex(t *testing.T, expiry string) *dex {
	t.Helper()
	if out, err := exec.Command(testenv.Path(t, "scripts", "tool"), "dex").CombinedOutput(); err != nil {
		t.Fatalf("scripts/tool dex: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	address := l.Addr().String()
	must.OK(t, l.Close())
	d := &dex{issuer: "http://" + address + "/dex"}
	var people strings.Builder
	for i, who := range []struct {
		email    string
		verified bool
	}{{"ada@example.test", true}, {"Bob@Example.test", true}, {"unverified@example.test", false}} {
		fmt.Fprintf(&people, "- {email: %q, hash: %q, username: %q, userID: \"00000000-0000-0000-0000-00000000000%d\", emailVerified: %v}\n", who.email, passwordHash, "Person "+fmt.Sprint(i), i, who.verified)
	}
	config := filepath.Join(t.TempDir(), "dex.yaml")
	text := fmt.Sprintf(`issuer: %s
storage: {type: memory}
web: {http: %q}
logger: {level: error}
oauth2: {skipApprovalScreen: true, responseTypes: [code], alwaysShowLoginScreen: false}
expiry: {idTokens: %q}
enablePasswordDB: true
staticClients:
- {id: stagedoor, secret: canary-client-secret, name: Stagedoor, redirectURIs: ["http://stagedoor.test/app/callback"]}
- {id: other, secret: other-secret, name: Other, redirectURIs: ["http://stagedoor.test/app/callback"]}
staticPasswords:
%s`, d.issuer, address, expiry, people.String())
	must.OK(t, os.WriteFile(config, []byte(text), 0o600))
	cmd := exec.Command(testenv.Path(t, ".dev", "bin", "dex"), "serve", config)
	var out safeBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.OK(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	for deadline := time.Now().Add(time.Minute); ; {
		res, err := http.Get(d.issuer + "/.well-known/openid-configuration")
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return d
			}
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("dex ended: %v\n%s", err, &out)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("dex is not responding\n%s", &out)
		}
	}
}

var formAction = regexp.MustCompile(`<form[^>]*action="([^"]+)"`)

// approve acts as a user at the provider: it opens the address, enters the password, and returns the query with which
// the browser is sent back. Each call uses a new browser.
func (d *dex) approve(t *testing.T, address, email string) string {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must.OK(t, err)
	var backTo *url.URL
	client := &http.Client{Jar: jar, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		if req.URL.Host == "stagedoor.test" {
			backTo = req.URL
			return http.ErrUseLastResponse
		}
		return nil
	}}
	res, err := client.Get(address)
	must.OK(t, err)
	page, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	must.OK(t, err)
	if backTo == nil {
		at := res.Request.URL
		if m := formAction.FindSubmatch(page); m != nil {
			at, err = at.Parse(strings.ReplaceAll(string(m[1]), "&amp;", "&"))
			must.OK(t, err)
		}
		res, err = client.PostForm(at.String(), url.Values{"login": {email}, "password": {password}})
		must.OK(t, err)
		page, _ = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	if backTo == nil {
		t.Fatalf("the browser is still at %s: %d %s", res.Request.URL, res.StatusCode, page)
	}
	return backTo.RawQuery
}

// start starts a sign-in. change may alter the address of the provider.
func (d *dex) start(t *testing.T, n *testnode.Node, to string, change func(url.Values)) (cookie, address string) {
	t.Helper()
	r := (&testnode.Browser{Node: n}).Page(t, "/app/sign-in/start?to="+url.QueryEscape(to))
	if r.Status != http.StatusSeeOther {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	at, err := url.Parse(r.Header.Get("Location"))
	must.OK(t, err)
	if change != nil {
		q := at.Query()
		change(q)
		at.RawQuery = q.Encode()
	}
	cookie, _, _ = strings.Cut(r.Header.Get("Set-Cookie"), ";")
	return cookie, at.String()
}

// With a real provider an invited user signs in, joins, and is recognised on the next sign-in. Responses of the
// provider that do not match are refused.
func TestSignInWithDex(t *testing.T) {
	t.Parallel()
	d := newDex(t, "10m")
	n, org := withProvider(t, d.issuer, testnode.Setup{})
	invited := n.Operate(t, http.MethodPost, "/admin/v1/orgs/"+org.ID+"/invitations", map[string]any{"email": "ada@example.test", "role": "owner"})
	path := strings.TrimPrefix(invited.JSON()["url"].(string), "http://stagedoor.test")

	cookie, address := d.start(t, n, path, nil)
	r := back(t, n, cookie, d.approve(t, address, "ada@example.test"))
	if r.Status != http.StatusSeeOther || r.Header.Get("Location") != path {
		t.Fatalf("%d %v %s", r.Status, r.Header, r.Body)
	}
	ada := &testnode.Browser{Node: n, Org: org.ID, Cookie: session(r)}
	if r := ada.Do(t, http.MethodGet, "/v1/me", nil); r.Code() != "membership-missing" {
		t.Errorf("before joining: %d %s", r.Status, r.Body)
	}
	if r := ada.Form(t, path, nil); r.Status != http.StatusSeeOther {
		t.Errorf("joining: %d %s", r.Status, r.Body)
	}
	me := ada.Do(t, http.MethodGet, "/v1/me", nil)
	who, _ := me.JSON()["member"].(map[string]any)
	if me.Status != http.StatusOK || who["email"] != "ada@example.test" || who["role"] != "owner" || who["name"] != "Person 0" {
		t.Fatalf("%d %s", me.Status, me.Body)
	}
	cookie, address = d.start(t, n, "/app/events", nil)
	query := d.approve(t, address, "ada@example.test")
	r = back(t, n, cookie, query)
	again := &testnode.Browser{Node: n, Org: org.ID, Cookie: session(r)}
	if r.Header.Get("Location") != "/app/events" || again.Cookie == ada.Cookie {
		t.Errorf("%v", r.Header)
	}
	if got := again.Do(t, http.MethodGet, "/v1/me", nil).JSON()["member"].(map[string]any)["id"]; got != who["id"] {
		t.Errorf("a different person: %v", got)
	}

	for name, c := range map[string]struct {
		email  string
		change func(url.Values)
		query  func(string) string
	}{
		"a code that was used":   {query: func(string) string { return query }},
		"another nonce":          {email: "ada@example.test", change: func(q url.Values) { q.Set("nonce", "x") }},
		"no nonce":               {email: "ada@example.test", change: func(q url.Values) { q.Del("nonce") }},
		"another challenge":      {email: "ada@example.test", change: func(q url.Values) { q.Set("code_challenge", strings.Repeat("x", 43)) }},
		"another client":         {email: "ada@example.test", change: func(q url.Values) { q.Set("client_id", "other") }},
		"another state":          {email: "ada@example.test", change: func(q url.Values) { q.Set("state", "x") }},
		"an unverified address":  {email: "unverified@example.test"},
		"somebody not invited":   {email: "Bob@Example.test"},
		"a code with more of it": {email: "ada@example.test", query: func(q string) string { return strings.Replace(q, "code=", "code=x", 1) }},
	} {
		cookie, address := d.start(t, n, "/app/", c.change)
		given := ""
		if c.email != "" {
			given = d.approve(t, address, c.email)
		}
		if c.query != nil {
			given = c.query(given)
		}
		if r := back(t, n, cookie, given); r.Status != http.StatusForbidden && r.Status != http.StatusBadRequest || session(r) != "" {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
}

// A code of another provider and an expired ID token are refused.
func TestOtherAndLateProviders(t *testing.T) {
	t.Parallel()
	mine, other := newDex(t, "-1h"), newDex(t, "10m")
	n, _ := withProvider(t, mine.issuer, testnode.Setup{})
	cookie, address := mine.start(t, n, "/app/", nil)
	if r := back(t, n, cookie, mine.approve(t, address, "ada@example.test")); r.Status != http.StatusForbidden || session(r) != "" {
		t.Errorf("an expired ID token: %d %s", r.Status, r.Body)
	}
	cookie, address = mine.start(t, n, "/app/", nil)
	query := other.approve(t, strings.Replace(address, mine.issuer, other.issuer, 1), "ada@example.test")
	if r := back(t, n, cookie, query); r.Status != http.StatusForbidden || session(r) != "" {
		t.Errorf("another provider: %d %s", r.Status, r.Body)
	}
}
