package connectpages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/server/connectpages"
)

// The pages of a suspended org are closed: they ask for nothing, take nothing, and say so in both languages.
func TestPagesOfASuspendedOrgAreClosed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path, token := s.on("sms@sandbox.test")
	view := s.do(token, func(*story) {})
	s.mu.Lock()
	s.org.Suspended = true
	s.mu.Unlock()
	s.do(token, func(one *story) { s.set(one, func(v *connectpages.View) { v.Org.Suspended = true }) })
	acts, starts := len(s.acts), len(s.starts)
	attempt := "/a/" + view.Token
	for _, page := range []string{path, path + "/embed", attempt, attempt + "/phone", attempt + "/embed", attempt + "/events", attempt + "/state", attempt + "/qr.svg"} {
		got := s.get(page)
		s.says(got, http.StatusForbidden, "cannot connect accounts right now")
		for _, asks := range []string{"<form", "<input", "<button", "type=\"password\""} {
			if strings.Contains(got.body, asks) {
				t.Errorf("%s has %s", page, asks)
			}
		}
	}
	s.says(s.get(path+"?lang=es"), http.StatusForbidden, "no puede conectar cuentas ahora")
	s.says(s.post(path, "do", "start", "email", "ok@sandbox.test", "password", "good"), http.StatusForbidden)
	s.says(s.post(attempt, "do", "code", "code", "123456"), http.StatusForbidden)
	if len(s.acts) != acts || len(s.starts) != starts {
		t.Errorf("%d acts and %d starts were taken", len(s.acts)-acts, len(s.starts)-starts)
	}
}
