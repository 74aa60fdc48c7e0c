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

// enterReconnect opens a reconnect link, and returns the address of its session.
func (s *fixture) enterReconnect(link string) string {
	s.Helper()
	s.wantText(s.get(link), http.StatusOK, "asks you to connect your account", "!Password")
	opened := s.call(http.MethodPost, link, url.Values{"do": {"open"}})
	if opened.status != http.StatusSeeOther || !strings.HasPrefix(opened.head.Get("Location"), "/s/cs_") {
		s.Fatalf("%d %s", opened.status, opened.head.Get("Location"))
	}
	return opened.head.Get("Location")
}

func TestReconnectLinkMakesASessionWhenItIsOpened(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	account := id.New[id.Account]()
	s.accounts[account] = connectpages.Connection{Name: "@luna", Platform: "sandbox", Since: s.clock.now(), Remembered: true, Lost: true}
	link := s.reconnectLink(account)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodGet} {
		if page := s.call(method, link, nil); page.status != http.StatusOK || !strings.HasPrefix(page.head.Get("Content-Type"), "text/html") {
			t.Fatalf("%d %s", page.status, page.body)
		}
	}
	if len(s.sessions) != 0 {
		t.Fatal("reading a link made a session")
	}
	s.wantText(s.otherBrowser().post(link, "do", "open"), 422, "Allow cookies for this site")
	path := s.enterReconnect(link)
	if page := s.get(path); !strings.Contains(page.body, `value="yes" checked`) {
		t.Error("the form would forget credentials that the account remembers")
	}
	s.wantText(s.post(path, "do", "start", "email", "ok@sandbox.test", "password", "good", "remember", "yes"), 200, "Signing you in")
	got := s.starts[0]
	if got.Session.Account != account || got.Email.Reveal() != "ok@sandbox.test" || !*got.Remember {
		t.Errorf("%+v", got)
	}
	if by := s.acts[0].by; by.Kind != "creator" || by.ID != string(account) || by.Action != "connect.session" {
		t.Errorf("%+v", by)
	}
	if again := s.enterReconnect(link); again != path || len(s.sessions) != 1 {
		t.Errorf("%s, %d sessions", again, len(s.sessions))
	}
	// Another browser does not see the attempt of the first one.
	other := s.otherBrowser()
	other.get(link)
	s.wantText(other.post(link, "do", "open"), 409, "This link was opened in another browser", "!Signing you in")
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
