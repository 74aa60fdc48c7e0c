package connectpages

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
)

// findAttempt loads the attempt of the link. It returns false if it has answered the request.
func (v *visit) findAttempt() (View, bool) {
	if v.stopIfGuessing() {
		return View{}, false
	}
	ctx, cancel := v.context()
	defer cancel()
	a, err := v.deps.Attempts.ByToken(ctx, v.r.PathValue("token"))
	if err != nil {
		v.showError(err)
		return View{}, false
	}
	v.setAttempt(a)
	return a, !v.stopIfSuspended(a.Org)
}

// setAttempt sets the org of the page, unless the session has set it.
func (v *visit) setAttempt(a View) {
	if v.session == nil {
		a.Org.Page.AllowedOrigins = a.AllowedOrigins
		v.setOrg(a.Org, a.Locale)
	}
}

func (v *visit) getAttempt() {
	a, ok := v.findAttempt()
	switch {
	case !ok:
	case v.variant == phone && a.Token != v.r.PathValue("token"):
		// The token in a QR code expires with the code. The page that it opened continues under the attempt's token.
		v.redirect("/a/" + url.PathEscape(a.Token) + "/phone")
	default:
		v.showAttempt(a, "", "")
	}
}

func (v *visit) postAttempt() {
	if a, ok := v.findAttempt(); ok {
		v.submit(a)
	}
}

// submit does what the form asks for and shows the result.
func (v *visit) submit(a View) {
	if v.r.PostFormValue("do") == "authorize" {
		v.setPlace(a.Platform, a.Site)
		v.authorize(a.Token)
		return
	}
	do, action, wrong := v.readAct()
	switch {
	case wrong != "":
		v.showAttempt(a, wrong, "code")
		return
	case action == "":
		v.showBroken(http.StatusBadRequest, nil)
		return
	}
	ctx, cancel := v.context()
	defer cancel()
	after, err := v.deps.Attempts.Act(ctx, a.Token, v.actor(string(a.ID), action), do)
	code := ""
	if err != nil {
		code = problem.Of(err).Kind.Code
	}
	switch {
	case err == nil && do.SelfieDone && after.State == attempt.NeedsFace:
		v.showAttempt(after, "selfie.notyet", "")
	case err == nil, code == problem.AttemptCompleted.Code, code == problem.AttemptStateConflict.Code:
		// Another request was faster, perhaps from the creator's other screen. The page shows the current state.
		v.redirect(v.path)
	case code == problem.ResendTooSoon.Code:
		v.showAttempt(a, "code.soon", "")
	case code == problem.ValidationFailed.Code:
		v.showAttempt(a, "code.symbols", "code")
	default:
		v.showError(err)
	}
}

// maxCode is the limit of the API; real codes are shorter.
const maxCode = 16

// readAct reads the form. It returns the act and its name in the audit log, or the key of the message if the code is
// malformed.
func (v *visit) readAct() (do Act, action, wrong string) {
	switch v.r.PostFormValue("do") {
	case "code":
		code, wrong := cleanCode(v.r.PostFormValue("code"))
		return Act{Code: code}, "connect.submit", wrong
	case "selfie":
		return Act{SelfieDone: true}, "connect.submit", ""
	case "switch":
		return Act{Channel: v.r.PostFormValue("channel")}, "connect.submit", ""
	case "resend":
		return Act{Resend: true}, "connect.resend", ""
	case "email":
		return Act{SendEmail: true}, "connect.send_email", ""
	case "cancel":
		return Act{Cancel: true}, "connect.cancel", ""
	}
	return Act{}, "", ""
}

// cleanCode removes the separators that people type in codes. wrong is the key of the message if the rest is not a
// code.
func cleanCode(text string) (code secret.String, wrong string) {
	kept := strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || strings.ContainsRune("-‐‑‒–—.", r) {
			return -1
		}
		return r
	}, text)
	switch {
	case kept == "":
		return secret.String{}, "code.none"
	case strings.ContainsFunc(kept, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) }):
		return secret.String{}, "code.symbols"
	case len(kept) > maxCode:
		return secret.String{}, "code.long"
	}
	return secret.New(kept), ""
}

// showAttempt shows the page of a state. wrong is the key of an error message, field the field that it belongs to.
func (v *visit) showAttempt(a View, wrong, field string) {
	v.setPlace(a.Platform, a.Site)
	p := &page{visit: v, View: a, Stage: atSignIn, Field: field, Live: v.liveOf(a)}
	status := http.StatusOK
	if wrong != "" {
		status = http.StatusUnprocessableEntity
		if err := p.complain(wrong, v.untilResend(a)); err != nil {
			v.fail(err)
			return
		}
	}
	name, err := v.stateOf(a, p)
	if err != nil {
		v.fail(err)
		return
	}
	v.show(status, name, p)
}

// complain sets the error message.
func (p *page) complain(key string, seconds int) (err error) {
	p.Problem, err = p.T(key, "time", clockOf(seconds))
	return err
}

// stateOf fills in the page of a state and returns the name of its template.
func (v *visit) stateOf(a View, p *page) (name string, err error) {
	switch a.State {
	case attempt.Pending:
		if p.Can(attempt.ActPage) {
			v.allowAuthorize()
			return "authorize", nil
		}
		return "pending", p.fillPending()
	case attempt.NeedsOTP, attempt.NeedsApp, attempt.NeedsEmail, attempt.WrongCode:
		return "code", p.fillCode()
	case attempt.NeedsFace:
		p.QR = v.qrOf(a)
		return "selfie", nil
	case attempt.AwaitingMobile:
		p.QR = v.qrOf(a)
		switch {
		case v.variant == phone:
			p.QR = "" // It is in the hand that has scanned it.
			return "approve", nil
		case v.onPhone() && p.PlatformPage() != "":
			return "approve", nil
		}
		return "scan", nil
	case attempt.Success:
		p.Stage, p.End = atEnd, "success"
		p.Return = v.returnTo(a, "success")
		return "success", v.fillSuccess(a, p)
	case attempt.Failed:
		return "failed", p.fillFailed()
	}
	return "", fmt.Errorf("no page for state %q", a.State)
}

// stepOf returns the step of signing in, from 1 to 3, that a progress belongs to.
func stepOf(progress attempt.Progress) int {
	switch progress {
	case attempt.Queued, "opening_egress":
		return 1
	case attempt.Verifying, attempt.Done, "capturing_session", "sealing":
		return 3
	case attempt.SigningIn, attempt.AwaitingConsent, attempt.CheckingCode, attempt.AwaitingCode, attempt.AwaitingSelfie, attempt.AwaitingScan, attempt.Scanned:
	}
	return 2
}

// Durations of a sign-in after which the page says that it takes long.
const (
	slowly    = 8 * time.Second
	tooSlowly = 60 * time.Second
)

func (p *page) fillPending() error {
	now := stepOf(p.View.Progress)
	for i, key := range []string{"pending.step1", "pending.step2", "pending.step3"} {
		text, err := p.T(key)
		if err != nil {
			return err
		}
		state := [...]string{"done", "now", "todo"}[min(2, max(0, i+2-now))]
		p.Steps = append(p.Steps, step{text, state})
	}
	waited := p.deps.Now().Sub(p.View.UpdatedAt)
	var err error
	switch {
	case waited >= tooSlowly:
		p.Slow, err = p.T("pending.tooslow")
	case waited >= slowly:
		p.Slow, err = p.T("pending.slow")
	}
	return err
}

// Waited returns for how many seconds the step has been in progress.
func (p *page) Waited() int { return max(0, int(p.deps.Now().Sub(p.View.UpdatedAt)/time.Second)) }

// codePage is the data of the page that asks for a code.
type codePage struct {
	Title, Body, Hint template.HTML
	// Send means that no message has been sent yet.
	Send bool
	// Resend means that another message can be requested, in Wait seconds.
	Resend bool
	Wait   int
	// Others are the channels that can be used instead.
	Others []string
}

func (p *page) fillCode() error {
	a := p.View
	channel := a.Channel
	if channel != "app" && channel != "email" {
		channel = "sms"
	}
	c := codePage{Send: p.Can("send_email"), Resend: p.Can("resend_code"), Wait: p.untilResend(a)}
	if p.Can("switch_channel") {
		c.Others = slices.DeleteFunc(slices.Clone(a.Channels), func(other string) bool { return other == a.Channel })
	}
	body := "code." + channel
	mask := a.EmailMask
	switch {
	case c.Send:
		body += ".send"
	case channel == "sms":
		mask = lastDigits(a.PhoneMask)
	}
	if mask == "" && channel != "app" {
		body += ".nomask"
	}
	title, err := p.text("code." + channel + ".title")
	if err != nil {
		return err
	}
	p.Title, c.Title = title, template.HTML(template.HTMLEscapeString(title))
	if c.Body, err = p.T(body, "mask", mask); err != nil {
		return err
	}
	if c.Hint, err = p.T("code." + channel + ".hint"); err != nil {
		return err
	}
	p.Code = c
	if a.State == attempt.WrongCode && p.Problem == "" {
		key := "code.wrong"
		if a.SubmissionsLeft <= 2 {
			key = "code.wrong.lock"
		}
		p.Field = "code"
		return p.complain(key, 0)
	}
	return nil
}

// lastDigits turns ••••42 into ··42, which reads as the end of a number.
func lastDigits(mask string) string {
	digits := strings.TrimLeftFunc(mask, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) > 4 {
		digits = digits[len(digits)-2:]
	}
	if digits == "" {
		return ""
	}
	return "··" + digits
}

func (p *page) Can(action string) bool { return slices.Contains(p.View.Actions, action) }

// Seen reports whether the phone has opened the QR code.
func (p *page) Seen() bool { return p.View.Progress == attempt.Scanned }

// PlatformPage returns the address at the platform, for a link that the creator follows.
func (p *page) PlatformPage() string { return p.View.PlatformURL.Reveal() }

// PhonePath returns the page for phones, to open on this device.
func (p *page) PhonePath() string { return "/a/" + url.PathEscape(p.View.Token) + "/phone" + p.lang() }

func (v *visit) untilResend(a View) int {
	return max(0, int((a.ResendAt.Sub(v.deps.Now())+time.Second-1)/time.Second))
}

// clockOf formats seconds as m:ss.
func clockOf(seconds int) string { return fmt.Sprintf("%d:%02d", seconds/60, seconds%60) }

func (p *page) fillFailed() error {
	a := p.View
	p.Stage, p.End = nowhere, "error"
	outcome := "error"
	if a.Failure == attempt.CodeCancelled {
		p.End, outcome = "exit", "cancelled"
	}
	p.Return = p.returnTo(a, outcome)
	key := "failed." + a.Failure
	if _, known := p.words.texts[key]; !known {
		key = "failed.internal"
	}
	text, err := p.T(key)
	p.Problem = text
	return err
}

// Restart returns the address that starts again in the same session, or empty.
func (p *page) Restart() string {
	if p.session == nil || p.session.Status.Over() {
		return ""
	}
	query := url.Values{"again": {"1"}}
	if p.lang() != "" {
		query.Set("lang", p.words.lang)
	}
	return p.path + "?" + query.Encode()
}

// returnTo returns where the creator goes at the end, with the result.
func (v *visit) returnTo(a View, status string) string {
	target := a.ReturnURL
	if v.session != nil {
		target = v.session.ReturnURL
	}
	return returnURL(target, status, map[string]string{
		"attempt_id": string(a.ID), "account_id": string(a.Account), "reference_id": a.ReferenceID, "session_id": string(a.Session),
	})
}

// returnURL adds the result to the query of an address.
func returnURL(target, status string, facts map[string]string) string {
	u, err := url.Parse(target)
	if err != nil || target == "" {
		return ""
	}
	query := u.Query()
	query.Set("status", status)
	for name, value := range facts {
		if value != "" {
			query.Set(name, value)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// fillSuccess adds the account that was connected, and the link to the creator's own page about it. The last page is
// where creators get it.
func (v *visit) fillSuccess(a View, p *page) error {
	if a.Account == "" {
		return nil
	}
	ctx, cancel := v.context()
	defer cancel()
	connection, err := v.deps.Connections.Connection(ctx, a.Org.ID, a.Account)
	switch {
	case errors.Is(err, problem.AccountNotFound.New("")):
		return nil // It was disconnected since.
	case err != nil:
		return err
	}
	p.Connection = connection
	if v.variant == phone {
		return nil
	}
	token, err := v.deps.Links.Make(ctx, a.Org.ID, a.Account)
	if err != nil {
		return err
	}
	p.Manage = "/manage/" + token.Reveal()
	return nil
}

// consentOf returns the record of what the creator agreed to on this page.
func (v *visit) consentOf() (link.Consent, error) {
	text, err := v.consentText()
	return link.Consent{
		Flow: link.FlowHosted, Version: consentVersion, Locale: v.words.lang, TextHash: link.HashText(text),
		At: v.deps.Now().UTC().Truncate(time.Second), IPHash: v.deps.HashIP(v.source), AgentHash: v.deps.HashIP("agent " + v.r.UserAgent()),
	}, err
}
