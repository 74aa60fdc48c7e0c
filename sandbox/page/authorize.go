package page

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/stagedoor/stagedoor/sandbox/auth"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// authorizes is the data of the page at /oauth/authorize.
type authorizes struct {
	auth.Authorize
	Host   string
	Scopes []string
	Chosen string
	Fault  string
}

// authorize shows the page on which a creator allows a client to act for them.
func (p *Page) authorize(w http.ResponseWriter, r *http.Request) {
	if in, ok := p.checkAuthorize(w, r); ok {
		p.showAuthorize(w, http.StatusOK, in, r.URL.Query().Get("login_hint"), "")
	}
}

// checkAuthorize reads the request of a client. It returns false if it has answered: with an error page if the client is
// unknown, and by sending the browser back if the request is wrong.
func (p *Page) checkAuthorize(w http.ResponseWriter, r *http.Request) (auth.Authorize, bool) {
	in, err := p.deps.Auth.CheckAuthorize(r.URL.Query())
	wrong, ok := errors.AsType[*auth.OAuthError](err)
	switch {
	case ok:
		back := p.deps.Auth.Back(in, url.Values{"error": {wrong.Code}, "error_description": {wrong.Text}})
		http.Redirect(w, r, back, http.StatusSeeOther)
		return in, false
	case err != nil:
		p.show(w, http.StatusBadRequest, "authorize.html", authorizes{})
		return in, false
	}
	return in, true
}

func (p *Page) answerAuthorize(w http.ResponseWriter, r *http.Request) {
	in, ok := p.checkAuthorize(w, r)
	if !ok {
		return
	}
	if r.PostFormValue("answer") == "deny" {
		http.Redirect(w, r, p.deps.Auth.Back(in, url.Values{"error": {"access_denied"}}), http.StatusSeeOther)
		return
	}
	login := strings.ToLower(strings.TrimSpace(r.PostFormValue("login")))
	if _, err := world.Persona(login); err != nil {
		p.showAuthorize(w, http.StatusUnprocessableEntity, in, login, "A sandbox login looks like oauth@"+world.Domain+".")
		return
	}
	back, err := p.deps.Auth.Allow(in, login)
	if refusal, ok := errors.AsType[*wire.Refusal](err); ok {
		p.showAuthorize(w, refusal.Status, in, login, refusal.Message)
		return
	}
	if err != nil {
		p.broken(w, r, err)
		return
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

func (p *Page) showAuthorize(w http.ResponseWriter, status int, in auth.Authorize, chosen, fault string) {
	view := authorizes{Authorize: in, Scopes: strings.Fields(in.Scope), Chosen: chosen, Fault: fault}
	if to, err := url.Parse(in.Redirect); err == nil {
		view.Host = to.Host
		// The answer of the form sends the browser to the client, which the policy must allow.
		w.Header().Set("Content-Security-Policy", strings.Replace(policy, "form-action 'self'", "form-action 'self' "+to.Scheme+"://"+to.Host, 1))
	}
	p.show(w, status, "authorize.html", view)
}
