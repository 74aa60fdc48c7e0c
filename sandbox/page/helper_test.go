package page_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/sandbox"
	"github.com/stagedoor/stagedoor/sandbox/sandboxtest"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

// site is a platform whose pages and sign-in API are tested over HTTP.
type site struct {
	*testing.T
	url      string
	world    *world.World
	platform http.Handler
}

func newSite(t *testing.T) *site {
	t.Helper()
	p := sandboxtest.New(t, nil)
	return &site{T: t, url: p.URL, world: p.World, platform: p}
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
	a := s.send(method, sandbox.Base+path, bytes.NewReader(text), header)
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
