package stagedoor_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	stagedoor "github.com/stagedoor/stagedoor/client/go"
)

// server is a fake API whose handler a test provides. It records the requests and the client's waits.
type server struct {
	client *stagedoor.Client

	mu    sync.Mutex
	seen  []seen
	slept []time.Duration
}

type seen struct {
	method, path, query, body string
	header                    http.Header
}

func serve(t *testing.T, o stagedoor.Options, handler func(w http.ResponseWriter, r *http.Request, n int)) *server {
	t.Helper()
	s := &server{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 0)
		if r.Body != nil {
			var raw json.RawMessage
			if json.NewDecoder(r.Body).Decode(&raw) == nil {
				body = raw
			}
		}
		s.mu.Lock()
		n := len(s.seen)
		s.seen = append(s.seen, seen{r.Method, r.URL.Path, r.URL.RawQuery, string(body), r.Header.Clone()})
		s.mu.Unlock()
		handler(w, r, n)
	}))
	t.Cleanup(web.Close)
	o.BaseURL, o.APIKey = web.URL, "ck_test_x"
	client, err := stagedoor.New(o)
	if err != nil {
		t.Fatal(err)
	}
	stagedoor.SkipWaits(client, func(d time.Duration) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.slept = append(s.slept, d)
	})
	s.client = client
	return s
}

func (s *server) requests() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.seen...)
}

func (s *server) waits() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.slept...)
}

func respondProblem(w http.ResponseWriter, status int, code string, more string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("X-Request-Id", "req_1")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"https://x/problems/%s","title":"T","status":%d,"code":%q,"detail":"D"%s}`, code, status, code, more)
}

func respond(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, body)
}
