package link_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

var (
	laptop = secret.New("the secret of the laptop")
	phone  = secret.New("the secret of the phone")
	third  = secret.New("the secret of a third browser")
	safari = link.Browser{Name: "Safari", System: "iPhone"}
)

// The complete state machine of how a link is opened: who has opened it before, who opens it now, and what follows.
func TestALinkIsOpenedInOneBrowser(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	inProgress := problem.AttemptInProgress.New("")
	for name, c := range map[string]struct {
		before  []secret.String
		status  link.Status
		active  bool
		browser secret.String
		again   bool
		held    link.Hold
		err     error
		// openings and attempts are how many the browser sees in the end, if there is no error.
		openings, attempts int
	}{
		"first":                       {nil, link.Open, false, laptop, false, link.Unopened, nil, 1, 2},
		"first, by starting again":    {nil, link.Open, false, laptop, true, link.Unopened, nil, 1, 2},
		"first, an attempt is active": {nil, link.InProgress, true, laptop, false, link.Unopened, nil, 1, 2},
		"first, expired":              {nil, link.Expired, false, laptop, false, link.Unopened, link.ErrOver, 0, 0},
		"the same browser":            {[]secret.String{laptop}, link.InProgress, true, laptop, false, link.Here, nil, 1, 2},
		"the same browser, again":     {[]secret.String{laptop}, link.InProgress, true, laptop, true, link.Here, nil, 1, 2},
		"the same browser, success":   {[]secret.String{laptop}, link.Success, false, laptop, false, link.Here, nil, 1, 2},
		"another":                     {[]secret.String{laptop}, link.Open, false, phone, false, link.Elsewhere, link.ErrElsewhere, 0, 0},
		"another, success":            {[]secret.String{laptop}, link.Success, false, phone, false, link.Elsewhere, link.ErrElsewhere, 0, 0},
		"another, again":              {[]secret.String{laptop}, link.InProgress, false, phone, true, link.Elsewhere, nil, 2, 0},
		"another, again, active":      {[]secret.String{laptop}, link.InProgress, true, phone, true, link.Elsewhere, inProgress, 0, 0},
		"another, again, success":     {[]secret.String{laptop}, link.Success, false, phone, true, link.Elsewhere, link.ErrOver, 0, 0},
		"another, again, exited":      {[]secret.String{laptop}, link.Exited, false, phone, true, link.Elsewhere, link.ErrOver, 0, 0},
		"another, again, expired":     {[]secret.String{laptop}, link.Expired, false, phone, true, link.Elsewhere, link.ErrOver, 0, 0},
		"back":                        {[]secret.String{laptop, phone}, link.InProgress, false, laptop, false, link.Lost, link.ErrElsewhere, 0, 0},
		"back, again":                 {[]secret.String{laptop, phone}, link.InProgress, false, laptop, true, link.Lost, nil, 3, 0},
		"the fifth time":              {[]secret.String{laptop, phone, laptop, phone}, link.InProgress, false, laptop, true, link.Lost, nil, 5, 0},
		"the sixth time":              {[]secret.String{laptop, phone, laptop, phone, laptop}, link.InProgress, false, phone, true, link.Lost, link.ErrOver, 0, 0},
		"the sixth, in the same browser": {
			[]secret.String{laptop, phone, laptop, phone, laptop}, link.InProgress, false, laptop, true, link.Here, nil, 5, 0,
		},
	} {
		s := link.Session{ID: id.New[id.Session](), Status: link.Open}
		for i, browser := range c.before {
			var err error
			s, err = s.OpenIn(browser, link.Browser{}, i > 0, now.Add(-time.Hour))
			must.OK(t, err)
			if i == 0 {
				s.Attempts = append(s.Attempts, id.New[id.Attempt](), id.New[id.Attempt]())
			}
		}
		if len(c.before) == 0 { // as the version before this one left it
			s.Attempts = append(s.Attempts, id.New[id.Attempt](), id.New[id.Attempt]())
		}
		if s.Status = c.status; c.active {
			s.Active = s.Attempts[1]
		}
		if got := s.Held(c.browser); got != c.held {
			t.Errorf("%s: held %s, want %s", name, got, c.held)
		}
		before := s
		opened, err := s.OpenIn(c.browser, safari, c.again, now)
		if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.err)
			continue
		}
		if s.Openings() != before.Openings() {
			t.Errorf("%s: the session itself has changed", name)
		}
		if err != nil {
			continue
		}
		if opened.Openings() != c.openings || opened.Held(c.browser) != link.Here || (opened.Last() != "") != (c.attempts > 0) {
			t.Errorf("%s: %d openings, held %s, last attempt %s", name, opened.Openings(), opened.Held(c.browser), opened.Last())
		}
		if moved := c.openings > len(c.before); moved && (opened.OpenedIn != safari || !opened.BoundAt.Equal(now)) {
			t.Errorf("%s: opened in %v at %v", name, opened.OpenedIn, opened.BoundAt)
		}
		for _, browser := range c.before {
			if got := opened.Held(browser); got != link.Lost && !browser.Equal(c.browser) {
				t.Errorf("%s: an earlier browser is %s", name, got)
			}
		}
	}
	s := link.Session{ID: id.New[id.Session](), Status: link.Open}
	if _, err := s.OpenIn(secret.String{}, safari, true, now); err == nil {
		t.Error("a link was opened without a browser")
	}
}

// A browser finds the sessions that it opened, and no others. What the table holds of it does not show which links one
// browser opened.
func TestABrowserFindsOnlyItsOwnSessions(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, token := r.createSession(link.Draft{})
	b, _ := r.createSession(link.Draft{})
	found := func(s link.Session, browser secret.String) link.Hold {
		t.Helper()
		got, err := r.ByBrowser(t.Context(), s.ID, browser)
		if errors.Is(err, problem.SessionNotFound.New("")) {
			return ""
		}
		must.OK(t, err)
		return got.Held(browser)
	}
	r.open(a, laptop, false)
	r.open(b, phone, false)
	for _, c := range []struct {
		session link.Session
		browser secret.String
		want    link.Hold
	}{{a, laptop, link.Here}, {a, phone, ""}, {a, secret.String{}, ""}, {b, laptop, ""}, {b, phone, link.Here}} {
		if got := found(c.session, c.browser); got != c.want {
			t.Errorf("%s: %q, want %q", c.browser.Reveal(), got, c.want)
		}
	}
	for _, bad := range []id.Session{"", "cs_", "cs_\x00", id.Session(token), id.New[id.Session]()} {
		if got := found(link.Session{ID: bad}, laptop); got != "" {
			t.Errorf("%q is %s", bad, got)
		}
	}
	r.open(b, laptop, true)
	if found(b, laptop) != link.Here || found(b, phone) != link.Lost || found(b, third) != "" {
		t.Error("the other browser did not lose the session")
	}
	var hashes, distinct int
	var rows string
	must.OK(t, r.db.Pool().QueryRow(t.Context(), `SELECT count(*), count(DISTINCT hash), string_agg(s::text, '') FROM connect_session s, unnest(browsers) hash`).
		Scan(&hashes, &distinct, &rows))
	if hashes != 3 || distinct != 3 || strings.Contains(rows, "secret") {
		t.Errorf("%d hashes, %d of them different: %s", hashes, distinct, rows)
	}
	entries, err := r.audit.Choose(t.Context(), r.org.ID, audit.Filter{Action: "connect.open"}, 0, 10)
	if err != nil || len(entries) != 3 {
		t.Errorf("%+v, %v", entries, err)
	}
}

// open opens a link in a browser.
func (r *fixture) open(s link.Session, browser secret.String, again bool) link.Session {
	r.Helper()
	opened, err := r.Open(r.Context(), by("connect.open"), s, browser, safari, again)
	must.OK(r, err)
	return opened
}

// A form that was on its way while another browser took the session starts no attempt there, and does not end it.
func TestABrowserThatLostASessionStartsNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	made, token := r.createSession(link.Draft{ExpiresIn: time.Hour})
	first := r.open(made, laptop, false)
	start := func(it link.Session) error {
		return r.db.Tx(r.Context(), func(tx postgres.Tx) error {
			return r.AttemptStarted(r.Context(), tx, it.Org, it.ID, it.Openings(), id.New[id.Attempt]())
		})
	}
	r.Advance(time.Minute)
	second := r.open(made, phone, true)
	if err := start(first); !errors.Is(err, link.ErrElsewhere) {
		t.Errorf("the first browser: %v", err)
	}
	if _, err := r.Exit(t.Context(), first.Org, first.ID, first.Openings()); !errors.Is(err, link.ErrElsewhere) {
		t.Errorf("the first browser leaves: %v", err)
	}
	must.OK(t, start(second))
	if _, err := r.Open(t.Context(), by("connect.open"), made, third, safari, true); !errors.Is(err, problem.AttemptInProgress.New("")) {
		t.Errorf("a third browser during an attempt: %v", err)
	}
	got, err := r.ByToken(t.Context(), token)
	must.OK(t, err)
	if got.Openings() != 2 || got.OpenedIn != safari || !got.BoundAt.Equal(r.Now()) || !got.OpenedAt.Equal(r.Now().Add(-time.Minute)) {
		t.Errorf("%+v", got)
	}
	r.Advance(time.Hour)
	if _, err := r.Open(t.Context(), by("connect.open"), made, laptop, safari, true); !errors.Is(err, problem.AttemptInProgress.New("")) {
		t.Errorf("after the end of the link, during an attempt: %v", err)
	}
}

// Of two browsers that open a link at the same time, one gets it.
func TestTwoBrowsersOpenOneLink(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	made, _ := r.createSession(link.Draft{})
	failures := make(chan error, 2)
	for _, browser := range []secret.String{laptop, phone} {
		go func() {
			_, err := r.Open(r.Context(), by("connect.open"), made, browser, safari, false)
			failures <- err
		}()
	}
	a, b := <-failures, <-failures
	if (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), link.ErrElsewhere) {
		t.Errorf("%v, %v", a, b)
	}
}
