package connectpages_test

import (
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
)

// A platform that issues keys asks for one first, says where it is, and lets the creator sign in instead.
func TestAKeyIsAskedForFirst(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	key := strings.Repeat("a1", 12) + ":" + strings.Repeat("0f", 32)
	token, _ := s.open(link.Session{Platform: "ghost", Kinds: []string{link.Token, link.Credentials, link.MobileApp}})
	path := s.enter(token)
	s.wantText(s.get(path), 200, "Where is your Ghost site?")
	page := s.post(path, "do", "site", "site", "maya.example.com")
	s.wantText(page, 200, "Connect maya.example.com", "Admin API key", "add a custom integration", "Sign in with email and password instead", "Password")
	if strings.Index(page.body, `name="token"`) > strings.Index(page.body, `name="password"`) || strings.Contains(page.body, "<details open") {
		t.Error(page.body)
	}
	s.wantText(s.post(path+"?lang=es", "do", "site", "site", "maya.example.com"), 200, "abre Settings", "Iniciar sesión con correo")

	wrong := s.post(path, "do", "token", "site", "https://maya.example.com", "token", key[:40])
	s.wantText(wrong, 422, "This is not a whole Admin API key")
	if strings.Contains(wrong.body, key[:40]) || !strings.Contains(wrong.body, `name="token" type="password"`) {
		t.Error(wrong.body)
	}
	// The other way stays open if something was wrong with it.
	if page := s.post(path, "do", "start", "site", "https://maya.example.com", "email", "maya", "password", "good"); !strings.Contains(page.body, "<details open") {
		t.Error(page.body)
	}
	s.post(path, "do", "token", "site", "https://maya.example.com", "token", key+"\n")
	if len(s.starts) != 1 || s.starts[0].Kind != link.Token || strings.TrimSpace(s.starts[0].Token.Reveal()) != key || s.starts[0].Remember != nil ||
		s.starts[0].Site != "https://maya.example.com" || s.starts[0].Consent.TextHash == "" {
		t.Errorf("%+v", s.starts)
	}
	s.do(token, func(st *fakeAttempt) { st.view.State, st.view.Failure = attempt.Failed, attempt.CodeInvalid })
	s.wantText(s.get(path), 200, "A key may have been deleted")
}

// A link that offers no keys, or is for a platform without keys, takes none.
func TestAKeyThatIsNotOfferedIsNotTaken(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	for _, it := range []link.Session{{Kinds: []string{link.Token, link.Credentials, link.MobileApp}}, {Platform: "ghost", Site: "https://maya.example.com"}} {
		token, _ := s.open(it)
		s.wantText(s.get(s.enter(token)), 200, "Password", "!Admin API key")
		s.wantText(s.post(s.enter(token), "do", "token", "token", "x"), 200, "Password", "!Admin API key")
	}
	if len(s.starts) != 0 {
		t.Errorf("%+v", s.starts)
	}
}

// An account with a key is reconnected with its key, and its creator learns that the key stays valid on the platform.
func TestAnAccountWithAKey(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	account := id.New[id.Account]()
	s.accounts[account] = connectpages.Connection{
		Name: "Maya's letters", Platform: "ghost", Site: "https://maya.example.com", Credentials: catalog.ByToken, Lost: true,
	}
	s.wantText(s.get(s.enterReconnect(s.reconnectLink(account))), 200, "Admin API key", "!Password", "!instead")
}
