package driver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// The owner of every fake Ghost, and the code that it mails.
const (
	ghostOwner    = "maya@example.com"
	ghostPassword = "correct horse"
	ghostCode     = "123456"
	ghostCookie   = "ghost-admin-api-session"
)

// fakeGhost behaves as a Ghost 5 does when signing in, listing events and uploading pictures.
type fakeGhost struct {
	*httptest.Server
	// sub is the path of its subdirectory, such as /blog, or empty.
	sub string

	mu       sync.Mutex
	sessions map[string]*ghostSession // by cookie
	mails    int
	wrong    int // passwords since the last right one
	events   []ghostEvent
	feeds    []string // the feeds that were asked for
	// refusing answers the requests whose path contains a key with a status.
	refusing map[string]int
	uploads  map[string][]byte
	// keys are the secrets of the site's keys by their ids, decoded.
	keys map[string][]byte
	// now is the site's clock.
	now func() time.Time
}

type ghostSession struct {
	origin string
	// verified means that a code was given. It outlasts the sign-out, so that the device needs no code the next time.
	verified  bool
	signedOut bool
	resends   int
}

type ghostEvent struct {
	kind string
	id   string // an ObjectId
}

func newFakeGhost(t testing.TB, sub string) *fakeGhost {
	t.Helper()
	g := &fakeGhost{sub: sub, sessions: map[string]*ghostSession{}, refusing: map[string]int{}, uploads: map[string][]byte{}, keys: map[string][]byte{}, now: time.Now}
	api := http.NewServeMux()
	api.HandleFunc("GET /site/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"site": map[string]any{"site_uuid": "6f1c0d3a-0000-4000-8000-" + fmt.Sprintf("%012d", len(sub)), "title": "Maya's  letters", "version": "5.130"}})
	})
	api.HandleFunc("POST /session/", g.signIn)
	api.HandleFunc("PUT /session/verify/", g.verify)
	api.HandleFunc("POST /session/verify/", g.resend)
	api.HandleFunc("DELETE /session/", g.signOut)
	api.HandleFunc("GET /users/me/", g.signedIn(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"users": []any{map[string]any{
			"id": "1", "name": "Maya", "slug": "maya", "email": ghostOwner, "status": "active", "created_at": "2026-01-02T03:04:05.000Z", "roles": []any{map[string]any{"name": "Owner"}},
		}}})
	}))
	api.HandleFunc("GET /config/", g.signedIn(func(w http.ResponseWriter, _ *http.Request) {
		g.setCookie(w, "for-nothing")
		writeJSON(w, http.StatusOK, map[string]any{"config": map[string]any{"version": "5.130.6", "mail": "stub", "mailgunIsConfigured": false, "labs": map[string]any{}}})
	}))
	api.HandleFunc("GET /members/events/", g.signedIn(g.listEvents))
	for _, name := range []string{"posts", "emails"} {
		api.HandleFunc("GET /"+name+"/", g.signedIn(func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, map[string]any{name: []any{}})
		}))
	}
	api.HandleFunc("POST /images/upload/", g.signedIn(g.upload))
	all := http.NewServeMux()
	all.Handle(sub+"/ghost/api/admin/", http.StripPrefix(sub+"/ghost/api/admin", api))
	all.HandleFunc("GET "+sub+"/content/", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if file, ok := g.uploads[r.URL.Path]; ok && r.Header.Get("Cookie") == "" {
			_, _ = w.Write(file)
			return
		}
		http.NotFound(w, r)
	})
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		status := 0
		for path, code := range g.refusing {
			if strings.Contains(r.URL.Path, path) {
				status = code
			}
		}
		g.mu.Unlock()
		if status > 0 {
			ghostError(w, status, "NoPermissionError", "", "Permission error, cannot do that")
			return
		}
		all.ServeHTTP(w, r)
	}))
	t.Cleanup(g.Close)
	return g
}

// root is the root of the site.
func (g *fakeGhost) root() string { return g.URL + g.sub }

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func ghostError(w http.ResponseWriter, status int, kind, code, message string) {
	one := map[string]any{"type": kind, "message": message, "code": nil}
	if code != "" {
		one["code"] = code
	}
	writeJSON(w, status, map[string]any{"errors": []any{one}})
}

func (g *fakeGhost) signIn(w http.ResponseWriter, r *http.Request) {
	var in struct{ Username, Password string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.wrong > 5:
		ghostError(w, http.StatusTooManyRequests, "TooManyRequestsError", "", "Too many login attempts. Please wait 10 minutes before trying again.")
		return
	case in.Username != ghostOwner:
		ghostError(w, http.StatusNotFound, "NotFoundError", "", "There is no user with that email address.")
		return
	case in.Password != ghostPassword:
		g.wrong++
		ghostError(w, http.StatusUnprocessableEntity, "ValidationError", "PASSWORD_INCORRECT", "Your password is incorrect.")
		return
	}
	g.wrong = 0
	if s, value := g.session(r); s != nil && s.verified {
		s.signedOut, s.origin = false, r.Header.Get("Origin")
		g.setCookie(w, value)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, "Created")
		return
	}
	g.mails++
	cookie := fmt.Sprintf("s%%3A%d", len(g.sessions))
	g.sessions[cookie] = &ghostSession{origin: r.Header.Get("Origin")}
	g.setCookie(w, cookie)
	ghostError(w, http.StatusForbidden, "Needs2FAError", "2FA_NEW_DEVICE_DETECTED", "User must verify session to login.")
}

func (g *fakeGhost) setCookie(w http.ResponseWriter, value string) {
	w.Header().Set("Set-Cookie", ghostCookie+"="+value+"; Path="+g.sub+"/ghost; Expires=Tue, 15 May 2035 12:00:00 GMT; HttpOnly; SameSite=None")
}

// session returns the session of a request, or nil. The caller holds the lock.
func (g *fakeGhost) session(r *http.Request) (*ghostSession, string) {
	cookie, err := r.Cookie(ghostCookie)
	if err != nil {
		return nil, ""
	}
	return g.sessions[cookie.Value], cookie.Value
}

func (g *fakeGhost) verify(w http.ResponseWriter, r *http.Request) {
	var in struct{ Token string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	g.mu.Lock()
	defer g.mu.Unlock()
	s, value := g.session(r)
	if s == nil || in.Token != ghostCode {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	s.verified = true
	g.setCookie(w, value)
	fmt.Fprint(w, "OK")
}

// resend mails a code. Like Ghost, it also does so without a cookie; the test counts only those that someone can use.
func (g *fakeGhost) resend(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s, _ := g.session(r); s != nil {
		if s.resends++; s.resends > 2 {
			ghostError(w, http.StatusTooManyRequests, "TooManyRequestsError", "", "Too many attempts.")
			return
		}
		g.mails++
	}
	fmt.Fprint(w, "OK")
}

func (g *fakeGhost) signOut(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s, value := g.session(r); s != nil && s.verified && !s.signedOut {
		s.signedOut = true
		g.setCookie(w, value)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	ghostError(w, http.StatusForbidden, "NoPermissionError", "", "Authorization failed")
}

// signedIn lets requests of verified sessions pass, from the origin of their sign-in.
func (g *fakeGhost) signedIn(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			g.byKey(w, r, next)
			return
		}
		g.mu.Lock()
		s, _ := g.session(r)
		g.mu.Unlock()
		switch {
		case s == nil || !s.verified || s.signedOut:
			ghostError(w, http.StatusForbidden, "NoPermissionError", "", "Authorization failed")
		case s.origin != r.Header.Get("Origin"):
			ghostError(w, http.StatusBadRequest, "BadRequestError", "", "Request made from incorrect origin. Expected '"+s.origin+"'")
		default:
			next(w, r)
		}
	}
}

// ghostWindow is the part of a filter that selects events by their ids.
var ghostWindow = regexp.MustCompile(`\+id:>'([0-9a-f]{24})'\+id:<'([0-9a-f]{24})'$`)

// listEvents lists the newest events first, as Ghost always does.
func (g *fakeGhost) listEvents(w http.ResponseWriter, r *http.Request) {
	filter := r.URL.Query().Get("filter")
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	window := ghostWindow.FindStringSubmatch(filter)
	g.mu.Lock()
	defer g.mu.Unlock()
	list := []any{}
	if window == nil {
		g.feeds = append(g.feeds, "mails")
	} else {
		g.feeds = append(g.feeds, "activity")
		for i := len(g.events) - 1; i >= 0 && len(list) < limit; i-- {
			e := g.events[i]
			if e.id > window[1] && e.id < window[2] {
				seconds, _ := strconv.ParseInt(e.id[:8], 16, 64)
				list = append(list, map[string]any{"type": e.kind, "data": map[string]any{
					"id": e.id, "created_at": time.Unix(seconds, 0).UTC().Format("2006-01-02T15:04:05.000Z"), "member_id": "64f000000000000000000001",
				}})
			}
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"events": list})
}

// happen adds an event at a time.
func (g *fakeGhost) happen(kind string, at time.Time) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	id := fmt.Sprintf("%08x%016x", at.Unix(), len(g.events)+1)
	g.events = append(g.events, ghostEvent{kind, id})
	return id
}

func (g *fakeGhost) upload(w http.ResponseWriter, r *http.Request) {
	file, header, err := r.FormFile("file")
	if err != nil || r.ContentLength <= 0 || header.Header.Get("Content-Type") != "image/png" {
		ghostError(w, http.StatusUnprocessableEntity, "ValidationError", "", "Please select an image.")
		return
	}
	body, _ := io.ReadAll(file)
	path := g.sub + "/content/images/2026/11/" + header.Filename
	g.mu.Lock()
	g.uploads[path] = body
	g.mu.Unlock()
	writeJSON(w, http.StatusCreated, map[string]any{"images": []any{map[string]any{"url": g.URL + path, "ref": nil}}})
}

// ghostFixture is a driver for Ghost, with the proxy of one region. Its clock can be moved.
type ghostFixture struct {
	t       testing.TB
	ghost   *fakeGhost
	catalog *catalog.Catalog
	driver  *driver.HTTP
	clock   *testenv.Clock
}

// newGhostFixture starts a Ghost. Other exempt origins can be listed.
func newGhostFixture(t testing.TB, sub string, exempt ...string) *ghostFixture {
	t.Helper()
	r := &ghostFixture{t: t, ghost: newFakeGhost(t, sub), clock: testenv.NewClock(time.Now().Truncate(time.Second))}
	var err error
	r.catalog, err = catalog.Builtin("ghost")
	must.OK(t, err)
	regions, err := egress.ParseRegions(secret.New("us=" + testenv.NewProxy(t, "127.0.1.1").URL()))
	must.OK(t, err)
	out := egress.New(egress.Deps{
		Config: egress.Config{Regions: regions, Sites: append(exempt, r.ghost.URL)}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	t.Cleanup(out.Close)
	r.ghost.now = r.clock.Now
	r.driver, err = driver.New(driver.Deps{Catalog: r.catalog, Egress: out, Now: r.clock.Now})
	must.OK(t, err)
	return r
}

func (r *ghostFixture) via() driver.Via {
	return driver.Via{Region: "us", Account: "acct_test", Site: r.ghost.root()}
}

// signIn takes the first step of a sign-in.
func (r *ghostFixture) signIn(email, password string) driver.Step {
	r.t.Helper()
	return r.signInAgain(email, password, driver.Session{})
}

// signInAgain takes the first step of a sign-in of an account that had a session.
func (r *ghostFixture) signInAgain(email, password string, before driver.Session) driver.Step {
	r.t.Helper()
	step, err := r.driver.SignIn(r.t.Context(), r.via(), secret.New(email), secret.New(password), before)
	must.OK(r.t, err)
	return step
}

func (r *ghostFixture) next(step driver.Step, in driver.Input) driver.Step {
	r.t.Helper()
	stored := driver.DecodeContinuation(step.Next.Encode())
	step, err := r.driver.Continue(r.t.Context(), r.via(), stored, in)
	must.OK(r.t, err)
	return step
}

func (r *ghostFixture) session() driver.Session {
	r.t.Helper()
	step := r.next(r.signIn(ghostOwner, ghostPassword), driver.Input{Code: secret.New(ghostCode)})
	if step.Session == nil {
		r.t.Fatalf("%+v", step.Failure)
	}
	return *step.Session
}

// An account whose session has ended signs in again as the device that Ghost knows, so it needs no code.
func TestANextSignInIsFromTheSameDevice(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	before := r.session()
	must.OK(t, r.driver.SignOut(t.Context(), r.via(), before))
	mails := r.ghost.mails
	step := r.signInAgain(ghostOwner, ghostPassword, before)
	if step.Session == nil || r.ghost.mails != mails {
		t.Fatalf("%+v, %d mails", step, r.ghost.mails-mails)
	}
	if who, _, err := r.driver.Probe(t.Context(), r.via(), *step.Session); err != nil || who.ID == "" {
		t.Error(who, err)
	}
}

// A sign-in on a new device asks for the code that Ghost has mailed. The half session is not a session: neither a wrong
// code nor a resend signs in.
func TestSignInWithAMailedCode(t *testing.T) {
	t.Parallel()
	for name, sub := range map[string]string{"at the root": "", "in a subdirectory": "/blog"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newGhostFixture(t, sub)
			step := r.signIn(ghostOwner, ghostPassword)
			wantChallenge := func(step driver.Step, wrong bool) {
				t.Helper()
				ch := step.Challenge
				if ch == nil || step.WrongCode != wrong || ch.Channel != catalog.ChannelEmail || !ch.Token.Empty() || !ch.Sent || step.Over() {
					t.Fatalf("%+v, %+v", ch, step.Failure)
				}
			}
			wantChallenge(step, false)
			if want := r.clock.Now().Add(10 * time.Minute); !step.Challenge.ExpiresAt.Equal(want) {
				t.Errorf("the code is good until %s, want %s", step.Challenge.ExpiresAt, want)
			}
			step = r.next(step, driver.Input{Code: secret.New("000000")})
			wantChallenge(step, true)
			r.clock.Advance(9 * time.Minute)
			step = r.next(step, driver.Input{Resend: true})
			wantChallenge(step, false)
			if want := r.clock.Now().Add(10 * time.Minute); !step.Challenge.ExpiresAt.Equal(want) || r.ghost.mails != 2 {
				t.Errorf("the code is good until %s, want %s; %d mails", step.Challenge.ExpiresAt, want, r.ghost.mails)
			}
			step = r.next(step, driver.Input{Code: secret.New(ghostCode)})
			if step.Session == nil {
				t.Fatalf("%+v", step.Failure)
			}
			s := *step.Session
			who, _, err := r.driver.Probe(t.Context(), r.via(), s)
			if err != nil || who.ID != "1" || who.Name != "Maya" {
				t.Errorf("%+v, %v", who, err)
			}
			must.OK(t, r.driver.SignOut(t.Context(), r.via(), s))
			_, _, err = r.driver.Probe(t.Context(), r.via(), s)
			wantRefusal(t, err, catalog.RefusedSession)
			must.OK(t, r.driver.SignOut(t.Context(), r.via(), s)) // it has ended already
		})
	}
}

// Too many resends leave the challenge open: the code that was mailed before still works.
func TestTooManyResendsLeaveTheChallengeOpen(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	step := r.signIn(ghostOwner, ghostPassword)
	for range 2 {
		step = r.next(step, driver.Input{Resend: true})
	}
	step = r.next(step, driver.Input{Resend: true})
	if f := step.Failure; f == nil || f.Code != driver.FailStep || f.RetryAfter != time.Hour || step.Over() {
		t.Fatalf("%+v", step.Failure)
	}
	if step = r.next(step, driver.Input{Code: secret.New(ghostCode)}); step.Session == nil {
		t.Errorf("%+v", step.Failure)
	}
}

// The failures of the credentials are told apart, and too many of them are a limit that ends by itself.
func TestGhostRefusesCredentials(t *testing.T) {
	t.Parallel()
	r := newGhostFixture(t, "")
	if f := r.signIn("leo@example.com", ghostPassword).Failure; f == nil || f.Code != "invalid_credentials" || f.Retryable {
		t.Errorf("an unknown user: %+v", f)
	}
	for range 6 {
		if f := r.signIn(ghostOwner, "wrong").Failure; f == nil || f.Code != "invalid_credentials" || f.UpstreamCode != "PASSWORD_INCORRECT" {
			t.Errorf("a wrong password: %+v", f)
		}
	}
	step := r.signIn(ghostOwner, ghostPassword)
	if f := step.Failure; f == nil || f.Code != driver.FailRateLimited || !f.Retryable || f.RetryAfter != 10*time.Minute || !step.Over() {
		t.Errorf("too many: %+v", f)
	}
}
