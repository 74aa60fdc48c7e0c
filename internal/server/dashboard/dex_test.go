package dashboard_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testdex"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// dex is a real identity provider in its own process.
type dex struct{ *testdex.Dex }

// newDex starts a provider that sends browsers back to the dashboard. expiry is the lifetime of its ID tokens.
func newDex(t *testing.T, expiry string) dex {
	t.Helper()
	return dex{testdex.New(t, expiry, "http://stagedoor.test/app/callback")}
}

// start starts a sign-in. change may alter the address of the provider.
func (d dex) start(t *testing.T, n *testnode.Node, to string, change func(url.Values)) (cookie, address string) {
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
	n, org := withProvider(t, d.Issuer, testnode.Setup{})
	invited := n.Operate(t, http.MethodPost, "/admin/v1/orgs/"+org.ID+"/invitations", map[string]any{"email": "ada@example.test", "role": "owner"})
	path := strings.TrimPrefix(invited.JSON()["url"].(string), "http://stagedoor.test")

	cookie, address := d.start(t, n, path, nil)
	r := back(t, n, cookie, d.Approve(t, address, "ada@example.test"))
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
	query := d.Approve(t, address, "ada@example.test")
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
			given = d.Approve(t, address, c.email)
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
	n, _ := withProvider(t, mine.Issuer, testnode.Setup{})
	cookie, address := mine.start(t, n, "/app/", nil)
	if r := back(t, n, cookie, mine.Approve(t, address, "ada@example.test")); r.Status != http.StatusForbidden || session(r) != "" {
		t.Errorf("an expired ID token: %d %s", r.Status, r.Body)
	}
	cookie, address = mine.start(t, n, "/app/", nil)
	query := other.Approve(t, strings.Replace(address, mine.Issuer, other.Issuer, 1), "ada@example.test")
	if r := back(t, n, cookie, query); r.Status != http.StatusForbidden || session(r) != "" {
		t.Errorf("another provider: %d %s", r.Status, r.Body)
	}
}
