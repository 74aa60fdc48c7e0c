package app_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testmail"
	"github.com/stagedoor/stagedoor/internal/test/testenv/testnode"
)

// A node with a mail server mails invitations and links to creators, each to its recipient and in its language.
func TestANodeSendsMail(t *testing.T) {
	t.Parallel()
	server := testmail.New(t, testmail.Setup{})
	n := testnode.Nodes(t, 1, testnode.Setup{Configure: func(c *config.Config) { c.SMTP = server.URL }})[0]
	o := n.NewOrg(t, nil)
	invited := n.Call(t, http.MethodPost, "/v1/org/invitations", o.Key, map[string]any{"email": "ada@acme.test", "role": "admin", "locale": "es"})
	linked := n.Call(t, http.MethodPost, "/v1/connect/sessions", o.Key, map[string]any{"deliver": map[string]any{"email": "luna@acme.test"}})
	for _, r := range []testnode.Reply{invited, linked} {
		if r.Status != http.StatusCreated || !strings.Contains(string(r.Body), `"status":"queued"`) {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	for _, m := range server.Await(2) {
		want, path := "asks you to connect your account", "/s/cst_"
		if m.Envelope == "ada@acme.test" {
			want, path = "Únete a", "/app/invitation/"
		}
		if !strings.Contains(m.Subject, want) || !strings.Contains(m.Text, path) || !strings.Contains(m.HTML, path) {
			t.Errorf("%s got %q: %s", m.Envelope, m.Subject, m.Text)
		}
	}
}

// A node notices an account that needs a person, tells the organisation by mail and message, and stops the mails with one
// click.
func TestANodeSendsNotices(t *testing.T) {
	t.Parallel()
	server, posts := testmail.New(t, testmail.Setup{}), make(chan string, 1)
	slack := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // the test compares it
		posts <- string(body)
	}))
	t.Cleanup(slack.Close)
	_, setup := testnode.Sandbox(t, nil)
	setup.Configure = func(c *config.Config) { c.SMTP = server.URL }
	n := testnode.Nodes(t, 1, setup)[0]
	o := n.NewOrg(t, nil)
	if r := n.Call(t, http.MethodPost, "/v1/org/notices", o.Key, map[string]any{"slackUrl": slack.URL}); r.Status != http.StatusOK {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	account := n.ConnectLogin(t, o.Key, "ok@sandbox.test", "us")
	n.Call(t, http.MethodPost, "/v1/sandbox/accounts/"+account+"/reset_login", o.Key, nil)
	if r := n.Call(t, http.MethodGet, "/v1/accounts/"+account+"/me", o.Key, nil); r.Status != http.StatusGone {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	m := server.Await(1)[0]
	if !strings.Contains(m.Subject, "an account needs a person") || !strings.Contains(<-posts, "an account needs a person") {
		t.Errorf("got %+v", m)
	}
	link := strings.Trim(m.Header.Get("List-Unsubscribe"), "<>")
	_, path, _ := strings.Cut(link, "/unsubscribe/")
	get := n.Call(t, http.MethodGet, "/unsubscribe/"+path, "", nil)
	if text := string(n.Call(t, http.MethodGet, "/v1/org/notices", o.Key, nil).Body); get.Status != http.StatusOK || !strings.Contains(text, `"subscribed":true`) {
		t.Errorf("opening the link changes something: %d, %s", get.Status, text)
	}
	click, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.URL+"/unsubscribe/"+path, strings.NewReader("List-Unsubscribe=One-Click"))
	must.OK(t, err)
	click.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	post, err := testnode.Send(click)
	must.OK(t, err)
	if text := string(n.Call(t, http.MethodGet, "/v1/org/notices", o.Key, nil).Body); post.Status != http.StatusOK || !strings.Contains(text, `"subscribed":false`) {
		t.Errorf("one click: %d %s, %s", post.Status, post.Body, text)
	}
	if r := n.Call(t, http.MethodGet, "/unsubscribe/"+path[:len(path)-1], "", nil); r.Status != http.StatusNotFound {
		t.Errorf("a forged link: %d", r.Status)
	}
}
