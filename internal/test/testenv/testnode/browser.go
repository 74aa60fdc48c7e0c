package testnode

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// Browser is somebody's browser that is signed in to the dashboard.
type Browser struct {
	Node  *Node
	Email string
	// Person is the id of whoever it is, Cookie the session's.
	Person, Cookie string
	// Org is what requests are about; empty for the one that the session shows.
	Org string
}

// SignIn signs somebody in by the form of developers, who must be expected: see Join.
func (n *Node) SignIn(t testing.TB, email string) *Browser {
	t.Helper()
	b := &Browser{Node: n, Email: email}
	r := b.Form(t, "/app/sign-in", url.Values{"email": {email}, "name": {"Test"}})
	if r.Status != http.StatusSeeOther {
		t.Fatalf("sign %s in: %d %s", email, r.Status, r.Body)
	}
	b.Keep(t, r)
	var who struct{ Person struct{ ID string } }
	if err := json.Unmarshal(b.Do(t, http.MethodGet, "/app/session", nil).Body, &who); err != nil {
		t.Fatal(err)
	}
	b.Person = who.Person.ID
	return b
}

// Join makes somebody a member of an org, as an operator would and with the form of developers, and gives their browser.
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

// At is the same browser on another node.
func (b *Browser) At(n *Node) *Browser {
	other := *b
	other.Node = n
	return &other
}

// Keep takes the session out of an answer.
func (b *Browser) Keep(t testing.TB, r Reply) {
	t.Helper()
	for _, c := range (&http.Response{Header: r.Header}).Cookies() {
		if c.Name == member.Cookie {
			b.Cookie = c.Value
		}
	}
}

// Do calls as the dashboard's own pages do.
func (b *Browser) Do(t testing.TB, method, path string, body any) Reply {
	t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	req := b.Request(t, method, path, text)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return b.Send(t, req)
}

// Form sends a form as a page of the dashboard does.
func (b *Browser) Form(t testing.TB, path string, values url.Values) Reply {
	t.Helper()
	req := b.Request(t, http.MethodPost, path, []byte(values.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "text/html")
	return b.Send(t, req)
}

// Page opens a page.
func (b *Browser) Page(t testing.TB, path string) Reply {
	t.Helper()
	req := b.Request(t, http.MethodGet, path, nil)
	req.Header.Set("Accept", "text/html,application/xhtml+xml")
	return b.Send(t, req)
}

// Request makes a request of the dashboard's own pages.
func (b *Browser) Request(t testing.TB, method, path string, body []byte) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.Node.URL+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if b.Cookie != "" {
		req.Header.Set("Cookie", member.Cookie+"="+b.Cookie)
	}
	if b.Org != "" && strings.HasPrefix(path, "/v1/") {
		req.Header.Set(member.OrgHeader, b.Org)
	}
	return req
}

// Send sends a request and fails the test if there is no answer.
func (b *Browser) Send(t testing.TB, req *http.Request) Reply {
	t.Helper()
	r, err := Send(req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
