package catalog_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Each step of the sign-in gives the request from the manifest, and requests print nothing secret.
func TestSignInRequests(t *testing.T) {
	t.Parallel()
	s := &small(t).SignIn
	token, password := secret.New("t/1"), secret.New(`hun"ter2`)
	for name, r := range map[string]struct {
		make func() (catalog.Request, error)
		want string
	}{
		"login":  {func() (catalog.Request, error) { return s.Login(secret.New("a@b.c"), password) }, `POST /api/v2/auth/login {"email":"a@b.c","password":"hun\"ter2"} map[]`},
		"answer": {func() (catalog.Request, error) { return s.Answer(secret.New("t 1"), secret.New("123456")) }, `POST /api/v2/auth/challenges/t%201/answer {"code":"123456"} map[]`},
		"switch": {func() (catalog.Request, error) { return s.Switch(secret.New("t"), catalog.ChannelApp) }, `POST /api/v2/auth/challenges/t/switch {"method":"totp"} map[]`},
		"resend": {func() (catalog.Request, error) { return s.Resend(secret.New("t")) }, `POST /api/v2/auth/challenges/t/resend  map[]`},
		"check":  {func() (catalog.Request, error) { return s.Check(secret.New("t")) }, `GET /api/v2/auth/challenges/t  map[]`},
		"qr":     {s.OpenQR, `POST /api/v2/auth/qr  map[]`},
		"scan":   {func() (catalog.Request, error) { return s.CheckQR(catalog.QR{ID: "q1", Secret: secret.New("shh")}) }, `GET /api/v2/auth/qr/q1  map[X-Qr-Secret:[shh]]`},
		"logout": {s.Logout, `POST /api/v2/auth/logout  map[]`},
	} {
		req, err := r.make()
		if got := fmt.Sprintf("%s %s %s %v", req.Method, req.Path, req.Body, req.Header); err != nil || got != r.want {
			t.Errorf("%s: %v\n%s\n%s", name, err, got, r.want)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(verb, req); strings.Contains(text, "auth") || strings.Contains(text, "ter2") {
				t.Errorf("%s prints as %s", name, text)
			}
		}
	}
	for _, bad := range []secret.String{token, secret.New(""), secret.New("..")} {
		if _, err := s.Check(bad); err == nil {
			t.Error("a token that is not a path segment is accepted")
		}
	}
	if _, err := s.Switch(token, "pigeon"); !errors.Is(err, catalog.ErrNoStep) {
		t.Errorf("%v", err)
	}
	without, err := catalog.Load(withEdit(t, "upstream.yaml", "  resend:\n    http: POST /auth/challenges/{token}/resend\n", ""))
	must.OK(t, err)
	if _, err := without.SignIn.Resend(token); !errors.Is(err, catalog.ErrNoStep) {
		t.Errorf("%v", err)
	}
}

// Challenge finds a challenge in an error response.
func TestChallenge(t *testing.T) {
	t.Parallel()
	s := &small(t).SignIn
	ch, ok := s.Challenge([]byte(`{"error":{"code":1010,"challenge":{"token":"abc","method":"totp","methods":["totp","sms","smoke"],`+
		`"sent_to":"••••42\u0007","expires_at":"2026-11-14T22:50:00Z","page_url":"https://x.test/p","is_sent":false,"state":"open"}}}`), catalog.Refusal{})
	want := catalog.Challenge{
		Channel: catalog.ChannelApp, Available: []catalog.Channel{catalog.ChannelApp, catalog.ChannelSMS}, Mask: "••••42",
		ExpiresAt: time.Date(2026, 11, 14, 22, 50, 0, 0, time.UTC), State: "open",
	}
	if !ok || ch.Token.Reveal() != "abc" || ch.Channel != want.Channel || !slices.Equal(ch.Available, want.Available) || ch.Mask != want.Mask ||
		!ch.ExpiresAt.Equal(want.ExpiresAt) || ch.Page.Reveal() != "https://x.test/p" || ch.Sent || ch.State != "open" {
		t.Errorf("%+v", ch)
	}
	if ch, ok := s.Challenge([]byte(`{"error":{"challenge":{"token":"abc","method":"smoke"}}}`), catalog.Refusal{}); !ok || ch.Channel != "" || !ch.Sent {
		t.Errorf("%+v %v", ch, ok)
	}
	for _, body := range []string{``, `{`, `{}`, `[]`, `{"error":{"challenge":null}}`, `{"error":{"challenge":{}}}`, `{"error":{"challenge":{"token":null}}}`} {
		if ch, ok := s.Challenge([]byte(body), catalog.Refusal{}); ok {
			t.Errorf("%s: %+v", body, ch)
		}
	}
	for code, want := range map[string]string{"1001": "invalid_credentials", "1": "", "": ""} {
		if got, _ := s.Failure(catalog.StepCredentials, 401, catalog.Refusal{Code: code}); got != want {
			t.Errorf("%s: got %q, want %q", code, got, want)
		}
	}
}

// QR and QRStatus read the times and the status of a QR sign-in.
func TestQR(t *testing.T) {
	t.Parallel()
	s := &small(t).SignIn
	body := []byte(`{"qr":{"id":"q1","poll_secret":"shh","url":"https://x.test/q","expires_at":"2026-11-14T22:51:00Z","ends_at":1794696660,"status":"accepted"}}`)
	qr, err := s.QR(body)
	if err != nil || qr.ID != "q1" || qr.Secret.Reveal() != "shh" || qr.URL.Reveal() != "https://x.test/q" || qr.ExpiresAt.Minute() != 51 || qr.EndsAt.Unix() != 1794696660 {
		t.Errorf("%+v %v", qr, err)
	}
	if status, err := s.QRStatus(body); err != nil || status != catalog.QRApproved {
		t.Errorf("%v %v", status, err)
	}
	for _, bad := range []string{`{"qr":{"id":"q1"}}`, `{}`, `{"qr":{"status":"odd"}}`} {
		if _, err := s.QR([]byte(bad)); !errors.Is(err, catalog.ErrChanged) {
			t.Errorf("%s: %v", bad, err)
		}
		if _, err := s.QRStatus([]byte(bad)); !errors.Is(err, catalog.ErrChanged) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := s.QR([]byte("<")); !errors.Is(err, catalog.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// Classify uses the first rule that matches, and makes the message safe to show.
func TestClassify(t *testing.T) {
	t.Parallel()
	c := small(t)
	for name, r := range map[string]struct {
		status int
		header http.Header
		body   string
		want   catalog.Refusal
	}{
		"a code":          {403, nil, `{"error":{"code":1002,"message":"Gone"}}`, catalog.Refusal{Kind: catalog.RefusedSession, Code: "1002", Message: "Gone"}},
		"a code as text":  {400, nil, `{"error":{"code":"2005"}}`, catalog.Refusal{Kind: catalog.RefusedCreatorOnly, Code: "2005"}},
		"a status":        {404, nil, `{"error":{"code":7}}`, catalog.Refusal{Kind: catalog.RefusedNotFound, Code: "7"}},
		"a wait":          {429, http.Header{"Retry-After": {"17"}}, `{"error":{"retry_after":3}}`, catalog.Refusal{Kind: catalog.RefusedRateLimited, RetryAfter: 17 * time.Second}},
		"a wait in it":    {429, nil, `{"error":{"retry_after":2.1}}`, catalog.Refusal{Kind: catalog.RefusedRateLimited, RetryAfter: 3 * time.Second}},
		"a date":          {503, http.Header{"Retry-After": {"Sat, 14 Nov 2026 22:50:10 GMT"}, "Date": {"Sat, 14 Nov 2026 22:50:00 GMT"}}, ``, catalog.Refusal{Kind: catalog.RefusedUnavailable, RetryAfter: 10 * time.Second}},
		"a past date":     {503, http.Header{"Retry-After": {"Sat, 14 Nov 2026 22:49:10 GMT"}, "Date": {"Sat, 14 Nov 2026 22:50:00 GMT"}}, ``, catalog.Refusal{Kind: catalog.RefusedUnavailable}},
		"a long wait":     {429, http.Header{"Retry-After": {"99999999999"}}, ``, catalog.Refusal{Kind: catalog.RefusedRateLimited, RetryAfter: 24 * time.Hour}},
		"a negative wait": {429, http.Header{"Retry-After": {"-5"}}, `{"error":{"retry_after":-5}}`, catalog.Refusal{Kind: catalog.RefusedRateLimited}},
		"a huge wait":     {429, nil, `{"error":{"retry_after":1e309}}`, catalog.Refusal{Kind: catalog.RefusedRateLimited, RetryAfter: 24 * time.Hour}},
		"nonsense":        {429, http.Header{"Retry-After": {"soon"}}, ``, catalog.Refusal{Kind: catalog.RefusedRateLimited}},
		"HTML":            {502, nil, `<html>`, catalog.Refusal{Kind: catalog.RefusedError}},
		"an odd status":   {418, nil, `{}`, catalog.Refusal{Kind: catalog.RefusedRejected}},
		"another":         {599, nil, `{}`, catalog.Refusal{Kind: catalog.RefusedError}},
		"a redirect":      {302, nil, ``, catalog.Refusal{Kind: catalog.RefusedError}},
		"a message":       {400, nil, `{"error":{"message":"  a\u0000\u001b[31m\n\n b\u202ec "}}`, catalog.Refusal{Kind: catalog.RefusedRejected, Message: "a[31m bc"}},
		"a long message":  {400, nil, `{"error":{"message":"` + strings.Repeat("é", 400) + `"}}`, catalog.Refusal{Kind: catalog.RefusedRejected, Message: strings.Repeat("é", 300)}},
		"no message":      {400, nil, `{"error":{"message":{"a":1},"code":{}}}`, catalog.Refusal{Kind: catalog.RefusedRejected}},
	} {
		if got := c.Classify(r.status, r.header, []byte(r.body)); !sameRefusal(got, r.want) {
			t.Errorf("%s: %+v, want %+v", name, got, r.want)
		}
	}
}

// The catalog has the session settings of the manifest.
func TestSession(t *testing.T) {
	t.Parallel()
	c := small(t)
	s := c.Session
	if !slices.Equal(s.Cookies.Required, []string{"auth_id", "sess"}) || s.Cookies.Owner != "auth_id" || s.Cookies.Expiry != "sess" || s.Device != "x-device" ||
		s.Send.Get("Accept") != "application/json" || !strings.HasPrefix(s.UserAgent, "Mozilla/") || !slices.Equal(s.Headers.Allowed, []string{"x-device", "x-client"}) {
		t.Errorf("%+v", s)
	}
	if c.Origin != "http://127.0.0.1:18200" || c.Isolation != catalog.ByAccount || !c.ListSince || c.Verify.ID() != "notes.me" {
		t.Errorf("%+v", c)
	}
}

// Nearest suggests the most similar names for one that does not exist.
func TestNearest(t *testing.T) {
	t.Parallel()
	c := small(t)
	for wanted, want := range map[string]string{
		"notes.lst": "notes.list", "note.list": "notes.list", "Notes.List": "notes.list", "notes.craete": "notes.create", "notes.remove": "notes.rename",
	} {
		resource, name, _ := strings.Cut(wanted, ".")
		if got := c.Nearest(resource, name); len(got) == 0 || got[0] != want || len(got) > 5 {
			t.Errorf("%s: %v", wanted, got)
		}
	}
	for _, far := range []string{"x.y", strings.Repeat("a", 500) + ".list"} {
		resource, name, _ := strings.Cut(far, ".")
		if got := c.Nearest(resource, name); len(got) > 0 {
			t.Errorf("%s: %v", far, got)
		}
	}
	if got := c.NearestResource("note"); !slices.Equal(got, []string{"notes"}) {
		t.Errorf("%v", got)
	}
}
