package connectpages_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// fakeBackend implements all dependencies of the pages in memory: attempts that follow the personas of the sandbox,
// sessions, accounts.
type fakeBackend struct {
	mu       sync.Mutex
	base     string
	org      connectpages.Org
	logo     []byte
	now      func() time.Time
	attempts map[string]*fakeAttempt
	sessions map[string]*link.Session
	accounts map[id.Account]connectpages.Connection
	// acts and starts record what the pages passed on.
	acts   []recordedAct
	starts []connectpages.Start
	// openings are the audit entries of links that were opened.
	openings []audit.By
	// found are the sites that were checked.
	found []string
	// refuse is the error of the next Start or Act.
	refuse error
}

type recordedAct struct {
	by  audit.By
	act connectpages.Act
}

type fakeAttempt struct {
	view connectpages.View
	// rest are the challenges to come.
	rest    []string
	fails   string
	changed chan struct{}
	wrongs  int
	session string
}

func newFakeBackend(base string, now func() time.Time) *fakeBackend {
	return &fakeBackend{
		base: base, now: now, attempts: map[string]*fakeAttempt{}, sessions: map[string]*link.Session{}, accounts: map[id.Account]connectpages.Connection{},
		org: connectpages.Org{ID: id.New[id.Org](), Name: "Northlight", Environment: environment.Sandbox, Page: link.Page{Scheme: link.SchemeSystem}, Since: time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC)},
	}
}

func token(prefix, text string) string {
	sum := sha256.Sum256([]byte(text))
	return prefix + base64.RawURLEncoding.EncodeToString(sum[:])
}

// persona returns the challenges of a login, or its failure, by the part before the @.
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

// begin creates an attempt. The caller holds the lock.
func (w *fakeBackend) begin(kind, email string) *fakeAttempt {
	it := id.New[id.Attempt]()
	t := token("at_", string(it))
	s := &fakeAttempt{changed: make(chan struct{}), view: connectpages.View{
		Org: w.org, ID: it, Kind: attempt.Kind(kind), Platform: "sandbox", Token: t, Version: 1, State: attempt.Pending, Progress: attempt.Queued, Actions: []string{"poll", "cancel"},
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

// set changes a view and wakes the waiters. The caller holds the lock.
func (w *fakeBackend) set(s *fakeAttempt, do func(*connectpages.View)) {
	do(&s.view)
	s.view.Version++
	close(s.changed)
	s.changed = make(chan struct{})
}

// next plays the platform's response: the next challenge, or the end. The caller holds the lock.
func (w *fakeBackend) next(s *fakeAttempt) {
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

func (w *fakeBackend) ask(s *fakeAttempt, channel string) {
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

func (w *fakeBackend) scan(s *fakeAttempt) {
	w.set(s, func(v *connectpages.View) {
		v.State, v.Progress, v.Channel, v.Actions, v.UpdatedAt = attempt.AwaitingMobile, attempt.AwaitingScan, "mobile", []string{"open_phone_url", "cancel"}, w.now()
		v.PhoneURL, v.PlatformURL = w.base+"/a/"+v.Token+"/phone?n=1", secret.New("https://platform.example/qr/1")
	})
}

func (w *fakeBackend) fail(s *fakeAttempt, code string) {
	w.set(s, func(v *connectpages.View) {
		v.State, v.Failure, v.Progress, v.Actions = attempt.Failed, code, attempt.Done, nil
	})
	w.end(s, "")
}

func (w *fakeBackend) succeed(s *fakeAttempt) {
	account := id.New[id.Account]()
	w.accounts[account] = connectpages.Connection{Name: "@luna", DisplayName: "Luna Vega", Since: w.now(), Platform: s.view.Platform, Site: s.view.Site}
	w.set(s, func(v *connectpages.View) {
		v.State, v.Account, v.Progress, v.Actions = attempt.Success, account, attempt.Done, []string{"use_account"}
	})
	w.end(s, account)
}

func (w *fakeBackend) end(s *fakeAttempt, account id.Account) {
	if in := w.sessions[s.session]; in != nil {
		in.Active = ""
		if account != "" {
			in.Status, in.Connected = link.Success, account
		}
	}
}

func (w *fakeBackend) open(s link.Session) (string, *link.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.ID, s.Org, s.Status = id.New[id.Session](), w.org.ID, link.Open
	if s.Kinds == nil {
		s.Kinds = []string{link.Credentials, link.MobileApp}
	}
	s.Remember = cmp.Or(s.Remember, link.RememberAsk)
	if s.ExpiresAt.IsZero() {
		s.ExpiresAt = w.now().Add(30 * time.Minute)
	}
	t := token("cst_", string(s.ID))
	w.sessions[t] = &s
	return t, &s
}

// do changes the attempt of a session or of a token.
func (w *fakeBackend) do(t string, change func(s *fakeAttempt)) connectpages.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	if in := w.sessions[t]; in != nil {
		t = token("at_", string(in.Last()))
	}
	s := w.attempts[t]
	change(s)
	return s.view
}

// Methods of attempts.

func (w *fakeBackend) ByToken(_ context.Context, t string) (connectpages.View, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.attempts[t]
	if !ok {
		return connectpages.View{}, problem.AttemptNotFound.New("no such attempt")
	}
	return s.view, nil // The token in a QR code is an alias; the view always has the token of the page.
}

// Authorize and Authorized are tested with a real backend, in oauth_test.go.
func (w *fakeBackend) Authorize(context.Context, string, secret.String, link.Consent) (secret.String, error) {
	return secret.String{}, problem.AttemptNotFound.New("no such attempt")
}

func (w *fakeBackend) Authorized(context.Context, connect.Return) (connectpages.View, error) {
	return connectpages.View{}, problem.SessionNotFound.New("no such attempt")
}

func (w *fakeBackend) Token(_ context.Context, _ id.Org, a id.Attempt) (string, error) {
	return token("at_", string(a)), nil
}

func (w *fakeBackend) Wait(ctx context.Context, t string, version int64, atMost time.Duration) (connectpages.View, error) {
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

func (w *fakeBackend) Act(_ context.Context, t string, by audit.By, a connectpages.Act) (connectpages.View, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.attempts[t]
	w.acts = append(w.acts, recordedAct{by, a})
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
		return s.view, nil // Not confirmed yet.
	default:
		w.code(s, a.Code.Reveal())
	}
	return s.view, nil
}

// code plays the platform's check of a code.
func (w *fakeBackend) code(s *fakeAttempt, code string) {
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

func (w *fakeBackend) refused() error {
	err := w.refuse
	w.refuse = nil
	return err
}

func (w *fakeBackend) Start(_ context.Context, _ audit.By, start connectpages.Start) error {
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
			return problem.AttemptInProgress.New("another attempt is in progress")
		}
		w.starts = append(w.starts, start)
		s := w.begin(start.Kind, start.Email.Reveal())
		s.session, s.view.Session, s.view.ReferenceID = t, in.ID, in.ReferenceID
		s.view.Platform, s.view.Site = cmp.Or(in.Platform, "sandbox"), start.Site
		in.Status, in.Active, in.Attempts = link.InProgress, s.view.ID, append(in.Attempts, s.view.ID)
	}
	return nil
}

// FindSite knows the site of Maya. The first part of the name of any other site says what is wrong with it.
func (w *fakeBackend) FindSite(_ context.Context, _ audit.By, s link.Session, site string) (driver.Place, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = append(w.found, site)
	_, host, _ := strings.Cut(site, "://")
	name, _, _ := strings.Cut(host, ".")
	switch name {
	case "maya":
		return driver.Place{Platform: s.Platform, Site: site, Root: site, SiteID: "1", Title: "Maya <b>writes</b>"}, nil
	case "form", "software", "redirect":
		return driver.Place{}, problem.ValidationFailed.New("no").At("/site", name, "no")
	case "host", "address", "port":
		return driver.Place{}, problem.UnsafeURL.New("no").At("/site", name, "no")
	case "slow":
		return driver.Place{}, context.DeadlineExceeded
	case "cut":
		return driver.Place{}, problem.EgressUnavailable.New("no")
	case "broken":
		return driver.Place{}, errInside
	}
	return driver.Place{}, problem.UpstreamUnavailable.New("no")
}

// Methods of sessions.

type sessions struct{ *fakeBackend }

func (w sessions) ByToken(_ context.Context, t string) (link.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.fakeBackend.sessions[t]
	if !ok {
		return link.Session{}, problem.SessionNotFound.New("no such session")
	}
	found := *s
	if !found.Status.Over() && found.Active == "" && !w.now().Before(found.ExpiresAt) {
		found.Status = link.Expired
	}
	return found, nil
}

// ByBrowser is ByToken for the browser that the session is bound to, or was.
func (w sessions) ByBrowser(ctx context.Context, it id.Session, browser secret.String) (link.Session, error) {
	found, err := w.ByToken(ctx, token("cst_", string(it)))
	if hold := found.Held(browser); err == nil && hold != link.Here && hold != link.Lost {
		return link.Session{}, problem.SessionNotFound.New("no such session")
	}
	return found, err
}

func (w sessions) Open(ctx context.Context, by audit.By, it link.Session, browser secret.String, kind link.Browser, again bool) (link.Session, error) {
	found, err := w.ByToken(ctx, token("cst_", string(it.ID)))
	if err != nil {
		return link.Session{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	opened, err := found.OpenIn(browser, kind, again, w.now())
	if err == nil {
		*w.fakeBackend.sessions[token("cst_", string(it.ID))] = opened
		w.openings = append(w.openings, by)
	}
	return opened, err
}

func (w sessions) Exit(_ context.Context, _ id.Org, it id.Session, openings int) (link.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.fakeBackend.sessions {
		if s.ID == it {
			if s.Openings() != openings {
				return link.Session{}, link.ErrElsewhere
			}
			s.Status = link.Exited
			return *s, nil
		}
	}
	return link.Session{}, problem.SessionNotFound.New("no such session")
}

func (w *fakeBackend) Org(_ context.Context, org id.Org) (connectpages.Org, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if org != w.org.ID {
		return connectpages.Org{}, problem.OrgNotFound.New("no such org")
	}
	return w.org, nil
}

func (w *fakeBackend) Logo(_ context.Context, org id.Org) (logo []byte, tag string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if org != w.org.ID || w.logo == nil {
		return nil, "", nil
	}
	return w.logo, w.org.Page.LogoTag, nil
}

func (w *fakeBackend) Connection(_ context.Context, _ id.Org, account id.Account) (connectpages.Connection, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, ok := w.accounts[account]
	if !ok {
		return c, problem.AccountNotFound.New("no such account")
	}
	return c, nil
}

func (w *fakeBackend) Disconnect(_ context.Context, by audit.By, _ id.Org, account id.Account) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acts = append(w.acts, recordedAct{by: by})
	delete(w.accounts, account)
	return nil
}

func (w *fakeBackend) Reconnect(_ context.Context, by audit.By, _ id.Org, account id.Account) (link.Session, secret.String, error) {
	w.mu.Lock()
	w.acts = append(w.acts, recordedAct{by: by})
	for t, s := range w.sessions {
		if s.Account == account && !s.Status.Over() {
			w.mu.Unlock()
			return *s, secret.New(t), nil
		}
	}
	w.mu.Unlock()
	c := w.accounts[account]
	t, s := w.open(link.Session{Account: account, Platform: c.Platform, Site: c.Site, Kinds: link.ReconnectKinds(c.Credentials)})
	return *s, secret.New(t), nil
}

// keys derives the keys of links.
type keys struct{}

func (keys) Derive(_ context.Context, purpose string) ([]byte, error) {
	sum := sha256.Sum256([]byte(purpose))
	return sum[:], nil
}
