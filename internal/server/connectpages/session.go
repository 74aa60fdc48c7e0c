package connectpages

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// findSession loads the session of the browser. It returns false if it has answered the request.
func (v *visit) findSession() bool {
	if v.stopIfGuessing() {
		return false
	}
	session, browser := v.frameKey()
	if browser.Empty() {
		browser = v.browser()
	}
	ctx, cancel := v.context()
	defer cancel()
	s, err := v.deps.Sessions.ByBrowser(ctx, id.Session(session), browser)
	if !v.setSession(s, err) {
		return false
	}
	if s.Held(browser) == link.Lost {
		v.showOpened(link.Lost, "")
		return false
	}
	return true
}

// setSession sets the session of the page, and its org. It returns false if it has answered the request.
func (v *visit) setSession(s link.Session, err error) bool {
	if err != nil {
		v.showError(err)
		return false
	}
	ctx, cancel := v.context()
	defer cancel()
	o, err := v.deps.Orgs.Org(ctx, s.Org)
	if err != nil {
		v.showError(err)
		return false
	}
	v.session = &s
	v.setOrg(o, s.Locale)
	v.setSessionPlace()
	return !v.stopIfSuspended(o)
}

// currentAttempt returns the newest attempt of the browser, or nil before the first.
func (v *visit) currentAttempt() (*View, error) {
	last := v.session.Last()
	if last == "" {
		return nil, nil //nolint:nilnil // a session without an attempt is not an error
	}
	ctx, cancel := v.context()
	defer cancel()
	token, err := v.deps.Attempts.Token(ctx, v.session.Org, last)
	if err != nil {
		return nil, err
	}
	a, err := v.deps.Attempts.ByToken(ctx, token)
	return &a, err
}

// getSession shows the form, or the attempt in progress: one link leads through the whole flow.
func (v *visit) getSession() {
	if v.atLink() {
		v.getLink()
		return
	}
	if !v.findSession() {
		return
	}
	a, err := v.currentAttempt()
	switch {
	case err != nil:
		v.showError(err)
	case v.showsForm(a):
		v.showForm(a)
	case a != nil && v.retryField(*a) != "":
		v.showRetry(*a)
	case a != nil && (v.session.Active != "" || v.session.Status == link.Success || v.session.Status == link.InProgress):
		v.showAttempt(*a, "", "")
	case v.session.Status == link.Exited:
		v.show(http.StatusGone, "exited", &page{End: "exit", Return: v.exitURL("cancelled")})
	default:
		v.showGone(http.StatusGone)
	}
}

// showsForm reports whether the page of the session is the form: there was no attempt yet, or the creator wants to try
// again.
func (v *visit) showsForm(a *View) bool {
	if v.session.Status.Over() {
		return false
	}
	return a == nil || a.State == attempt.Failed && v.r.URL.Query().Has("again")
}

// retryField returns the field of the form that the platform refused in the attempt: password or token. It is empty if
// the attempt did not fail for what the creator entered, or if the form is over.
func (v *visit) retryField(a View) string {
	over := a.State != attempt.Failed || v.session.Status.Over() || v.session.Active != "" || v.asksSite() && a.Site == ""
	switch {
	case over:
	case a.Kind == attempt.Credentials && a.Failure == attempt.CodeCredentials && v.offers(link.Credentials):
		return "password"
	case a.Kind == attempt.Token && a.Failure == attempt.CodeInvalid && v.offers(link.Token):
		return "token"
	}
	return ""
}

// showRetry shows the form again, with what the platform said about the last attempt at the field that it refused. For
// the site that embeds the page, the attempt has failed as any other.
func (v *visit) showRetry(a View) {
	if v.asksSite() {
		v.site = a.Site // It was checked when that attempt started.
	}
	v.showLogin(&page{View: a, Field: v.retryField(a), End: "error"}, "failed."+a.Failure)
}

// exitURL returns the address to return to without having connected.
func (v *visit) exitURL(status string) string {
	return returnURL(v.session.ReturnURL, status, map[string]string{"reference_id": v.session.ReferenceID, "session_id": string(v.session.ID)})
}

func (v *visit) postSession() {
	if v.atLink() {
		v.postLink()
		return
	}
	if !v.findSession() {
		return
	}
	switch do := v.r.PostFormValue("do"); do {
	case "start", "mobile", "token", "oauth":
		v.startAttempt(do)
	case "site":
		v.checkSite()
	case "exit":
		v.exit()
	default:
		a, err := v.currentAttempt()
		switch {
		case err != nil:
			v.showError(err)
		case a == nil:
			v.redirect(v.path)
		default:
			v.submit(*a)
		}
	}
}

// exit ends the session: first the attempt in progress, then the session.
func (v *visit) exit() {
	ctx, cancel := v.context()
	defer cancel()
	if !v.cancelActive(ctx) {
		return
	}
	_, err := v.deps.Sessions.Exit(ctx, v.session.Org, v.session.ID, v.session.Openings())
	if err != nil && !errors.Is(err, link.ErrElsewhere) { // then the page says that another browser has the session
		v.showError(err)
		return
	}
	v.redirect(v.path)
}

// cancelActive ends the attempt in progress, if there is one. It returns false if it has answered the request.
func (v *visit) cancelActive(ctx context.Context) bool {
	if v.session.Active == "" {
		return true
	}
	token, err := v.deps.Attempts.Token(ctx, v.session.Org, v.session.Active)
	if err == nil {
		_, err = v.deps.Attempts.Act(ctx, token, v.actor(string(v.session.ID), "connect.cancel"), Act{Cancel: true})
	}
	if err != nil && problem.Of(err).Kind.Code != problem.AttemptCompleted.Code {
		v.showError(err)
		return false
	}
	return true
}

// Limits of the form fields, in bytes.
const (
	maxEmail    = 254
	maxPassword = 1024
)

// startAttempt starts an attempt with what the creator entered.
func (v *visit) startAttempt(do string) {
	email, password := strings.TrimSpace(v.r.PostFormValue("email")), secret.New(v.r.PostFormValue("password"))
	s := Start{Session: *v.session, Kind: link.MobileApp}
	switch do {
	case "oauth":
		s.Kind = link.OAuth
	case "token":
		s.Kind, s.Token = link.Token, secret.New(v.r.PostFormValue("token"))
	case "start":
		s.Kind, s.Email, s.Password = link.Credentials, secret.New(email), password
		remember := v.session.Remember == link.RememberAlways || v.session.Remember == link.RememberAsk && v.r.PostFormValue("remember") == "yes"
		s.Remember = &remember
	}
	switch {
	case v.session.Status.Over():
		v.redirect(v.path)
		return
	case v.stopIfUnavailable() || !v.takeSite():
		return
	case !v.offers(s.Kind):
		v.redirect(v.path)
		return
	case do == "start" && (len(email) > maxEmail || !strings.Contains(strings.Trim(email, "@"), "@")):
		v.showStart("start.email.wrong", "email", email)
		return
	case do == "start" && (password.Empty() || len(password.Reveal()) > maxPassword):
		v.showStart("start.password.none", "password", email)
		return
	case do == "token":
		if _, ok := v.platform.Catalog.Session.JWT.Parse(s.Token); !ok {
			v.showStart("token.wrong", "token", "")
			return
		}
	}
	s.Site = v.site
	var err error
	if s.Consent, err = v.consentOf(); err != nil {
		v.fail(err)
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	err = v.deps.Attempts.Start(ctx, v.actor(string(v.session.ID), "connect.start"), s)
	if err == nil && do == "oauth" && v.variant != embedded {
		v.authorizeStarted()
		return
	}
	v.showStarted(err, email)
}

// authorizeStarted sends the creator to the platform right after the form of the session, which has the same text and
// button as the page of the attempt.
func (v *visit) authorizeStarted() {
	if !v.findSession() { // it now knows the attempt
		return
	}
	a, err := v.currentAttempt()
	if err != nil || a == nil {
		v.redirect(v.path)
		return
	}
	v.authorize(a.Token)
}

func (v *visit) showStarted(err error, email string) {
	if err == nil || errors.Is(err, link.ErrOver) || errors.Is(err, link.ErrElsewhere) {
		v.redirect(v.path)
		return
	}
	switch fault := siteFault(err); {
	case fault == noRoute:
		v.showStart(fault, "", email)
		return
	case fault != "" && fault != siteDown && v.asksSite():
		v.showSite(fault, v.siteName())
		return
	case fault != "":
		v.showStart("failed.upstream_unavailable", "", email)
		return
	}
	switch kind := problem.Of(err).Kind; kind.Code {
	case problem.AttemptInProgress.Code:
		v.redirect(v.path) // The form was sent twice. The first one counts.
	case problem.QuotaExceeded.Code:
		v.showStart("start.quota", "", email)
	case problem.ValidationFailed.Code:
		v.showStart("start.email.wrong", "email", email)
	case problem.OrgSuspended.Code:
		v.showSuspended()
	default:
		v.showError(err)
	}
}

// rememberChecked reports whether the box to store the password is ticked: as the creator left it, or as set for the
// account to reconnect.
func (v *visit) rememberChecked() bool {
	switch {
	case v.session.Remember != link.RememberAsk:
		return false
	case v.r.Method == http.MethodPost:
		return v.r.PostFormValue("remember") == "yes"
	case v.session.Account == "":
		return false
	}
	ctx, cancel := v.context()
	defer cancel()
	c, err := v.deps.Connections.Connection(ctx, v.session.Org, v.session.Account)
	return err == nil && c.Remembered
}

// showStart shows the form. It never contains the password again.
func (v *visit) showStart(wrong, field, email string) {
	v.showLogin(&page{Field: field, Email: email}, wrong)
}

// showLogin shows the form with what is set in the page. wrong is the key of an error message.
func (v *visit) showLogin(p *page, wrong string) {
	p.visit, p.Stage, p.Return, p.Remember = v, atStart, v.exitURL("cancelled"), v.rememberChecked()
	status := http.StatusOK
	if wrong != "" {
		if v.r.Method == http.MethodPost {
			status = http.StatusUnprocessableEntity
		}
		if err := p.complain(wrong, 0); err != nil {
			v.fail(err)
			return
		}
	}
	if v.offers(link.OAuth) {
		v.allowAuthorize()
	}
	v.show(status, "start", p)
}
