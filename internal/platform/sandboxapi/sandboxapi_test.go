package sandboxapi_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stagedoor/stagedoor/internal/platform/sandboxapi"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
)

const login = "ok@sandbox.test"

// get sends a request to the platform with a session and returns the status.
func get(t *testing.T, origin, path string, s sandboxapi.Session) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, origin+path, nil)
	must.OK(t, err)
	req.Header.Set("Cookie", s.Cookie.Reveal())
	for name, value := range s.Headers {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	must.OK(t, err)
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// An opened session works until it is ended.
func TestSessionsOpenAndEnd(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := sandboxapi.New(p.URL + "/")
	defer c.Close()
	s, err := c.OpenSession(t.Context(), login)
	if err != nil || s.Cookie.Empty() || s.UserAgent == "" || s.Headers["x-device"] == "" {
		t.Fatalf("%+v %v", s, err)
	}
	if status := get(t, c.Origin(), "/api/v2/lists", s); status != http.StatusOK {
		t.Errorf("a request with the session returns %d", status)
	}
	owner := strconv.FormatInt(p.SignIn(login).Session.Owner, 10)
	must.OK(t, c.EndSessions(t.Context(), owner))
	if status := get(t, c.Origin(), "/api/v2/lists", s); status != http.StatusUnauthorized {
		t.Errorf("a request with the ended session returns %d", status)
	}
	for what, err := range map[string]error{"a foreign login": second(c.OpenSession(t.Context(), "ok@example.com")), "an unknown creator": c.EndSessions(t.Context(), "17")} {
		if _, ok := errors.AsType[*sandboxapi.Refused](err); !ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func second(_ sandboxapi.Session, err error) error { return err }

// Happen makes the platform send the frame with the given details.
func TestHappenTriggersFrames(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := sandboxapi.New(p.URL)
	creator := p.SignIn(login)
	owner := strconv.FormatInt(creator.Session.Owner, 10)
	fan := strconv.FormatInt(creator.Person(3), 10)
	err := c.Happen(t.Context(), owner, sandboxapi.Happening{What: "fan.tip", User: fan, Cents: 1205, Text: "for you"})
	must.OK(t, err)
	text, err := json.Marshal(creator.Frame("fan.tip"))
	if err != nil || !strings.Contains(string(text), fan) || !strings.Contains(string(text), "12.05") {
		t.Errorf("%s %v", text, err)
	}
	refused, ok := errors.AsType[*sandboxapi.Refused](c.Happen(t.Context(), owner, sandboxapi.Happening{What: "nothing.known"}))
	if !ok || refused.Field != "what" {
		t.Errorf("%+v", refused)
	}
}

// AnswerQR scans, approves and denies by the handle of the QR code.
func TestAnswerQRActsAsThePhone(t *testing.T) {
	t.Parallel()
	p := sandboxtest.New(t, nil)
	c := sandboxapi.New(p.URL)
	for _, last := range []string{"approve", "deny"} {
		handle := openQR(t, p.URL)
		for _, action := range []string{"scan", last} {
			if err := c.AnswerQR(t.Context(), handle, action); err != nil {
				t.Errorf("%s: %v", action, err)
			}
		}
		if _, ok := errors.AsType[*sandboxapi.Refused](c.AnswerQR(t.Context(), handle, "approve")); !ok {
			t.Errorf("after %s it can still be approved", last)
		}
	}
	if _, ok := errors.AsType[*sandboxapi.Refused](c.TakeSelfie(t.Context(), "none", true)); !ok {
		t.Error("a selfie without a challenge was accepted")
	}
}

// openQR starts a QR sign-in and returns its handle.
func openQR(t *testing.T, origin string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, origin+"/api/v2/auth/qr", strings.NewReader("{}"))
	must.OK(t, err)
	req.Header.Set("X-Device", "phone")
	res, err := http.DefaultTransport.RoundTrip(req)
	must.OK(t, err)
	defer res.Body.Close()
	var answer struct{ QR struct{ URL string } }
	must.OK(t, json.NewDecoder(res.Body).Decode(&answer))
	return answer.QR.URL[strings.LastIndexByte(answer.QR.URL, '/')+1:]
}

// A sandbox that is down, fails or responds with nonsense gives ErrUnavailable and not a refusal.
func TestFailuresAreNotRefusals(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	origins := map[string]string{"away": away.URL}
	for what, answer := range map[string]struct {
		status int
		body   string
	}{"nonsense": {200, "<html>"}, "a fault": {500, `{"error":{"code":5000,"message":"x"}}`}, "not ours": {404, "not found"}} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Host != "localhost" {
				t.Errorf("the host is %s", r.Host)
			}
			w.WriteHeader(answer.status)
			_, _ = io.WriteString(w, answer.body)
		}))
		t.Cleanup(server.Close)
		origins[what] = server.URL
	}
	for what, origin := range origins {
		if _, err := sandboxapi.New(origin).OpenSession(t.Context(), login); !errors.Is(err, sandboxapi.ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Errors do not contain the URL, which contains the token of a challenge.
func TestErrorsDoNotContainTheURL(t *testing.T) {
	t.Parallel()
	err := sandboxapi.New("http://127.0.0.1:1").TakeSelfie(t.Context(), "token-of-a-challenge", true)
	if !errors.Is(err, sandboxapi.ErrUnavailable) || strings.Contains(err.Error(), "token-of-a-challenge") {
		t.Error(err)
	}
}
