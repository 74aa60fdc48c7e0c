package connectpages_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/link"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/server/connectpages"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// fixture serves the pages over real HTTP, with a fake backend.
type fixture struct {
	*testing.T
	*fakeBackend
	url   string
	log   *logBuffer
	clock *clock
	// jar holds the cookies of the creator's browser.
	jar http.CookieJar
}

// clock stands still until a test advances it. With a zero time it is the real one.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return time.Now()
	}
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// logBuffer is a log that tests can read.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	base := "http://" + server.Listener.Addr().String()
	s := &fixture{T: t, url: base, log: &logBuffer{}, clock: &clock{at: time.Now().UTC().Truncate(time.Second)}}
	s.fakeBackend = newFakeBackend(base, s.clock.now)
	s = s.otherBrowser()
	server.Config.Handler = newPages(t, s.fakeBackend, base, s.log, s.clock.now)
	server.Config.ReadTimeout = 15 * time.Second
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// otherBrowser returns the same pages in a browser without cookies.
func (s *fixture) otherBrowser() *fixture {
	s.Helper()
	jar, err := cookiejar.New(nil)
	must.OK(s, err)
	other := *s
	other.jar = jar
	return &other
}

// platforms returns the sandbox, which is the default, and Ghost, where every creator has a site and there is no sign-in
// by phone.
func platforms(t *testing.T) registry.Registry {
	t.Helper()
	var list []registry.Platform
	for _, id := range []string{"sandbox", "ghost"} {
		c, err := catalog.Builtin(id)
		must.OK(t, err)
		list = append(list, registry.Platform{ID: id, Environment: environment.Sandbox, Catalog: c})
	}
	return registry.Of(list...)
}

func newPages(t *testing.T, w *fakeBackend, base string, log io.Writer, now func() time.Time) *connectpages.Pages {
	t.Helper()
	h, err := connectpages.New(connectpages.Deps{
		Config: connectpages.Config{URL: base}, Attempts: w, Sessions: sessions{w}, Orgs: w, Connections: w, Links: link.NewLinks(keys{}),
		Platforms: platforms(t),
		Draining:  func() bool { return false }, Source: func(r *http.Request) string { return r.Header.Get("X-Test-Source") },
		HashIP: func(source string) string { return "hash of " + source }, Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Now: now,
	})
	must.OK(t, err)
	return h
}

type response struct {
	status int
	head   http.Header
	body   string
}

// call sends one request as a browser would. It follows no redirect.
func (s *fixture) call(method, path string, form url.Values, head ...string) response {
	s.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, body)
	must.OK(s, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	client := http.Client{Jar: s.jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	must.OK(s, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must.OK(s, err)
	return response{res.StatusCode, res.Header, string(text)}
}

func (s *fixture) get(path string, head ...string) response {
	s.Helper()
	return s.call(http.MethodGet, path, nil, head...)
}

// post sends a form and follows the redirect.
func (s *fixture) post(path string, pairs ...string) response {
	s.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	a := s.call(http.MethodPost, path, form)
	if a.status == http.StatusSeeOther {
		return s.get(a.head.Get("Location"))
	}
	return a
}

var (
	tags   = regexp.MustCompile(`(?s)<style.*?</style>|<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

func (a response) text() string {
	plain := strings.NewReplacer("&#39;", "'", "&amp;", "&", "&lt;", "<", "&gt;", ">", "&#34;", `"`).Replace(tags.ReplaceAllString(a.body, " "))
	return spaces.ReplaceAllString(plain, " ")
}

// wantText checks the status, and the texts that a person reads. A text with a leading ! must not be there.
func (s *fixture) wantText(a response, status int, wants ...string) {
	s.Helper()
	if a.status != status {
		s.Fatalf("status %d, want %d: %s", a.status, status, a.text())
	}
	for _, want := range wants {
		text, not := strings.CutPrefix(want, "!")
		if strings.Contains(a.text(), text) == not {
			s.Fatalf("want %q in: %s", want, a.text())
		}
	}
}

// enter opens a link as a person does, and returns the address of its session.
func (s *fixture) enter(token string) string {
	s.Helper()
	page := s.get("/s/" + token)
	if page.status == http.StatusOK {
		page = s.call(http.MethodPost, "/s/"+token, url.Values{"do": {"open"}})
	}
	if page.status != http.StatusSeeOther {
		s.Fatalf("status %d: %s", page.status, page.text())
	}
	return page.head.Get("Location")
}

// startSession opens a session and sends its form.
func (s *fixture) startSession(email string) (path, token string) {
	s.Helper()
	token, _ = s.open(link.Session{})
	path = s.enter(token)
	s.wantText(s.post(path, "do", "start", "email", email, "password", "good"), 200, "Signing you in")
	return path, token
}

// startChallenge starts a session and brings it to its first challenge or end.
func (s *fixture) startChallenge(email string) (path, token string) {
	s.Helper()
	path, token = s.startSession(email)
	s.do(token, s.next)
	return path, token
}
