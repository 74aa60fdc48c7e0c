package connect_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/curlimport"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/sandboxapi"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// importSession imports a copied session, as cookies or as a cURL command.
func (r *fixture) importSession(c sandboxapi.Session, asCurl bool) driver.Session {
	r.t.Helper()
	sandboxed, err := catalog.Sandbox()
	must.OK(r.t, err)
	at, err := url.Parse(r.platform.URL)
	must.OK(r.t, err)
	var cookies map[string]secret.String
	agent, headers := c.UserAgent, map[string]secret.String{}
	if asCurl {
		command := "curl '" + r.platform.URL + "/' -H 'cookie: " + c.Cookie.Reveal() + "' -H 'user-agent: " + c.UserAgent + "'"
		for name, value := range c.Headers {
			command += " -H '" + name + ": " + value + "'"
		}
		pasted, err := curlimport.Curl(secret.New(command), []string{at.Host})
		must.OK(r.t, err)
		cookies, agent, headers = pasted.Cookies, pasted.UserAgent, pasted.Headers
	} else {
		cookies, err = curlimport.Cookies(c.Cookie, []string{at.Host})
		must.OK(r.t, err)
		for name, value := range c.Headers {
			headers[name] = secret.New(value)
		}
	}
	s, missing := driver.NewSession(sandboxed, cookies, headers, agent)
	if len(missing) > 0 {
		r.t.Fatalf("missing %v", missing)
	}
	return s
}

// Every persona can be connected by cookie, cURL command and phone: a creator who is signed in already gets no
// challenge, whatever would have followed their password. An account that is not a creator's is refused by every
// method.
func TestEveryPersonaConnectsByEveryMethod(t *testing.T) {
	t.Parallel()
	r := newFixture(t, options{})
	for _, persona := range []string{
		"ok", "sms", "app", "email", "face", "sms-email", "app-face", "sms-email-face", "locked", "banned", "terms", "captcha", "fan", "slow", "flaky", "down",
		"changed", "expires60", "logout", "mismatch", "restricted",
	} {
		for _, kind := range []attempt.Kind{attempt.Cookie, attempt.Curl, attempt.Mobile} {
			t.Run(persona+" by "+string(kind), func(t *testing.T) {
				t.Parallel()
				r := *r
				r.t = t
				at := r.connectBy(login(persona), kind)
				f := r.waitFor(at.ID, attempt.Success, attempt.Failed)
				switch {
				case persona != "fan" && f.State != string(attempt.Success):
					t.Errorf("%+v", f.Failure)
				case persona == "fan" && (f.Failure == nil || f.Failure.Code != "not_a_creator"):
					t.Errorf("%s %+v", f.State, f.Failure)
				}
			})
		}
	}
}

func (r *fixture) connectBy(email string, kind attempt.Kind) connect.Found {
	r.t.Helper()
	if kind != attempt.Mobile {
		copied, err := r.control.OpenSession(r.t.Context(), email)
		must.OK(r.t, err)
		s := r.importSession(copied, kind == attempt.Curl)
		return r.start("", "", func(st *connect.Start) { st.Kind, st.Imported = kind, &s })
	}
	f := r.start("", "", func(st *connect.Start) { st.Kind = attempt.Mobile })
	r.waitFor(f.ID, attempt.AwaitingMobile)
	_, handle, err := r.connects.SandboxHandle(r.t.Context(), r.org.ID, f.ID)
	must.OK(r.t, err)
	r.platform.Control(r.t, http.MethodPost, "qr/"+handle+"/approve", map[string]any{"login": email})
	return f
}
