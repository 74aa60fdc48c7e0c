// Package auth signs creators in to the platform: with a password, which may be followed by a chain of challenges (sms,
// totp, mail, selfie), with a QR code that the creator approves on a phone, or through OAuth (oauth.go). The persona of a
// login, the part before + or @, decides how the sign-in goes.
package auth

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/view"
	"github.com/stagedoor/stagedoor/sandbox/wire"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// challengeWords maps the words of a persona to challenge methods. A persona chains several words with dashes, as in
// sms-email-face.
var challengeWords = map[string]string{"sms": "sms", "app": "totp", "email": "mail", "face": "selfie"}

// Refusals of a sign-in.
var (
	errCredentials = refusal(http.StatusUnauthorized, 1001, "bad_credentials", "The email address or the password is wrong.")
	errDevice      = refusal(http.StatusBadRequest, 1030, "device_missing", "The header X-Device is missing.")
	errUnavailable = refusal(http.StatusServiceUnavailable, 5003, "unavailable", "We are down for maintenance.")
)

func refusal(status, code int, name, message string) *wire.Refusal {
	return &wire.Refusal{Status: status, Code: code, Name: name, Message: message}
}

// closed maps personas that cannot sign in, whatever the password, to their refusals.
var closed = map[string]*wire.Refusal{
	"locked":  refusal(http.StatusForbidden, 1020, "account_locked", "Your account is locked. Unlock it in the app."),
	"banned":  refusal(http.StatusForbidden, 1021, "account_banned", "Your account was closed."),
	"terms":   refusal(http.StatusForbidden, 1022, "terms_required", "Our terms have changed. Accept them in the app."),
	"captcha": refusal(http.StatusForbidden, 1023, "captcha_required", "Prove that you are human."),
	"down":    errUnavailable,
}

// Auth signs creators in.
type Auth struct {
	World *world.World
	Gate  *gate.Gate
	// Slow is how long a sign-in of the persona slow takes.
	Slow time.Duration

	// Clients are the OAuth clients.
	Clients []Client

	// steps serialises the steps of challenges, QR sign-ins and OAuth, because each one reads, decides and writes.
	steps sync.Mutex
	// accessLife is the lifetime of access tokens in nanoseconds; 0 for the default.
	accessLife atomic.Int64
	// announced is the lifetime in responses, in nanoseconds; 0 for the real one.
	announced atomic.Int64

	sweeping sync.Mutex
	swept    time.Time
}

// Mount adds the routes of Auth: those of the API below the path base, and those of OAuth.
func (a *Auth) Mount(mux *http.ServeMux, base string) {
	mux.HandleFunc("POST "+base+"/auth/login", a.serve(a.login))
	mux.HandleFunc("POST "+base+"/auth/logout", a.serve(a.logout))
	mux.HandleFunc("GET "+base+"/auth/challenges/{token}", a.serve(a.alone(a.challenged, a.checkChallenge)))
	mux.HandleFunc("POST "+base+"/auth/challenges/{token}/answer", a.serve(a.alone(a.challenged, a.answerChallenge)))
	mux.HandleFunc("POST "+base+"/auth/challenges/{token}/resend", a.serve(a.alone(a.challenged, a.resendChallenge)))
	mux.HandleFunc("POST "+base+"/auth/challenges/{token}/switch", a.serve(a.alone(a.challenged, a.switchChallenge)))
	mux.HandleFunc("POST "+base+"/auth/qr", a.serve(a.openQR))
	mux.HandleFunc("GET "+base+"/auth/qr/{id}", a.serve(a.alone(a.approver, a.checkQR)))
	mux.HandleFunc("POST /oauth/token", a.serveOAuth(a.issue))
	mux.HandleFunc("POST /oauth/revoke", a.serveOAuth(a.revoke))
}

// request is one step of a sign-in. Its login is set as soon as it is known, for the request log and for faults.
type request struct {
	*wire.Call
	w      http.ResponseWriter
	login  string
	status int
}

// errAnswered means that the response has already been written.
var errAnswered = errors.New("answered")

// serve runs a step. Unlike a signed-in call, a step does not lock the creator, because it may take long.
func (a *Auth) serve(step func(*request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		call, err := wire.NewCall(a.World, r, world.Session{})
		q := &request{Call: call, w: w}
		defer func() { a.Gate.Record(r, q.login, q.status) }()
		var answer any
		if err == nil {
			answer, err = step(q)
		}
		if !errors.Is(err, errAnswered) {
			q.status = a.Gate.Write(w, answer, err)
		}
	}
}

// alone runs a later step of a sign-in. It applies the faults of the login first, which may take long, and then runs
// the step under the lock.
func (a *Auth) alone(login func(*request) (string, error), step func(*request) (any, error)) func(*request) (any, error) {
	return func(q *request) (any, error) {
		name, err := login(q)
		if err != nil {
			return nil, err
		}
		if err := a.known(q, name); err != nil {
			return nil, err
		}
		a.steps.Lock()
		defer a.steps.Unlock()
		return step(q)
	}
}

// known sets the login of a step and applies its faults.
func (a *Auth) known(q *request, login string) error {
	q.login = login
	if a.Gate.Trouble(q.w, q.Request, login, &q.status) {
		return errAnswered
	}
	return nil
}

func (a *Auth) login(q *request) (any, error) {
	var in struct {
		Email    string `json:"email"`
		Password string `json:"password"`
	}
	if err := q.Body(&in); err != nil {
		return nil, err
	}
	login := strings.ToLower(strings.TrimSpace(in.Email))
	persona, err := world.Persona(login)
	if err != nil {
		return nil, errCredentials
	}
	if err := a.known(q, login); err != nil {
		return nil, err
	}
	device := q.Request.Header.Get("X-Device")
	if device == "" {
		return nil, errDevice
	}
	if err := a.mood(q, persona); err != nil {
		return nil, err
	}
	if in.Password == "" || in.Password == "bad" {
		return nil, errCredentials
	}
	if persona == "changed" {
		return map[string]any{"next": "/onboarding/v3", "flow": "passkey"}, nil
	}
	chain := chainOf(persona)
	if _, ordered := a.Gate.Faults.Take(login, gate.Challenge); ordered && len(chain) == 0 {
		chain = []string{"sms"}
	}
	if len(chain) > 0 {
		return nil, a.challenge(&challenge{Login: login, Device: device, Agent: q.Request.UserAgent(), Egress: a.Gate.Egress(q.Request), Chain: chain})
	}
	return a.signIn(q, login, device, "")
}

// mood applies what a persona does before the password is checked.
func (a *Auth) mood(q *request, persona string) error {
	if r, ok := closed[persona]; ok {
		return r
	}
	switch persona {
	case "slow":
		pause(q.Request, a.Slow)
	case "timeout":
		pause(q.Request, time.Hour)
		return errAnswered
	case "flaky":
		tries := 0
		err := a.World.Do(q.login, func(c *world.Creator) error {
			c.Profile.Tries++
			tries = c.Profile.Tries
			c.SaveProfile()
			return nil
		})
		if err != nil {
			return err
		}
		if tries <= 2 {
			return errUnavailable
		}
	}
	return nil
}

func pause(r *http.Request, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.Context().Done():
	case <-t.C:
	}
}

// chainOf returns the challenges that a persona's name asks for, or nil if it contains any other word.
func chainOf(persona string) []string {
	var chain []string
	for word := range strings.SplitSeq(persona, "-") {
		method, ok := challengeWords[word]
		if !ok {
			return nil
		}
		chain = append(chain, method)
	}
	return chain
}

// signIn opens a session and sets its cookies.
func (a *Auth) signIn(q *request, login, device, egress string) (any, error) {
	if egress == "" {
		egress = a.Gate.Egress(q.Request)
	}
	s, user, err := a.Open(login, world.Session{Device: device, Agent: q.Request.UserAgent(), Egress: egress})
	if err != nil {
		return nil, err
	}
	for _, cookie := range Cookies(s) {
		http.SetCookie(q.w, cookie)
	}
	return map[string]any{"user": user}, nil
}

// dueBan names the timer that bans a restricted creator.
const dueBan = "auth.ban"

// Dues returns the handlers of the timers that this package sets.
func Dues() map[string]world.Handler {
	return map[string]world.Handler{dueBan: func(c *world.Creator, _ int64) { c.DropSockets("", world.ReasonSession) }}
}

// Cookies returns the cookies of a session.
func Cookies(s world.Session) []*http.Cookie {
	return []*http.Cookie{
		{Name: "auth_id", Value: strconv.FormatInt(s.Owner, 10), Path: "/", Expires: s.ExpiresAt},
		gate.SessionCookie(s),
		{Name: "lang", Value: "en", Path: "/"},
		{Name: "seen_banner", Value: "1", Path: "/"},
	}
}

// Open opens a session for a login and applies the effects of its persona.
func (a *Auth) Open(login string, s world.Session) (world.Session, view.User, error) {
	var user view.User
	persona, err := world.Persona(login)
	if err != nil {
		return s, user, err
	}
	now := a.World.Now()
	s.Login = login
	other := ""
	err = a.World.Do(login, func(c *world.Creator) error {
		c.Profile.Logins++
		c.SaveProfile()
		s.Owner, user = c.Profile.ID, view.Self(c)
		switch {
		case persona == "restricted" && c.Profile.BannedAt.IsZero():
			c.Profile.BannedAt = now.Add(5 * time.Second)
			c.At(c.Profile.BannedAt, dueBan, 0)
		case persona == "expires60":
			s.ExpiresAt = now.Add(time.Minute)
		case persona == "mismatch" && c.Profile.Logins > 1:
			other = "ok+other-of-" + strconv.FormatInt(c.Profile.ID, 10) + "@" + world.Domain
		}
		return nil
	})
	if err == nil && other != "" {
		s.Login = other
		err = a.World.Do(other, func(c *world.Creator) error {
			s.Owner, user = c.Profile.ID, view.Self(c)
			return nil
		})
	}
	if err != nil {
		return s, user, err
	}
	s, err = a.World.NewSession(s)
	return s, user, err
}

func (a *Auth) logout(q *request) (any, error) {
	s, err := a.Gate.Session(q.w, q.Request)
	if err := errors.Join(a.known(q, s.Login), err); err != nil {
		return nil, err
	}
	_, err = a.World.EndSessions(s.Login, func(one world.Session) bool { return one.ID == s.ID })
	return wire.OK, err
}

func token() string { return rand.Text() }

// NewDevice returns a random device id in the format that browsers send.
func NewDevice() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
