package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/tenant/member"
)

// home is the default address after sign-in.
const home = "/app/"

// maxTo bounds the address to go to after sign-in, in bytes.
const maxTo = 1024

// safeTo returns the address to go to after sign-in: one of the dashboard's own, or home. It rejects everything that a
// browser could read as another host.
func safeTo(text string) string {
	if len(text) > maxTo || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '\\' || r >= 0x7f }) {
		return home
	}
	u, err := url.Parse(text)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || u.Fragment != "" {
		return home
	}
	if clean := path.Clean(u.Path); clean != strings.TrimSuffix(u.Path, "/") || u.Path != "/app" && !strings.HasPrefix(u.Path, "/app/") {
		return home
	}
	for _, own := range []string{"/app/sign-in", "/app/sign-out", "/app/callback", "/app/session"} {
		if u.Path == own || strings.HasPrefix(u.Path, own+"/") {
			return home // It would be a loop.
		}
	}
	return u.RequestURI()
}

// signInAt returns the sign-in page that leads to an address.
func signInAt(to string) string {
	if to = safeTo(to); to == home {
		return "/app/sign-in"
	}
	return "/app/sign-in?" + url.Values{"to": {to}}.Encode()
}

// getSignIn shows the sign-in page. A browser that is signed in already is redirected.
func (v *visit) getSignIn() {
	ctx, cancel := v.context()
	defer cancel()
	to := safeTo(v.r.URL.Query().Get("to"))
	if _, ok, err := v.signedIn(ctx); err != nil {
		v.refuse(err)
		return
	} else if ok && !v.r.URL.Query().Has("again") && !v.r.URL.Query().Has("fresh") {
		http.Redirect(v.w, v.r, to, http.StatusSeeOther)
		return
	}
	p := &page{To: to, Again: v.r.URL.Query().Has("again"), Fresh: v.r.URL.Query().Has("fresh")}
	if p.Fresh {
		p.Note = "Sign in again to continue. Creating keys and changing the team needs a sign-in within the last 5 minutes. Then repeat what you did."
	}
	if v.r.URL.Query().Has("out") {
		p.Note = "You are signed out."
	}
	v.showSignIn(http.StatusOK, p)
}

// The development form is prefilled with a member of the org that make up creates.
const (
	devEmail  = "dev@stagedoor.test"
	devName   = "Dev"
	devIssuer = "urn:stagedoor:development"
)

func (v *visit) showSignIn(status int, p *page) {
	p.Provider, p.Dev = v.providerName(), v.deps.Config.Dev
	if p.Email == "" {
		p.Email, p.Name = devEmail, devName
	}
	v.show(status, "signin", "Sign in", p)
}

// postSignIn accepts the development form, in which users say who they are.
func (v *visit) postSignIn() {
	if !v.deps.Config.Dev {
		v.notFound()
		return
	}
	if err := v.r.ParseForm(); err != nil {
		v.showSignIn(http.StatusBadRequest, &page{To: home, Problem: "The form could not be read. Try again."})
		return
	}
	to := safeTo(v.r.PostFormValue("to"))
	email, ok := member.CleanEmail(v.r.PostFormValue("email"))
	if !ok {
		v.showSignIn(http.StatusUnprocessableEntity, &page{To: to, Problem: "Enter an email address, for example dev@stagedoor.test.", Email: v.r.PostFormValue("email"), Name: v.r.PostFormValue("name")})
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	v.signIn(ctx, member.Claims{Issuer: devIssuer, Subject: email, Email: email, Name: v.r.PostFormValue("name")}, member.Welcome{TakeUp: true}, to)
}

// signIn signs in a user whose identity is proven. The browser gets a new cookie and its old session ends, which
// prevents session fixation.
func (v *visit) signIn(ctx context.Context, c member.Claims, w member.Welcome, to string) {
	w.Signup = v.deps.Config.Signup && !v.deps.SignupsPaused(ctx)
	if old := v.cookie(); !old.Empty() {
		if err := v.deps.Members.SignOut(ctx, v.actor(), old); err != nil {
			v.refuse(err)
			return
		}
	}
	b, cookie, err := v.deps.Members.SignIn(ctx, v.actor(), c, w, v.r.UserAgent())
	switch {
	case errors.Is(err, member.ErrNotInvited):
		v.showSignIn(http.StatusForbidden, &page{To: to, Problem: "This address has no invitation. Ask an admin of your organisation for an invitation, then open its link."})
	case errors.Is(err, member.ErrEmail):
		v.showSignIn(http.StatusForbidden, &page{To: to, Problem: "The identity provider returned no usable email address."})
	case err != nil:
		v.refuse(err)
	default:
		v.person = b.Person.ID
		v.startSession(b, cookie, to)
	}
}

// startSession sets the session cookie and redirects the browser.
func (v *visit) startSession(b member.Session, cookie secret.String, to string) {
	v.setCookie(member.Cookie, cookie, cookieLasts)
	if b.Org == "" && !strings.HasPrefix(to, "/app/invitation/") {
		to = home // It explains that the user has no org yet.
	}
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
}

// cookieLasts is when a browser drops the cookie; the session ends no later.
const cookieLasts = 24 * time.Hour

// postSignOut ends the session of the browser.
func (v *visit) postSignOut() {
	ctx, cancel := v.context()
	defer cancel()
	if cookie := v.cookie(); !cookie.Empty() {
		if err := v.deps.Members.SignOut(ctx, v.actor(), cookie); err != nil {
			v.refuse(err)
			return
		}
	}
	v.dropCookie(member.Cookie)
	http.Redirect(v.w, v.r, "/app/sign-in?out=1", http.StatusSeeOther)
}
