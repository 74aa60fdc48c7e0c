package testnode

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/id"
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
	b.Person = b.findPerson(t)
	return b
}

func (b *Browser) findPerson(t testing.TB) string {
	t.Helper()
	var who struct{ Person struct{ ID string } }
	must.OK(t, json.Unmarshal(b.Do(t, http.MethodGet, "/app/session", nil).Body, &who))
	return who.Person.ID
}

// SetSignInAge sets how long ago the user of the browser has proved who they are, in all browsers of the user.
func (b *Browser) SetSignInAge(t testing.TB, age time.Duration) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.Node.database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "UPDATE browser_session SET authenticated_at = now() - $1::interval WHERE person_id = $2", age, b.findPerson(t))
	must.OK(t, err)
}

// RestTools lets the tools that wait for a sign-in poll again, as if they had waited.
func (n *Node) RestTools(t testing.TB) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), n.database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "UPDATE device_grant SET polled_at = polled_at - interval '1 hour'")
	must.OK(t, err)
}

// Consent grants the operator with the token access to an organisation for a day, as an owner would.
func (n *Node) Consent(t testing.TB, org string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), n.database.Reveal())
	must.OK(t, err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), `INSERT INTO support_access (org_id, id, operator_id, operator, reason, expires_at, granted_at, granted_by)
		VALUES ($1, $2, 'token', 'token', 'a test', now() + interval '1 day', now(), 'a test')`, org, id.New[id.SupportAccess]())
	must.OK(t, err)
}

// operateWithConsent makes a request to the admin API about an organisation, and gives its consent if that is required.
func (n *Node) operateWithConsent(t testing.TB, org, path string, body any) Reply {
	t.Helper()
	r := n.Operate(t, http.MethodPost, "/admin/v1/orgs/"+org+path, body)
	if r.Code() == "consent-required" {
		n.Consent(t, org)
		r = n.Operate(t, http.MethodPost, "/admin/v1/orgs/"+org+path, body)
	}
	return r
}

// Join invites a user to an organisation as an operator, with its consent, signs them in, and returns their browser.
func (n *Node) Join(t testing.TB, org, email, role string) *Browser {
	t.Helper()
	r := n.operateWithConsent(t, org, "/invitations", map[string]any{"email": email, "role": role})
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
