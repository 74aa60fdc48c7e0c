package connectpages

import (
	"errors"
	"net/http"
	"strings"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// findSession reads the session of the link; false means that the page is answered.
func (v *visit) findSession() bool {
	if v.guessing() {
		return false
	}
	ctx, cancel := v.context()
	defer cancel()
	s, err := v.Sessions.ByToken(ctx, v.r.PathValue("token"))
	if err != nil {
		v.trouble(err)
		return false
	}
	o, err := v.Orgs.Org(ctx, s.Org)
	if err != nil {
		v.trouble(err)
		return false
	}
	v.session = &s
	v.known(o, s.Locale)
	return !v.suspended(o)
}

// current is the newest attempt of the session, or nil before the first.
func (v *visit) current() (*View, error) {
	last := v.session.Last()
	if last == "" {
		return nil, nil //nolint:nilnil // a session without an attempt is no failure
	}
	ctx, cancel := v.context()
	defer cancel()
	token, err := v.Attempts.Token(ctx, v.session.Org, last)
	if err != nil {
		return nil, err
	}
	a, err := v.Attempts.ByToken(ctx, token)
	return &a, err
}

// getSession shows the form, or the attempt under way: one link leads through all of it.
func (v *visit) getSession() {
	if !v.findSession() {
		return
	}
	v.opened()
	a, err := v.current()
	switch {
	case err != nil:
		v.trouble(err)
	case v.starts(a):
		v.showStart("", "", "")
	case a != nil && (v.session.Active != "" || v.session.Status == link.Success || v.session.Status == link.InProgress):
		v.showAttempt(*a, "", "")
	case v.session.Status == link.Exited:
		v.show(http.StatusGone, "exited", &page{End: "exit", Return: v.leave("cancelled")})
	default:
		v.showGone(http.StatusGone)
	}
}

// opened notes that somebody sees the page. That it cannot be noted must not keep them from it.
func (v *visit) opened() {
	ctx, cancel := v.context()
	defer cancel()
	_ = v.Sessions.Opened(ctx, *v.session)
}

// starts says whether the session's page is the form: nothing was tried yet, or the creator wants to try again.
func (v *visit) starts(a *View) bool {
	if v.session.Status.Over() {
		return false
	}
	return a == nil || a.State == attempt.Failed && v.r.URL.Query().Has("again")
}

// leave is the address to go to without having connected.
func (v *visit) leave(status string) string {
	return returnURL(v.session.ReturnURL, status, map[string]string{"reference_id": v.session.ReferenceID, "session_id": string(v.session.ID)})
}

func (v *visit) postSession() {
	if !v.findSession() {
		return
	}
	switch do := v.r.PostFormValue("do"); do {
	case "start", "mobile":
		v.start(do)
	case "exit":
		v.exit()
	default:
		a, err := v.current()
		switch {
		case err != nil:
			v.trouble(err)
		case a == nil:
			v.again(v.path)
		default:
			v.act(*a)
		}
	}
}

// exit ends the session: first what is under way, then itself.
func (v *visit) exit() {
	ctx, cancel := v.context()
	defer cancel()
	if v.session.Active != "" {
		token, err := v.Attempts.Token(ctx, v.session.Org, v.session.Active)
		if err == nil {
			_, err = v.Attempts.Act(ctx, token, v.by(string(v.session.ID), "connect.cancel"), Act{Cancel: true})
		}
		if err != nil && problem.Of(err).Kind.Code != problem.AttemptCompleted.Code {
			v.trouble(err)
			return
		}
	}
	if _, err := v.Sessions.Exit(ctx, v.session.Org, v.session.ID); err != nil {
		v.trouble(err)
		return
	}
	v.again(v.path)
}

// Bounds of what is typed.
const (
	maxEmail    = 254
	maxPassword = 1024
)

// start begins an attempt with what the creator has typed.
func (v *visit) start(do string) {
	email, password := strings.TrimSpace(v.r.PostFormValue("email")), secret.New(v.r.PostFormValue("password"))
	s := Start{Session: *v.session, Kind: link.MobileApp}
	if do == "start" {
		s.Kind, s.Email, s.Password = link.Credentials, secret.New(email), password
		remember := v.session.Remember == link.RememberAlways || v.session.Remember == link.RememberAsk && v.r.PostFormValue("remember") == "yes"
		s.Remember = &remember
	}
	switch {
	case !v.session.Offers(s.Kind) || v.session.Status.Over():
		v.again(v.path)
		return
	case do == "start" && (len(email) > maxEmail || !strings.Contains(strings.Trim(email, "@"), "@")):
		v.showStart("start.email.wrong", "email", email)
		return
	case do == "start" && (password.Empty() || len(password.Reveal()) > maxPassword):
		v.showStart("start.password.none", "password", email)
		return
	}
	var err error
	if s.Consent, err = v.consentOf(); err != nil {
		v.fail(err)
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	v.started(v.Attempts.Start(ctx, v.by(string(v.session.ID), "connect.start"), s), email)
}

// started shows what came of a start.
func (v *visit) started(err error, email string) {
	if err == nil || errors.Is(err, link.ErrOver) {
		v.again(v.path)
		return
	}
	switch kind := problem.Of(err).Kind; kind.Code {
	case problem.AttemptInProgress.Code:
		v.again(v.path) // the form was sent twice: the first one counts
	case problem.QuotaExceeded.Code:
		v.showStart("start.quota", "", email)
	case problem.ValidationFailed.Code:
		v.showStart("start.email.wrong", "email", email)
	case problem.ConnectUnavailable.Code, problem.EgressUnavailable.Code:
		v.showStart("failed.upstream_unavailable", "", email)
	case problem.OrgSuspended.Code:
		v.showSuspended()
	default:
		v.trouble(err)
	}
}

// remembers says whether the box to keep the password is ticked: as the creator left it, or as the account to reconnect has it.
func (v *visit) remembers() bool {
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
	c, err := v.Connections.Connection(ctx, v.session.Org, v.session.Account)
	return err == nil && c.Remembered
}

// showStart is the form. The password is never in it again.
func (v *visit) showStart(wrong, field, email string) {
	p := &page{visit: v, Bar: 1, Field: field, Email: email, Return: v.leave("cancelled"), Remember: v.remembers()}
	status := http.StatusOK
	if wrong != "" {
		status = http.StatusUnprocessableEntity
		if err := p.complain(wrong, 0); err != nil {
			v.fail(err)
			return
		}
	}
	v.show(status, "start", p)
}
