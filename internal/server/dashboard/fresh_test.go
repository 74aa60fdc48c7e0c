package dashboard_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// sensitive returns the answers to what needs a recent sign-in. None of the requests succeeds twice.
func sensitive(t *testing.T, b *testnode.Browser) map[string]testnode.Reply {
	t.Helper()
	return map[string]testnode.Reply{
		"mint":   b.Do(t, http.MethodPost, "/v1/me/keys", map[string]any{"label": "x"}),
		"invite": b.Do(t, http.MethodPost, "/v1/org/invitations", map[string]any{"email": "new@example.test", "role": "support"}),
		"role":   b.Do(t, http.MethodPatch, "/v1/org/members/psn_01k9x7d4x4eb9rjjpq94rs7kqb", map[string]any{"role": "admin"}),
		"remove": b.Do(t, http.MethodDelete, "/v1/org/members/psn_01k9x7d4x4eb9rjjpq94rs7kqb", nil),
	}
}

// requireRecent checks that a browser may, or may not, do what needs a recent sign-in. Reads never need one.
func requireRecent(t *testing.T, b *testnode.Browser, may bool) {
	t.Helper()
	for name, r := range sensitive(t, b) {
		if refused := r.Code() == "reauthentication-required"; refused == may || refused && r.Status != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	if r := b.Do(t, http.MethodGet, "/v1/me/keys", nil); r.Status != http.StatusOK {
		t.Errorf("a read: %d %s", r.Status, r.Body)
	}
}

// fresh starts a sign-in in which the person must prove again who they are, and returns the address of the provider.
func fresh(t *testing.T, n *testnode.Node, to string) (cookie string, at *url.URL) {
	t.Helper()
	page := (&testnode.Browser{Node: n}).Page(t, "/app/sign-in?fresh=1&to="+url.QueryEscape(to))
	link := regexp.MustCompile(`href="(/app/sign-in/start\?[^"]*fresh=1)"`).FindSubmatch(page.Body)
	if page.Status != http.StatusOK || link == nil {
		t.Fatalf("the page has no link: %s", page.Body)
	}
	r := (&testnode.Browser{Node: n}).Page(t, html.UnescapeString(string(link[1])))
	at, err := url.Parse(r.Header.Get("Location"))
	must.OK(t, err)
	if q := at.Query(); r.Status != http.StatusSeeOther || q.Get("prompt") != "login" || q.Get("max_age") != "0" {
		t.Fatalf("%d %s", r.Status, at)
	}
	cookie, _, _ = strings.Cut(r.Header.Get("Set-Cookie"), ";")
	return cookie, at
}

// With a real provider, a person whose sign-in is older than five minutes signs in again, comes back to the page, and
// goes on. A key needs no sign-in.
func TestSignInAgainWithDex(t *testing.T) {
	t.Parallel()
	d := newDex(t, "10m")
	n, org := withProvider(t, d.Issuer, testnode.Setup{})
	join := n.Operate(t, http.MethodPost, "/admin/v1/orgs/"+org.ID+"/invitations", map[string]any{"email": "ada@example.test", "role": "owner"})
	path := strings.TrimPrefix(join.JSON()["url"].(string), "http://stagedoor.test")
	cookie, address := d.start(t, n, path, nil)
	ada := &testnode.Browser{Node: n, Org: org.ID, Cookie: session(back(t, n, cookie, d.Approve(t, address, "ada@example.test")))}
	if r := ada.Form(t, path, nil); r.Status != http.StatusSeeOther {
		t.Fatalf("joining: %d %s", r.Status, r.Body)
	}
	requireRecent(t, ada, true)
	ada.SetSignInAge(t, 4*time.Minute)
	requireRecent(t, ada, true)
	ada.SetSignInAge(t, 6*time.Minute)
	requireRecent(t, ada, false)

	cookie, at := fresh(t, n, "/app/keys?new=1")
	r := back(t, n, cookie, d.Approve(t, at.String(), "ada@example.test"))
	if r.Status != http.StatusSeeOther || r.Header.Get("Location") != "/app/keys?new=1" {
		t.Fatalf("%d %v %s", r.Status, r.Header, r.Body)
	}
	requireRecent(t, &testnode.Browser{Node: n, Org: org.ID, Cookie: session(r)}, true)
	if r := n.Call(t, http.MethodPost, "/v1/me/keys", org.Key, map[string]any{"label": "x"}); r.Status != http.StatusCreated {
		t.Errorf("a key: %d %s", r.Status, r.Body)
	}
}

// The provider's auth_time decides, not the time of the sign-in here: a provider that signs a person in from its own
// session has not asked them for anything. A browser may remove our request to ask, so the answer is checked.
func TestAuthTimeOfTheProviderCounts(t *testing.T) {
	t.Parallel()
	l := newFakeProvider(t)
	nodes := map[bool]*testnode.Node{}
	orgs := map[bool]testnode.Org{}
	for _, required := range []bool{false, true} {
		nodes[required], orgs[required] = withProvider(t, l.URL, testnode.Setup{Configure: func(c *config.Config) {
			if required {
				c.OIDCAuthTime = "required"
			}
		}})
	}
	now := time.Now()
	for name, c := range map[string]struct {
		required, fresh bool
		authTime        any
		signedIn, may   bool
	}{
		"recent":                          {authTime: now.Unix(), signedIn: true, may: true},
		"with decimals":                   {authTime: float64(now.Unix()) + 0.5, signedIn: true, may: true},
		"in the future":                   {authTime: now.Add(time.Hour).Unix(), signedIn: true, may: true},
		"long ago":                        {authTime: now.Add(-time.Hour).Unix(), signedIn: true, may: false},
		"not given":                       {authTime: nil, signedIn: true, may: false},
		"not given, required":             {required: true, authTime: nil, signedIn: true, may: false},
		"recent, required":                {required: true, authTime: now.Unix(), signedIn: true, may: true},
		"fresh and recent":                {fresh: true, authTime: now.Unix(), signedIn: true, may: true},
		"fresh and long ago":              {fresh: true, authTime: now.Add(-time.Hour).Unix(), signedIn: false},
		"fresh and not given":             {fresh: true, authTime: nil, signedIn: true, may: true},
		"fresh and not given, required":   {fresh: true, required: true, authTime: nil, signedIn: false},
		"fresh and a malformed auth_time": {fresh: true, authTime: "yesterday", signedIn: false},
	} {
		n, org := nodes[c.required], orgs[c.required]
		l.claims = l.with("auth_time", c.authTime)
		var cookie, state string
		if c.fresh {
			var at *url.URL
			cookie, at = fresh(t, n, "/app/")
			l.nonce, state = at.Query().Get("nonce"), at.Query().Get("state")
		} else {
			cookie, state = l.leave(t, n, "/app/")
		}
		r := back(t, n, cookie, "state="+state+"&code=x")
		if (session(r) != "") != c.signedIn {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
		if !c.signedIn {
			continue
		}
		b := &testnode.Browser{Node: n, Org: org.ID, Cookie: session(r)}
		join := n.Operate(t, http.MethodPost, "/admin/v1/orgs/"+org.ID+"/invitations", map[string]any{"email": "ada@example.test", "role": "owner"})
		if link, ok := join.JSON()["url"].(string); ok {
			b.Form(t, strings.TrimPrefix(link, "http://stagedoor.test"), nil)
		}
		got := b.Do(t, http.MethodPost, "/v1/me/keys", map[string]any{"label": "x"})
		if (got.Status == http.StatusCreated) != c.may || !c.may && got.Code() != "reauthentication-required" {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
	}
}
