package auth

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
)

const (
	challengeShelf = "challenge"
	challengeLife  = 10 * time.Minute
	maxWrong       = 5
)

// Codes with a fixed meaning for every login. Any other code is wrong.
const (
	codeRight   = "123456"
	codeExpired = "111111"
	codeLocks   = "999999"
)

// challenge is a sign-in that waits for the creator to confirm their identity.
type challenge struct {
	Token  string    `json:"token"`
	Login  string    `json:"login"`
	Device string    `json:"device"`
	Agent  string    `json:"agent"`
	Egress string    `json:"egress"`
	Chain  []string  `json:"chain"` // remaining methods, the current one first
	Sent   bool      `json:"sent"`
	Wrong  int       `json:"wrong"`
	Selfie string    `json:"selfie"` // open, passed, rejected
	Ends   time.Time `json:"ends"`
	Dead   int       `json:"dead"` // the code of the refusal that ended it
}

// Challenge describes an open challenge to the sandbox's page and control API.
type Challenge struct {
	Token  string `json:"token"`
	Login  string `json:"login"`
	Method string `json:"method"`
	Selfie string `json:"selfie,omitempty"`
	Ends   string `json:"ends_at"`
}

var (
	errWrongCode  = refusal(http.StatusUnprocessableEntity, 1011, "code_wrong", "This code is wrong.")
	errOldCode    = refusal(http.StatusGone, 1012, "code_expired", "This code has expired.")
	errCodeLock   = refusal(http.StatusForbidden, 1013, "verification_locked", "Too many attempts. Verification is locked for a day.")
	errManyWrong  = refusal(http.StatusForbidden, 1014, "too_many_codes", "Too many wrong codes.")
	errSelfie     = refusal(http.StatusForbidden, 1015, "selfie_rejected", "The selfie does not match.")
	errNoQR       = refusal(http.StatusGone, 1016, "qr_expired", "This code has expired.")
	errDenied     = refusal(http.StatusForbidden, 1017, "qr_denied", "The sign-in was denied on the phone.")
	errNoneSuch   = refusal(http.StatusGone, 1018, "verification_ended", "This verification has ended. Sign in again.")
	deadRefusals  = map[int]*wire.Refusal{1012: errOldCode, 1013: errCodeLock, 1014: errManyWrong, 1015: errSelfie, 1018: errNoneSuch}
	errNotAskable = refusal(http.StatusConflict, 2003, "conflict", "This verification needs no code.")
)

// challenge stores a challenge and returns the refusal that asks for it.
func (a *Auth) challenge(c *challenge) error {
	c.Token = token()
	c.Wrong = 0
	a.renew(c)
	if err := a.sweep(); err != nil {
		return err
	}
	if err := a.World.Keep(challengeShelf, c.Token, c); err != nil {
		return err
	}
	return a.asks(c)
}

// renew resets the challenge for its current method, with a new deadline.
func (a *Auth) renew(c *challenge) {
	c.Ends = a.World.Now().Add(challengeLife)
	c.Sent = c.method() != "mail"
	c.Selfie = ""
	if c.method() == "selfie" {
		c.Selfie = "open"
	}
}

func (c *challenge) method() string { return c.Chain[0] }

// methods returns the methods that the creator can choose from for the current step.
func (c *challenge) methods() []string {
	if m := c.method(); m == "sms" || m == "totp" {
		return []string{"sms", "totp"}
	}
	return []string{c.method()}
}

// asks returns the refusal that describes a challenge.
func (a *Auth) asks(c *challenge) error {
	r := refusal(http.StatusForbidden, 1010, "verification_required", "Please confirm that it is you.")
	asked := map[string]any{
		"token": c.Token, "method": c.method(), "methods": c.methods(), "expires_at": view.Stamp(c.Ends), "is_sent": c.Sent,
		"sent_to": nil, "page_url": nil, "state": nil,
	}
	switch c.method() {
	case "sms":
		asked["sent_to"] = "••••42"
	case "mail":
		asked["sent_to"] = mask(c.Login)
	case "selfie":
		asked["page_url"] = a.Origin() + "/verify/" + c.Token
		asked["state"] = c.Selfie
	}
	r.Challenge = asked
	return r
}

// Origin returns the base URL of the platform's pages.
func (a *Auth) Origin() string { return a.World.Origin() }

// mask hides an email address except for its first letter and its domain.
func mask(login string) string {
	local, domain, _ := strings.Cut(login, "@")
	return local[:1] + "•••@" + domain
}

// challenged returns the login of a challenge.
func (a *Auth) challenged(q *request) (string, error) {
	var c challenge
	ok, err := a.World.Recall(challengeShelf, q.Request.PathValue("token"), &c)
	if err == nil && !ok {
		err = errNoneSuch
	}
	return c.Login, err
}

// find returns the challenge of a request, or a refusal if it has ended.
func (a *Auth) find(q *request) (*challenge, error) {
	var c challenge
	ok, err := a.World.Recall(challengeShelf, q.Request.PathValue("token"), &c)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, errNoneSuch
	}
	if q.Request.Header.Get("X-Device") != c.Device {
		return nil, errDevice
	}
	if dead, ok := deadRefusals[c.Dead]; ok {
		return nil, dead
	}
	if a.World.Now().After(c.Ends) {
		return nil, a.end(&c, errNoneSuch)
	}
	return &c, nil
}

// end stores why a challenge ended and returns that refusal.
func (a *Auth) end(c *challenge, why *wire.Refusal) error {
	c.Dead = why.Code
	if err := a.World.Keep(challengeShelf, c.Token, c); err != nil {
		return err
	}
	return why
}

func (a *Auth) answerChallenge(q *request) (any, error) {
	var in struct {
		Code string `json:"code"`
	}
	c, err := a.find(q)
	if err != nil {
		return nil, err
	}
	if err := q.Body(&in); err != nil {
		return nil, err
	}
	if c.method() == "selfie" {
		return nil, errNotAskable
	}
	switch in.Code {
	case codeRight:
		return a.next(q, c)
	case codeExpired:
		return nil, a.end(c, errOldCode)
	case codeLocks:
		return nil, a.end(c, errCodeLock)
	}
	c.Wrong++
	if c.Wrong >= maxWrong {
		return nil, a.end(c, errManyWrong)
	}
	if err := a.World.Keep(challengeShelf, c.Token, c); err != nil {
		return nil, err
	}
	return nil, errWrongCode
}

// next starts the next challenge of the chain, or signs in after the last one.
func (a *Auth) next(q *request, c *challenge) (any, error) {
	if err := a.World.Discard(challengeShelf, c.Token); err != nil {
		return nil, err
	}
	if len(c.Chain) > 1 {
		c.Chain = c.Chain[1:]
		return nil, a.challenge(c)
	}
	return a.signIn(q, c.Login, c.Device, c.Egress)
}

func (a *Auth) resendChallenge(q *request) (any, error) {
	c, err := a.find(q)
	if err != nil {
		return nil, err
	}
	if m := c.method(); m != "sms" && m != "mail" {
		return nil, errNotAskable
	}
	c.Sent = true
	c.Ends = a.World.Now().Add(challengeLife)
	if err := a.World.Keep(challengeShelf, c.Token, c); err != nil {
		return nil, err
	}
	return nil, a.asks(c)
}

func (a *Auth) switchChallenge(q *request) (any, error) {
	var in struct {
		Method string `json:"method"`
	}
	c, err := a.find(q)
	if err != nil {
		return nil, err
	}
	if err := q.Body(&in); err != nil {
		return nil, err
	}
	if !slices.Contains(c.methods(), in.Method) {
		return nil, wire.Invalid("method", "This method is not offered.")
	}
	c.Chain[0] = in.Method
	a.renew(c)
	if err := a.World.Keep(challengeShelf, c.Token, c); err != nil {
		return nil, err
	}
	return nil, a.asks(c)
}

// checkChallenge returns the state of a challenge. A selfie that passed completes the step.
func (a *Auth) checkChallenge(q *request) (any, error) {
	c, err := a.find(q)
	if err != nil {
		return nil, err
	}
	switch c.Selfie {
	case "passed":
		return a.next(q, c)
	case "rejected":
		return nil, a.end(c, errSelfie)
	}
	return nil, a.asks(c)
}

// TakeSelfie records the result of a selfie check, which the creator chooses on the page.
func (a *Auth) TakeSelfie(token string, passed bool) error {
	a.steps.Lock()
	defer a.steps.Unlock()
	var c challenge
	ok, err := a.World.Recall(challengeShelf, token, &c)
	if err != nil {
		return err
	}
	if !ok || c.Selfie != "open" || a.World.Now().After(c.Ends) {
		return errNoneSuch
	}
	c.Selfie = "rejected"
	if passed {
		c.Selfie = "passed"
	}
	return a.World.Keep(challengeShelf, c.Token, &c)
}

func (a *Auth) Challenges() ([]Challenge, error) {
	now := a.World.Now()
	list := []Challenge{}
	err := kept(a.World, challengeShelf, func(c *challenge) {
		if c.Dead == 0 && now.Before(c.Ends) {
			list = append(list, Challenge{Token: c.Token, Login: c.Login, Method: c.method(), Selfie: c.Selfie, Ends: c.Ends.Format(time.RFC3339)})
		}
	})
	return list, err
}
