package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/app/config"
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
