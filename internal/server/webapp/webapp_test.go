package webapp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stagedoor/stagedoor/internal/server/webapp"
)

func built() *webapp.Site {
	return webapp.New(fstest.MapFS{
		"index.html":        {Data: []byte(`<script nonce="__CSP_NONCE__"></script><style nonce="__CSP_NONCE__"></style>`)},
		"placeholder.html":  {Data: []byte("run make web")},
		"assets/a-1.js":     {Data: []byte("plain")},
		"assets/a-1.js.br":  {Data: []byte("brotli")},
		"assets/a-1.js.gz":  {Data: []byte("gzip")},
		"assets/b-1.css":    {Data: []byte("css")},
		"assets/secret.key": {Data: []byte("no type")},
	})
}

// Each document has its own nonce, in its headers and in its scripts and styles, and a policy that lets no other site
// in.
func TestDocumentsHaveANonceOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 3 {
		w := httptest.NewRecorder()
		built().Document(w, httptest.NewRequest(http.MethodGet, "/app", nil), "index.html", webapp.NoFrames)
		policy := w.Header().Get("Content-Security-Policy")
		_, rest, _ := strings.Cut(policy, "'nonce-")
		nonce, _, _ := strings.Cut(rest, "'")
		if len(nonce) < 20 || seen[nonce] || strings.Count(w.Body.String(), nonce) != 2 || strings.Contains(w.Body.String(), "__") {
			t.Errorf("nonce %q in %s", nonce, w.Body)
		}
		seen[nonce] = true
		for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "frame-src 'none'", "form-action 'self'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("the policy lacks %s: %s", part, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Frame-Options") != "DENY" {
			t.Errorf("%v", w.Header())
		}
	}
}

// Without a build, the page says how to build.
func TestWithoutABuildThePlaceholderIsShown(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	built().Document(w, httptest.NewRequest(http.MethodGet, "/ops", nil), "ops.html", webapp.NoFrames)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "make web") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Assets are served in the best form that the browser accepts, with a lifetime without end. No other file can be read.
func TestAssets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, accept, body, encoding string }{
		{"a-1.js", "gzip, deflate, br", "brotli", "br"},
		{"a-1.js", "gzip, br;q=0", "gzip", "gzip"},
		{"a-1.js", "identity", "plain", ""},
		{"a-1.js", "", "plain", ""},
		{"b-1.css", "gzip, br", "css", ""},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/app/assets/"+c.name, nil)
		r.Header.Set("Accept-Encoding", c.accept)
		if !built().Asset(w, r, c.name) || w.Body.String() != c.body || w.Header().Get("Content-Encoding") != c.encoding ||
			!strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("%+v: %s %v", c, w.Body, w.Header())
		}
	}
	for _, name := range []string{"", ".", "..", "../index.html", "a-1.js.br", "none.js", "secret.key", "x/y.js", `..\index.html`} {
		if built().Asset(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/app/assets/", nil), name) {
			t.Errorf("%q was served", name)
		}
	}
}
