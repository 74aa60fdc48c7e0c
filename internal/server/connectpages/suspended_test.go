package connectpages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/connectpages"
)

// The pages of a suspended org are closed: they have no form, accept none, and say so in both languages.
func TestPagesOfASuspendedOrgAreClosed(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path, token := s.startChallenge("sms@sandbox.test")
	view := s.do(token, func(*fakeAttempt) {})
	s.mu.Lock()
	s.org.Suspended = true
	s.mu.Unlock()
	s.do(token, func(one *fakeAttempt) { s.set(one, func(v *connectpages.View) { v.Org.Suspended = true }) })
	acts, starts := len(s.acts), len(s.starts)
	attempt := "/a/" + view.Token
	for _, page := range []string{path, path + "/embed", attempt, attempt + "/phone", attempt + "/embed", attempt + "/events", attempt + "/state", attempt + "/qr.svg"} {
		got := s.get(page)
		s.wantText(got, http.StatusForbidden, "cannot connect accounts right now")
		for _, asks := range []string{"<form", "<input", "<button", "type=\"password\""} {
			if strings.Contains(got.body, asks) {
				t.Errorf("%s has %s", page, asks)
			}
		}
	}
	s.wantText(s.get(path+"?lang=es"), http.StatusForbidden, "no puede conectar cuentas ahora")
	s.wantText(s.post(path, "do", "start", "email", "ok@sandbox.test", "password", "good"), http.StatusForbidden)
	s.wantText(s.post(attempt, "do", "code", "code", "123456"), http.StatusForbidden)
	if len(s.acts) != acts || len(s.starts) != starts {
		t.Errorf("%d acts and %d starts were accepted", len(s.acts)-acts, len(s.starts)-starts)
	}
}
