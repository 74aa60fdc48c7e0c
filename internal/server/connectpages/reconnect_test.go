package connectpages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

func (s *fixture) reconnectLink(account id.Account) string {
	s.Helper()
	token, err := link.NewLinks(keys{}).MakeReconnect(s.Context(), s.org.ID, account, s.clock.now())
	must.OK(s, err)
	return "/r/" + token.Reveal()
}

func TestReconnectLinkShowsTheFormAndMakesASessionWhenItIsSent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	account := id.New[id.Account]()
	s.accounts[account] = connectpages.Connection{Name: "@luna", Platform: "sandbox", Since: s.clock.now(), Remembered: true, Lost: true}
	link := s.reconnectLink(account)
	for range 2 {
		page := s.call(http.MethodGet, link, nil)
		if page.status != http.StatusOK || !strings.HasPrefix(page.head.Get("Content-Type"), "text/html") || !strings.Contains(page.body, `name="password"`) {
			t.Fatalf("%d %s", page.status, page.body)
		}
		if !strings.Contains(page.body, `value="yes" checked`) {
			t.Error("the form would forget credentials that the account remembers")
		}
	}
	if len(s.sessions) != 0 {
		t.Fatal("reading a link made a session")
	}
	sent := s.call(http.MethodPost, link, url.Values{"do": {"start"}, "email": {"ok@sandbox.test"}, "password": {"good"}, "remember": {"yes"}})
	if sent.status != http.StatusSeeOther || !strings.HasPrefix(sent.head.Get("Location"), "/s/cst_") {
		t.Fatalf("%d %s", sent.status, sent.head.Get("Location"))
	}
	got := s.starts[0]
	if got.Session.Account != account || got.Email.Reveal() != "ok@sandbox.test" || !*got.Remember {
		t.Errorf("%+v", got)
	}
	if by := s.acts[0].by; by.Kind != "creator" || by.ID != string(account) || by.Action != "connect.session" {
		t.Errorf("%+v", by)
	}
	again := s.call(http.MethodPost, link, url.Values{"do": {"mobile"}})
	if again.status != http.StatusSeeOther || again.head.Get("Location") != sent.head.Get("Location") || len(s.sessions) != 1 {
		t.Errorf("%d %s, %d sessions", again.status, again.head.Get("Location"), len(s.sessions))
	}
}

func TestReconnectLinkIsOverOnceItsAccountIsConnected(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	account := id.New[id.Account]()
	link := s.reconnectLink(account)
	over := func(what string) {
		t.Helper()
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if page := s.call(method, link, url.Values{"do": {"mobile"}}); page.status < 400 || len(s.sessions) > 0 {
				t.Errorf("%s, %s: %d", what, method, page.status)
			}
		}
	}
	over("no account")
	s.accounts[account] = connectpages.Connection{Name: "@luna", Platform: "sandbox"}
	over("connected")
	s.accounts[account] = connectpages.Connection{Name: "@luna", Platform: "sandbox", Lost: true}
	s.org.Suspended = true
	over("the organisation is suspended")
	s.org.Suspended = false
	s.clock.advance(48 * time.Hour)
	over("two days later")
}
