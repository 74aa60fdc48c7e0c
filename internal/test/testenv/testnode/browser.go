package testnode

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/tenant/member"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Browser is a browser of a user who is signed in to the dashboard.
type Browser struct {
	Node  *Node
	Email string
	// Person is the id of the user, Cookie the value of the session cookie.
	Person, Cookie string
	// Org is the organisation that requests name; empty for the current one of the session.
	Org string
}

// SignIn signs a user in with the form for developers. The user must have been invited; see Join.
func (n *Node) SignIn(t testing.TB, email string) *Browser {
	t.Helper()
	b := &Browser{Node: n, Email: email}
	r := b.Form(t, "/app/sign-in", url.Values{"email": {email}, "name": {"Test"}})
	if r.Status != http.StatusSeeOther {
		t.Fatalf("sign %s in: %d %s", email, r.Status, r.Body)
	}
	b.Keep(t, r)
	var who struct{ Person struct{ ID string } }
	must.OK(t, json.Unmarshal(b.Do(t, http.MethodGet, "/app/session", nil).Body, &who))
	b.Person = who.Person.ID
	return b
}

// Join invites a user to an organisation as an operator, signs them in, and returns their browser.
func (n *Node) Join(t testing.TB, org, email, role string) *Browser {
	t.Helper()
	r := n.Operate(t, http.MethodPost, "/admin/v1/orgs/"+org+"/invitations", map[string]any{"email": email, "role": role})
	if r.Status != http.StatusCreated {
		t.Fatalf("invite %s: %d %s", email, r.Status, r.Body)
	}
	b := n.SignIn(t, email)
	b.Org = org
	return b
}

// At returns the same browser for another node.
func (b *Browser) At(n *Node) *Browser {
	other := *b
	other.Node = n
	return &other
}

// Keep takes the session cookie from a response.
func (b *Browser) Keep(t testing.TB, r Reply) {
	t.Helper()
	for _, c := range (&http.Response{Header: r.Header}).Cookies() {
		if c.Name == member.Cookie {
			b.Cookie = c.Value
		}
	}
}

// Do makes a request with a JSON body, as the pages of the dashboard do.
func (b *Browser) Do(t testing.TB, method, path string, body any) Reply {
	t.Helper()
	var text []byte
	if body != nil {
		var err error
		text, err = json.Marshal(body)
		must.OK(t, err)
	}
	req := b.Request(t, method, path, text)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return b.Send(t, req)
}

// Form submits a form, as the pages of the dashboard do.
func (b *Browser) Form(t testing.TB, path string, values url.Values) Reply {
	t.Helper()
	req := b.Request(t, http.MethodPost, path, []byte(values.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "text/html")
	return b.Send(t, req)
}

// Page requests a page as HTML.
func (b *Browser) Page(t testing.TB, path string) Reply {
	t.Helper()
	req := b.Request(t, http.MethodGet, path, nil)
	req.Header.Set("Accept", "text/html,application/xhtml+xml")
	return b.Send(t, req)
}

// Request builds a request of the dashboard's own pages: same origin, with the cookie and, for /v1/, the organisation.
func (b *Browser) Request(t testing.TB, method, path string, body []byte) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.Node.URL+path, bytes.NewReader(body))
	must.OK(t, err)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if b.Cookie != "" {
		req.Header.Set("Cookie", member.Cookie+"="+b.Cookie)
	}
	if b.Org != "" && strings.HasPrefix(path, "/v1/") {
		req.Header.Set(member.OrgHeader, b.Org)
	}
	return req
}

// Send sends a request, and fails the test if there is no response.
func (b *Browser) Send(t testing.TB, req *http.Request) Reply {
	t.Helper()
	r, err := Send(req)
	must.OK(t, err)
	return r
}
