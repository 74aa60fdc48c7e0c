package connectpages

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
)

const callbackPattern = "GET " + registry.CallbackPath

// browserLife is how long a browser is recognised: longer than an attempt can last.
const browserLife = 2 * time.Hour

// maxCallback bounds the parameters with which a platform sends a creator back, in bytes.
const maxCallback = 4096

// browserCookie returns the name of the cookie that recognises a browser. The prefix keeps other hosts from setting it.
func (v *visit) browserCookie() string {
	if v.isSecure() {
		return "__Host-sd_browser"
	}
	return "sd_browser"
}

func (v *visit) isSecure() bool { return strings.HasPrefix(v.deps.Config.URL, "https:") }

// browser returns the secret of the browser; empty if it has none.
func (v *visit) browser() secret.String {
	cookie, err := v.r.Cookie(v.browserCookie())
	if err != nil {
		return secret.String{}
	}
	if raw, err := base64.RawURLEncoding.DecodeString(cookie.Value); err != nil || len(raw) != 32 {
		return secret.String{}
	}
	return secret.New(cookie.Value)
}

// markBrowser returns the secret of the browser and sets the cookie. Attempts in several tabs share it.
func (v *visit) markBrowser() secret.String {
	known := v.browser()
	if known.Empty() {
		var raw [32]byte
		_, _ = rand.Read(raw[:]) // Never fails.
		known = secret.New(base64.RawURLEncoding.EncodeToString(raw[:]))
	}
	http.SetCookie(v.w, &http.Cookie{
		Name: v.browserCookie(), Value: known.Reveal(), Path: "/", MaxAge: int(browserLife / time.Second), Secure: v.isSecure(), HttpOnly: true,
		SameSite: http.SameSiteLaxMode, // The browser comes back from another site.
	})
	return known
}

// allowAuthorize lets the form of this page send the browser to the platform.
func (v *visit) allowAuthorize() {
	if v.platform.Driver == nil {
		return
	}
	address, err := v.platform.Driver.AuthorizeURL(secret.String{}, secret.String{})
	if err != nil {
		return
	}
	if u, err := url.Parse(address.Reveal()); err == nil {
		v.formTo = []string{u.Scheme + "://" + u.Host}
		v.secure(v.origins())
	}
}

// authorize sends the creator to the platform's page. The page before it has named the org and the platform.
func (v *visit) authorize(token string) {
	consent, err := v.consentOf()
	if err != nil {
		v.fail(err)
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	address, err := v.deps.Attempts.Authorize(ctx, token, v.markBrowser(), consent)
	switch {
	case err == nil:
		http.Redirect(v.w, v.r, address.Reveal(), http.StatusSeeOther)
	case errors.Is(err, problem.AttemptCompleted.New("")), errors.Is(err, problem.AttemptStateConflict.New("")):
		v.redirect(v.path) // Another tab was faster. The page shows the current state.
	default:
		v.showError(err)
	}
}

// getCallback accepts a creator who comes back from the platform, and continues on the page of the attempt. The state and
// the cookie together prove that this browser was sent there from our page.
func (v *visit) getCallback() {
	query := v.r.URL.Query()
	back := connect.Return{
		State: secret.New(query.Get("state")), Browser: v.browser(), Code: secret.New(query.Get("code")), Error: query.Get("error"),
	}
	switch {
	case v.stopIfGuessing():
		return
	case v.r.Method != http.MethodGet || len(v.r.URL.RawQuery) > maxCallback || back.Code.Empty() == (back.Error == ""):
		v.showGone(http.StatusBadRequest)
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	a, err := v.deps.Attempts.Authorized(ctx, back)
	switch {
	case errors.Is(err, connect.ErrOtherBrowser):
		v.show(http.StatusForbidden, "otherbrowser", &page{End: "error"})
	case err != nil:
		v.showError(err)
	default:
		v.redirect("/a/" + url.PathEscape(a.Token))
	}
}

// FullAction returns the address to which forms are sent that leave an embedded page for a window of its own.
func (p *page) FullAction() string { return strings.TrimSuffix(p.path, "/embed") + p.lang() }
