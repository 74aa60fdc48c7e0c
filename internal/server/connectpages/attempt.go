package connectpages

import (
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

// findAttempt reads the attempt of the link; false means that the page is answered.
func (v *visit) findAttempt() (View, bool) {
	if v.guessing() {
		return View{}, false
	}
	ctx, cancel := v.context()
	defer cancel()
	a, err := v.Attempts.ByToken(ctx, v.r.PathValue("token"))
	if err != nil {
		v.trouble(err)
		return View{}, false
	}
	v.ofAttempt(a)
	return a, !v.suspended(a.Org)
}

// ofAttempt sets whose page it is.
func (v *visit) ofAttempt(a View) {
	if v.session == nil {
		a.Org.Page.AllowedOrigins = a.AllowedOrigins
		v.known(a.Org, a.Locale)
	}
}

func (v *visit) getAttempt() {
	a, ok := v.findAttempt()
	switch {
	case !ok:
	case v.variant == phone && a.Token != v.r.PathValue("token"):
		// A QR's own token ends with the QR; the page it has opened goes on.
		v.again("/a/" + url.PathEscape(a.Token) + "/phone")
	default:
		v.showAttempt(a, "", "")
	}
}

func (v *visit) postAttempt() {
	if a, ok := v.findAttempt(); ok {
		v.act(a)
	}
}

// act does what the creator asks for, and shows what came of it.
func (v *visit) act(a View) {
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
	after, err := v.Attempts.Act(ctx, a.Token, v.by(string(a.ID), action), do)
	code := ""
	if err != nil {
		code = problem.Of(err).Kind.Code
	}
	switch {
	case err == nil && do.SelfieDone && after.State == attempt.NeedsFace:
		v.showAttempt(after, "selfie.notyet", "")
	case err == nil, code == problem.AttemptCompleted.Code, code == problem.AttemptStateConflict.Code:
		// Somebody was faster, perhaps the same creator on another screen: the page says how it stands.
		v.again(v.path)
	case code == problem.ResendTooSoon.Code:
		v.showAttempt(a, "code.soon", "")
	case code == problem.ValidationFailed.Code:
		v.showAttempt(a, "code.symbols", "code")
	default:
		v.trouble(err)
	}
}

// maxCode is the contract's; a code is shorter.
const maxCode = 16

// readAct reads the form: what to do and its name in the audit log, or the words for what is wrong with the code.
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

// cleanCode drops what people put between the parts of a code, and says what is wrong with the rest.
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

// showAttempt is the page of a state. wrong is the key of what went wrong, field the one that it belongs to.
func (v *visit) showAttempt(a View, wrong, field string) {
	p := &page{visit: v, View: a, Bar: 2, Field: field, Live: v.liveOf(a)}
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

// complain sets the words of what went wrong.
func (p *page) complain(key string, seconds int) (err error) {
	p.Problem, err = p.T(key, "time", clockOf(seconds))
	return err
}

// stateOf chooses the page of a state and fills in what it shows.
func (v *visit) stateOf(a View, p *page) (name string, err error) {
	switch a.State {
	case attempt.Pending:
		return "pending", p.fillPending()
	case attempt.NeedsOTP, attempt.NeedsApp, attempt.NeedsEmail, attempt.WrongCode:
		return "code", p.fillCode()
	case attempt.NeedsFace:
		p.QR = v.qrOf(a)
		return "selfie", nil
	case attempt.AwaitingMobile:
		p.QR = v.qrOf(a)
		if v.variant == phone {
			return "approve", nil
		}
		return "scan", nil
	case attempt.Success:
		p.Bar, p.End = 3, "success"
		p.Return = v.returnTo(a, "success")
		return "success", v.manageOf(a, p)
	case attempt.Failed:
		return "failed", p.fillFailed()
	}
	return "", fmt.Errorf("no page for state %q", a.State)
}

// stepOf is the one of three steps of signing in that a progress belongs to.
func stepOf(progress attempt.Progress) int {
	switch progress {
	case attempt.Queued, "opening_egress":
		return 1
	case attempt.Verifying, attempt.Done, "capturing_session", "sealing":
		return 3
	case attempt.SigningIn, attempt.CheckingCode, attempt.AwaitingCode, attempt.AwaitingSelfie, attempt.AwaitingScan, attempt.Scanned:
	}
	return 2
}

// How long signing in may take before the page says something about it.
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
	waited := p.Now().Sub(p.View.UpdatedAt)
	var err error
	switch {
	case waited >= tooSlowly:
		p.Slow, err = p.T("pending.tooslow")
	case waited >= slowly:
		p.Slow, err = p.T("pending.slow")
	}
	return err
}

// Waited is for how many seconds the step has been going on.
func (p *page) Waited() int { return max(0, int(p.Now().Sub(p.View.UpdatedAt)/time.Second)) }

// codePage is what the page of a code shows.
type codePage struct {
	Title, Body, Hint template.HTML
	// Send means that no message has been sent yet.
	Send bool
	// Resend means that another message can be asked for, in Wait seconds.
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
	title, err := p.words.plain("code."+channel+".title", "org", p.org.Name)
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

// lastDigits makes ••••42 into ··42, which reads as the end of a number.
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

// Can says whether an action is among the next ones.
func (p *page) Can(action string) bool { return slices.Contains(p.View.Actions, action) }

// Seen says whether the phone has opened the code.
func (p *page) Seen() bool { return p.View.Progress == attempt.Scanned }

// Platform is the address at the platform, for a link that the creator presses.
func (p *page) Platform() string { return p.View.PlatformURL.Reveal() }

// PhonePath is the page for phones, on this device.
func (p *page) PhonePath() string { return "/a/" + url.PathEscape(p.View.Token) + "/phone" + p.lang() }

func (v *visit) untilResend(a View) int {
	return max(0, int((a.ResendAt.Sub(v.Now())+time.Second-1)/time.Second))
}

// clockOf is a number of seconds as minutes and seconds.
func clockOf(seconds int) string { return fmt.Sprintf("%d:%02d", seconds/60, seconds%60) }

func (p *page) fillFailed() error {
	a := p.View
	p.Bar, p.End = 0, "error"
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

// Restart is the address that starts anew in the same session, or empty.
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

// returnTo is where the creator goes at the end, with how it went.
func (v *visit) returnTo(a View, status string) string {
	target := a.ReturnURL
	if v.session != nil {
		target = v.session.ReturnURL
	}
	return returnURL(target, status, map[string]string{
		"attempt_id": string(a.ID), "account_id": string(a.Account), "reference_id": a.ReferenceID, "session_id": string(a.Session),
	})
}

// returnURL adds to an address how it went. What the address has of its own stays.
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

// manageOf puts the creator's own link on the page, once: it is how they get it.
func (v *visit) manageOf(a View, p *page) error {
	if a.Account == "" || v.variant == phone {
		return nil
	}
	ctx, cancel := v.context()
	defer cancel()
	token, err := v.Links.Make(ctx, a.Org.ID, a.Account)
	if err != nil {
		return err
	}
	p.Manage = "/manage/" + token.Reveal()
	return nil
}

// consentOf records what the creator agreed to on this page.
func (v *visit) consentOf() (link.Consent, error) {
	text, err := v.words.consent(v.org.Name)
	return link.Consent{
		Flow: link.FlowHosted, Version: consentVersion, Locale: v.words.lang, TextHash: link.HashText(text),
		At: v.Now().UTC().Truncate(time.Second), IPHash: v.HashIP(v.source), AgentHash: v.HashIP("agent " + v.r.UserAgent()),
	}, err
}
