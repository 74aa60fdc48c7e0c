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

// browserLife is how long a browser is recognised: longer than a link works.
const browserLife = 8 * 24 * time.Hour

// maxCallback bounds the parameters with which a platform sends a creator back, in bytes.
const maxCallback = 4096

// The cookies that recognise a browser. Frames of other sites get a second one: it is partitioned, so it does not
// recognise the browser on any other site. The prefix keeps other hosts from setting them.
const (
	browserCookie = "sd_browser"
	frameCookie   = "__Host-sd_frame"
)

// browserCookies returns the cookies of a page, without their values.
func (v *visit) browserCookies() []http.Cookie {
	list := []http.Cookie{{
		Name: browserCookie, Path: "/", MaxAge: int(browserLife / time.Second), HttpOnly: true,
		SameSite: http.SameSiteLaxMode, // The browser comes from another site: a message with a link, or a platform.
	}}
	if !v.isSecure() {
		return list
	}
	list[0].Name, list[0].Secure = "__Host-"+browserCookie, true
	if v.variant == embedded {
		frame := list[0]
		frame.Name, frame.SameSite, frame.Partitioned = frameCookie, http.SameSiteNoneMode, true
		list = append(list, frame)
	}
	return list
}

func (v *visit) isSecure() bool { return strings.HasPrefix(v.deps.Config.URL, "https:") }

// browser returns the secret of the browser; empty if it has none.
func (v *visit) browser() secret.String {
	for _, known := range v.browserCookies() {
		if cookie, err := v.r.Cookie(known.Name); err == nil && isBrowser(cookie.Value) {
			return secret.New(cookie.Value)
		}
	}
	return secret.String{}
}

// isBrowser reports whether a text has the form of a browser's secret.
func isBrowser(text string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(raw) == 32
}

func newBrowser() secret.String {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // Never fails.
	return secret.New(base64.RawURLEncoding.EncodeToString(raw[:]))
}

// markBrowser returns the secret of the browser and sets its cookies. Pages in several tabs share it.
func (v *visit) markBrowser() secret.String {
	known := v.browser()
	if known.Empty() {
		known = newBrowser()
	}
	for _, cookie := range v.browserCookies() {
		cookie.Value = known.Reveal()
		http.SetCookie(v.w, &cookie)
	}
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
		page := "/a/" + url.PathEscape(a.Token)
		if a.Session != "" {
			if s, err := v.deps.Sessions.ByBrowser(ctx, a.Session, back.Browser); err == nil {
				page = "/s/" + string(s.ID) // The attempt was started there, not in a frame.
			}
		}
		v.redirect(page)
	}
}

// FullAction returns the address to which forms are sent that leave an embedded page for a window of its own. Such a
// window may not have the cookie of the frame, so it shows the attempt.
func (p *page) FullAction() string {
	if p.variant == embedded {
		return "/a/" + url.PathEscape(p.View.Token) + p.lang()
	}
	return p.path + p.lang()
}
