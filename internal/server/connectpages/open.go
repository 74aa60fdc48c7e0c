package connectpages

import (
	"cmp"
	"errors"
	"net/http"
	"strings"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// The page of a link has a button and shows nothing else of its session. Only the button spends the token in the
// address: previews, scanners and prefetching browsers send GET and HEAD, and some of them run scripts. It binds the
// session to the browser's cookie (package link) and leads to the session's own address, /s/{id}.
//
// A frame may have no cookies. Then the secret that stands for the browser is part of the frame's own address,
// /s/{id}.{secret}/embed, which no address bar shows. In a frame, which no preview opens, the script presses the button.

// atLink reports whether the address contains the token of a link, not the id of a session.
func (v *visit) atLink() bool { return strings.HasPrefix(v.r.PathValue("token"), link.TokenPrefix) }

// findLink loads the session of the link. It returns false if it has answered the request.
func (v *visit) findLink() bool {
	if v.stopIfGuessing() {
		return false
	}
	ctx, cancel := v.context()
	defer cancel()
	s, err := v.deps.Sessions.ByToken(ctx, v.r.PathValue("token"))
	return v.setSession(s, err)
}

func (v *visit) getLink() {
	if !v.findLink() {
		return
	}
	switch hold := v.session.Held(v.browser()); {
	case hold == link.Here:
		v.redirect(v.sessionPath(""))
	case hold != link.Unopened:
		v.showOpened(hold, "")
	case v.session.Status.Over():
		v.showGone(http.StatusGone)
	case !v.stopIfUnavailable():
		v.showOpen("")
	}
}

// postLink opens the link in this browser.
func (v *visit) postLink() {
	if !v.findLink() {
		return
	}
	switch v.r.PostFormValue("do") {
	case "open":
		v.openLink(false)
	case "again":
		v.openLink(true)
	default:
		v.redirect(v.path)
	}
}

// openLink binds the session to this browser, and continues there. again means that it may take the session from
// another browser.
func (v *visit) openLink(again bool) {
	browser, key := v.browser(), ""
	if browser.Empty() && v.variant == embedded {
		browser = newBrowser()
		key = "." + browser.Reveal()
	}
	hold := v.session.Held(browser)
	switch {
	case browser.Empty() && !v.session.CanMove():
		v.redirect(v.path)
		return
	case browser.Empty() && hold == link.Unopened:
		v.showOpen("open.cookies")
		return
	case browser.Empty():
		v.showOpened(hold, "open.cookies")
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	if again && hold != link.Here && v.session.CanMove() && !v.cancelActive(ctx) {
		return
	}
	_, err := v.deps.Sessions.Open(ctx, v.actor(string(v.session.ID), "connect.open"), *v.session, browser, browserKind(v.r.UserAgent()), again)
	switch {
	case err == nil:
		if key == "" {
			v.markBrowser()
		}
		v.redirect(v.sessionPath(key))
	case errors.Is(err, link.ErrElsewhere), errors.Is(err, link.ErrOver), errors.Is(err, problem.AttemptInProgress.New("")):
		v.redirect(v.path) // Another browser was faster. The page shows the current state.
	default:
		v.showError(err)
	}
}

// sessionPath returns the address of the session for the browser that it is bound to. key is that of a frame without
// cookies.
func (v *visit) sessionPath(key string) string {
	path := "/s/" + string(v.session.ID) + key
	if v.variant == embedded {
		path += "/embed"
	}
	return path
}

// showOpen shows the page of a link that was not opened yet. wrong is the key of an error message.
func (v *visit) showOpen(wrong string) {
	v.site = "" // The page shows nothing that is known of the creator.
	v.markBrowser()
	v.showProblem("open", &page{}, http.StatusOK, wrong)
}

// showOpened shows when the link was opened in another browser, and in what kind. It shows nothing of what happened
// there. wrong is the key of an error message about starting again.
func (v *visit) showOpened(hold link.Hold, wrong string) {
	at := v.session.BoundAt.UTC()
	date, err := v.words.date(at)
	if err != nil {
		v.fail(err)
		return
	}
	v.site = ""
	p := &page{Since: date, Clock: at.Format("15:04"), Browser: v.session.OpenedIn, Lost: hold == link.Lost && !v.atLink()}
	p.Again = v.atLink() && v.session.CanMove()
	switch {
	case p.Again:
		v.markBrowser()
		v.showProblem("opened", p, http.StatusConflict, wrong)
	case p.Lost:
		p.End = "error"
		v.show(http.StatusConflict, "opened", p)
	default:
		p.End = "error"
		v.show(http.StatusGone, "opened", p)
	}
}

// showProblem shows a page with an error message. wrong is its key; empty for none.
func (v *visit) showProblem(name string, p *page, status int, wrong string) {
	p.visit = v
	if wrong != "" {
		status = http.StatusUnprocessableEntity
		if err := p.complain(wrong, 0); err != nil {
			v.fail(err)
			return
		}
	}
	v.show(status, name, p)
}

// BrowserName and SystemName return the kind of browser in words.
func (p *page) BrowserName() string { return cmp.Or(p.Browser.Name, p.words.texts["opened.browser"]) }

func (p *page) SystemName() string { return cmp.Or(p.Browser.System, p.words.texts["opened.system"]) }

// The words in a User-Agent that name the browser and the system, the most specific first.
var (
	browserNames = [][2]string{
		{"Instagram", "Instagram"}, {"FBAN", "Facebook"}, {"FBAV", "Facebook"}, {"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser", "Samsung Internet"},
		{"Firefox/", "Firefox"}, {"FxiOS", "Firefox"}, {"CriOS", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
	}
	systemNames = [][2]string{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Windows", "Windows"}, {"Macintosh", "Mac"}, {"CrOS", "ChromeOS"}, {"Linux", "Linux"},
	}
)

// browserKind returns roughly what browser a User-Agent stands for: enough for a person to recognise their own, and too
// little to tell two phones apart.
func browserKind(agent string) link.Browser {
	find := func(list [][2]string) string {
		for _, one := range list {
			if strings.Contains(agent, one[0]) {
				return one[1]
			}
		}
		return ""
	}
	return link.Browser{Name: find(browserNames), System: find(systemNames)}
}

// onPhone reports whether the page is open on a phone, whose camera cannot scan its own screen.
func (v *visit) onPhone() bool {
	agent := v.r.UserAgent()
	return strings.Contains(agent, "iPhone") || strings.Contains(agent, "Android") && strings.Contains(agent, "Mobile")
}

// frameKey returns the secret in the address of a frame without cookies, and the rest of the address.
func (v *visit) frameKey() (session string, key secret.String) {
	session, text, _ := strings.Cut(v.r.PathValue("token"), ".")
	if v.variant != embedded || !isBrowser(text) {
		return session, secret.String{}
	}
	return session, secret.New(text)
}
