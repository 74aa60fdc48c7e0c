package page_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox/auth"
	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/page"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/store"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

const base = "/api/v2"

// site serves the pages and the sign-in API over HTTP.
type site struct {
	*testing.T
	url   string
	world *world.World
	mux   *http.ServeMux
}

func newSite(t *testing.T) *site {
	t.Helper()
	kept, err := store.Open(filepath.Join(t.TempDir(), "page.db"))
	sandboxtest.OK(t, err)
	server := httptest.NewUnstartedServer(nil)
	log := slog.New(slog.DiscardHandler)
	s := &site{T: t, url: "http://" + server.Listener.Addr().String(), mux: http.NewServeMux()}
	s.world, err = world.New(world.Deps{
		Store: kept, Log: log, Now: time.Now, Origin: s.url, Loaded: 10,
		Tick: func(c *world.Creator) time.Time { return c.Now().Add(time.Hour) },
	})
	sandboxtest.OK(t, err)
	g := gate.New(gate.Deps{World: s.world, Log: log, Regions: nil, PerMinute: 0, Now: time.Now})
	signIn := &auth.Auth{World: s.world, Gate: g}
	signIn.Mount(s.mux, base)
	page.New(page.Deps{World: s.world, Auth: signIn, Log: log}).Mount(s.mux)
	server.Config.Handler = s.mux
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := kept.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// answer is a response. Redirects are not followed.
type answer struct {
	status int
	header http.Header
	text   string
}

func (s *site) send(method, path string, body io.Reader, header map[string]string) answer {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), method, s.url+path, body)
	sandboxtest.OK(s, err)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	sandboxtest.OK(s, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	sandboxtest.OK(s, err)
	return answer{res.StatusCode, res.Header, string(text)}
}

func (s *site) get(path string) answer { return s.send("GET", path, nil, nil) }

// submit posts a form and follows the redirect.
func (s *site) submit(path string, form url.Values) answer {
	s.Helper()
	a := s.send("POST", path, strings.NewReader(form.Encode()), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	if a.status == http.StatusSeeOther {
		return s.get(a.header.Get("Location"))
	}
	return a
}

func (s *site) api(method, path string, body any, header map[string]string) (int, map[string]any) {
	s.Helper()
	text, err := json.Marshal(body)
	sandboxtest.OK(s, err)
	a := s.send(method, base+path, bytes.NewReader(text), header)
	var out map[string]any
	if err := json.Unmarshal([]byte(a.text), &out); err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	return a.status, out
}

func (s *site) advance(by time.Duration) {
	s.Helper()
	sandboxtest.OK(s, s.world.Advance(by))
}

// wants fails unless an answer has the given status and contains all words.
func (s *site) wants(a answer, status int, words ...string) {
	s.Helper()
	if a.status != status {
		s.Fatalf("status %d, want %d: %s", a.status, status, a.text)
	}
	for _, word := range words {
		if !strings.Contains(a.text, word) {
			s.Fatalf("%q is missing in: %s", word, a.text)
		}
	}
}
