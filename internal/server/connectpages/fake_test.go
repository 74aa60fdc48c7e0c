package connectpages_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// world is everything behind the pages, in memory: attempts that follow the sandbox's personas, sessions, accounts.
type world struct {
	mu       sync.Mutex
	base     string
	org      connectpages.Org
	now      func() time.Time
	attempts map[string]*story
	sessions map[string]*link.Session
	accounts map[id.Account]connectpages.Connection
	// acts and starts are what creators did, as the pages passed it on.
	acts   []did
	starts []connectpages.Start
	// refuse is what the next Start or Act answers.
	refuse error
}

type did struct {
	by  audit.By
	act connectpages.Act
}

// story is an attempt and what is to come of it.
type story struct {
	view connectpages.View
	// rest are the challenges to come.
	rest    []string
	fails   string
	changed chan struct{}
	wrongs  int
	session string
}

func newWorld(base string, now func() time.Time) *world {
	return &world{
		base: base, now: now, attempts: map[string]*story{}, sessions: map[string]*link.Session{}, accounts: map[id.Account]connectpages.Connection{},
		org: connectpages.Org{ID: id.New[id.Org](), Name: "Northlight", Page: link.Page{Scheme: link.SchemeSystem}},
	}
}

func token(prefix, text string) string {
	sum := sha256.Sum256([]byte(text))
	return prefix + base64.RawURLEncoding.EncodeToString(sum[:])
}

// personas are the challenges of a login, by the part before its @.
func persona(email string) (asks []string, fails string) {
	name, _, _ := strings.Cut(email, "@")
	name, _, _ = strings.Cut(name, "+")
	failures := map[string]string{
		"bad": "invalid_credentials", "locked": "account_locked", "banned": "account_banned", "terms": "terms_required", "captcha": "captcha_required",
		"fan": "not_a_creator", "down": "upstream_unavailable", "changed": "upstream_changed",
	}
	if code, ok := failures[name]; ok {
		return nil, code
	}
	for part := range strings.SplitSeq(name, "-") {
		if slices.Contains([]string{"sms", "app", "email", "face"}, part) {
			asks = append(asks, part)
		}
	}
	return asks, ""
}

// begin makes an attempt. The lock is held.
func (w *world) begin(kind, email string) *story {
	it := id.New[id.Attempt]()
	t := token("at_", string(it))
	s := &story{changed: make(chan struct{}), view: connectpages.View{
		Org: w.org, ID: it, Token: t, Version: 1, State: attempt.Pending, Progress: attempt.Queued, Actions: []string{"poll", "cancel"},
		AllowedOrigins: w.org.Page.AllowedOrigins, UpdatedAt: w.now(),
	}}
	w.attempts[t] = s
	if kind == link.MobileApp {
		w.scan(s)
		return s
	}
	s.rest, s.fails = persona(email)
	return s
}

// set changes a view and wakes whoever waits. The lock is held.
func (w *world) set(s *story, do func(*connectpages.View)) {
	do(&s.view)
	s.view.Version++
	close(s.changed)
	s.changed = make(chan struct{})
}

// next is the platform's answer: the next challenge, or the end. The lock is held.
func (w *world) next(s *story) {
	switch {
	case s.fails != "":
		w.fail(s, s.fails)
	case len(s.rest) == 0:
		w.succeed(s)
	default:
		channel := s.rest[0]
		w.ask(s, channel)
	}
}

var stateOf = map[string]attempt.State{"sms": attempt.NeedsOTP, "app": attempt.NeedsApp, "email": attempt.NeedsEmail, "face": attempt.NeedsFace}

func (w *world) ask(s *story, channel string) {
	w.set(s, func(v *connectpages.View) {
		v.State, v.Channel, v.Progress, v.SubmissionsLeft, v.UpdatedAt = stateOf[channel], channel, attempt.AwaitingCode, 5, w.now()
		v.Channels, v.Actions = []string{channel}, []string{"submit_code", "cancel"}
		v.PhoneMask, v.EmailMask, v.PhoneURL, v.PlatformURL = "", "", "", secret.String{}
		switch channel {
		case "sms":
			v.PhoneMask, v.ResendAt, v.Channels = "••••42", w.now().Add(30*time.Second), []string{"sms", "app"}
			v.Actions = []string{"submit_code", "resend_code", "switch_channel", "cancel"}
		case "email":
			v.EmailMask, v.ResendAt, v.Actions = "m•••@g•••.com", time.Time{}, []string{"send_email", "cancel"}
		case "face":
			v.PhoneURL, v.PlatformURL = w.base+"/a/"+v.Token+"/phone", secret.New("https://platform.example/verify/1")
			v.Actions = []string{"open_verification_page", "confirm_selfie", "cancel"}
		}
	})
}

func (w *world) scan(s *story) {
	w.set(s, func(v *connectpages.View) {
		v.State, v.Progress, v.Channel, v.Actions, v.UpdatedAt = attempt.AwaitingMobile, attempt.AwaitingScan, "mobile", []string{"open_phone_url", "cancel"}, w.now()
		v.PhoneURL, v.PlatformURL = w.base+"/a/"+v.Token+"/phone?n=1", secret.New("https://platform.example/qr/1")
	})
}

func (w *world) fail(s *story, code string) {
	w.set(s, func(v *connectpages.View) {
		v.State, v.Failure, v.Progress, v.Actions = attempt.Failed, code, attempt.Done, nil
	})
	w.end(s, "")
}

func (w *world) succeed(s *story) {
	account := id.New[id.Account]()
	w.accounts[account] = connectpages.Connection{Name: "@luna", Since: w.now()}
	w.set(s, func(v *connectpages.View) {
		v.State, v.Account, v.Progress, v.Actions = attempt.Success, account, attempt.Done, []string{"use_account"}
	})
	w.end(s, account)
}

func (w *world) end(s *story, account id.Account) {
	if in := w.sessions[s.session]; in != nil {
		in.Active = ""
		if account != "" {
			in.Status, in.Connected = link.Success, account
		}
	}
}

// open makes a session.
func (w *world) open(s link.Session) (string, *link.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.ID, s.Org, s.Status = id.New[id.Session](), w.org.ID, link.Open
	if s.Kinds == nil {
		s.Kinds = []string{link.Credentials, link.MobileApp}
	}
	if s.Remember == "" {
		s.Remember = link.RememberAsk
	}
	if s.ExpiresAt.IsZero() {
		s.ExpiresAt = w.now().Add(30 * time.Minute)
	}
	t := token("cst_", string(s.ID))
	w.sessions[t] = &s
	return t, &s
}

// do changes the attempt of a session or a token.
func (w *world) do(t string, change func(s *story)) connectpages.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	if in := w.sessions[t]; in != nil {
		t = token("at_", string(in.Last()))
	}
	s := w.attempts[t]
	change(s)
	return s.view
}

// The attempts of the pages.

func (w *world) ByToken(_ context.Context, t string) (connectpages.View, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.attempts[t]
	if !ok {
		return connectpages.View{}, problem.AttemptNotFound.New("no such attempt")
	}
	return s.view, nil // a QR's own token is an alias; the view always has the page's
}

func (w *world) Token(_ context.Context, _ id.Org, a id.Attempt) (string, error) {
	return token("at_", string(a)), nil
}

func (w *world) Wait(ctx context.Context, t string, version int64, atMost time.Duration) (connectpages.View, error) {
	w.mu.Lock()
	s, ok := w.attempts[t]
	if !ok {
		w.mu.Unlock()
		return connectpages.View{}, problem.AttemptNotFound.New("no such attempt")
	}
	view, changed := s.view, s.changed
	w.mu.Unlock()
	if view.Version != version {
		return view, nil
	}
	select {
	case <-changed:
	case <-time.After(atMost):
	case <-ctx.Done():
		return connectpages.View{}, ctx.Err()
	}
	return w.ByToken(ctx, t)
}

func (w *world) Act(_ context.Context, t string, by audit.By, a connectpages.Act) (connectpages.View, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.attempts[t]
	w.acts = append(w.acts, did{by, a})
	if err := w.refused(); err != nil {
		return connectpages.View{}, err
	}
	if s.view.State.Final() {
		return connectpages.View{}, problem.AttemptCompleted.New("over")
	}
	switch {
	case a.Cancel:
		w.fail(s, "cancelled")
	case a.Resend || a.SendEmail:
		if s.view.ResendAt.After(w.now()) {
			return connectpages.View{}, problem.ResendTooSoon.New("wait").After(20)
		}
		w.set(s, func(v *connectpages.View) {
			v.ResendAt, v.Actions = w.now().Add(30*time.Second), []string{"submit_code", "resend_code", "cancel"}
		})
	case a.Channel != "":
		w.ask(s, a.Channel)
	case a.SelfieDone:
		return s.view, nil // not confirmed yet
	default:
		w.code(s, a.Code.Reveal())
	}
	return s.view, nil
}

// code is the platform's judgement of one.
func (w *world) code(s *story, code string) {
	switch {
	case code == "123456" && len(s.rest) > 1:
		s.rest = s.rest[1:]
		w.ask(s, s.rest[0])
	case code == "123456":
		s.rest = nil
		w.set(s, func(v *connectpages.View) {
			v.State, v.Progress, v.UpdatedAt = attempt.Pending, attempt.Verifying, w.now()
		})
	case code == "999999":
		w.fail(s, "two_factor_locked")
	default:
		if s.wrongs++; s.wrongs >= 5 {
			w.fail(s, "two_factor_failed")
			return
		}
		w.set(s, func(v *connectpages.View) { v.State, v.SubmissionsLeft = attempt.WrongCode, v.SubmissionsLeft-1 })
	}
}

func (w *world) refused() error {
	err := w.refuse
	w.refuse = nil
	return err
}

func (w *world) Start(_ context.Context, _ audit.By, start connectpages.Start) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refused(); err != nil {
		return err
	}
	for t, in := range w.sessions {
		if in.ID != start.Session.ID {
			continue
		}
		if in.Active != "" {
			return problem.AttemptInProgress.New("one is under way")
		}
		w.starts = append(w.starts, start)
		s := w.begin(start.Kind, start.Email.Reveal())
		s.session, s.view.Session, s.view.ReferenceID = t, in.ID, in.ReferenceID
		in.Status, in.Active, in.Attempts = link.InProgress, s.view.ID, append(in.Attempts, s.view.ID)
	}
	return nil
}

// The sessions of the pages.

type sessions struct{ *world }

func (w sessions) ByToken(_ context.Context, t string) (link.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.world.sessions[t]
	if !ok {
		return link.Session{}, problem.SessionNotFound.New("no such session")
	}
	found := *s
	if !found.Status.Over() && found.Active == "" && !w.now().Before(found.ExpiresAt) {
		found.Status = link.Expired
	}
	return found, nil
}

func (w sessions) Opened(context.Context, link.Session) error { return nil }

func (w sessions) Exit(_ context.Context, _ id.Org, it id.Session) (link.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.world.sessions {
		if s.ID == it {
			s.Status = link.Exited
			return *s, nil
		}
	}
	return link.Session{}, problem.SessionNotFound.New("no such session")
}

func (w *world) Org(_ context.Context, org id.Org) (connectpages.Org, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if org != w.org.ID {
		return connectpages.Org{}, problem.OrgNotFound.New("no such org")
	}
	return w.org, nil
}

func (w *world) Connection(_ context.Context, _ id.Org, account id.Account) (connectpages.Connection, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.accounts[account]
	if !ok {
		return c, problem.AccountNotFound.New("no such account")
	}
	return c, nil
}

func (w *world) Disconnect(_ context.Context, by audit.By, _ id.Org, account id.Account) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts = append(w.acts, did{by: by})
	delete(w.accounts, account)
	return nil
}

func (w *world) Reconnect(_ context.Context, by audit.By, _ id.Org, account id.Account) (link.Session, secret.String, error) {
	w.mu.Lock()
	w.acts = append(w.acts, did{by: by})
	for t, s := range w.sessions {
		if s.Account == account && !s.Status.Over() {
			w.mu.Unlock()
			return *s, secret.New(t), nil
		}
	}
	w.mu.Unlock()
	t, s := w.open(link.Session{Account: account})
	return *s, secret.New(t), nil
}

// keys derives what links are made with.
type keys struct{}

func (keys) Derive(_ context.Context, purpose string) ([]byte, error) {
	sum := sha256.Sum256([]byte(purpose))
	return sum[:], nil
}
