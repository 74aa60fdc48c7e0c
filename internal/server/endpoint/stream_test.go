package endpoint_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/stamp/stamptest"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// fakeReader is the response writer of a stream. Writes fail while broken is set.
type fakeReader struct {
	header http.Header
	mu     sync.Mutex
	text   strings.Builder
	broken bool
}

func (p *fakeReader) Header() http.Header { return p.header }

func (p *fakeReader) WriteHeader(int) {}

func (p *fakeReader) FlushError() error { return nil }

func (p *fakeReader) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken {
		return 0, errors.New("broken connection")
	}
	return p.text.Write(b)
}

func (p *fakeReader) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// streaming opens a stream in a synctest bubble; handle is its handler.
func withStream(t *testing.T, test func(f *fixture, p *fakeReader, leave context.CancelFunc, ended <-chan struct{}), handle func(*endpoint.Events)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		endpoint.Plain(f.Table, endpoint.Operation{
			ID: "events", Method: http.MethodGet, Path: "/events", Tag: "T", Summary: "S", Status: http.StatusOK, Quota: admission.Plain,
			Media: []string{"text/event-stream"}, Streams: true,
		}, func(w http.ResponseWriter, r *http.Request) error {
			s, err := endpoint.Stream(w, r)
			if err != nil {
				return err
			}
			defer s.Close()
			handle(s)
			return nil
		})
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil)
		r.Header.Set("Authorization", "Bearer x")
		p, ended := &fakeReader{header: http.Header{}}, make(chan struct{})
		go func() {
			defer close(ended)
			f.ServeHTTP(p, r)
		}()
		synctest.Wait()
		test(f, p, leave, ended)
		leave()
		<-ended
	})
}

func waitDone(s *endpoint.Events) { <-s.Done() }

// A stream sends the reconnect delay, events in their format and a heartbeat every 15 seconds, and ends when its caller
// disconnects.
func TestStreamsSendEventsAndHeartbeats(t *testing.T) {
	t.Parallel()
	withStream(t, func(f *fixture, p *fakeReader, leave context.CancelFunc, ended <-chan struct{}) {
		want := "retry: 3000\n\nid: 0007\nevent: attempt\ndata: {\"state\":\"a\\nb\"}\n\nevent: ready\ndata: null\n\n: hello  there\n\n"
		if p.String() != want || p.header.Get("Content-Type") != "text/event-stream" || p.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%q %v", p, p.header)
		}
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if n := strings.Count(p.String(), "event: heartbeat\ndata: {\"ts\":\"20"); n != 2 || stamptest.Loose([]byte(p.String())) != nil {
			t.Errorf("%d heartbeats in %q", n, p)
		}
		if asked := f.admission.calls(); len(asked) != 3 || asked[0].Quota != admission.Plain || asked[1].Quota != admission.Free || !asked[2].Started.After(asked[1].Started) {
			t.Errorf("%+v", asked)
		}
		leave()
		<-ended
	}, func(s *endpoint.Events) {
		if err := errors.Join(s.Event("attempt", "0007", map[string]string{"state": "a\nb"}), s.Event("ready", "", nil), s.Comment("hello\r\nthere")); err != nil {
			t.Error(err)
		}
		if s.Event("a\nb", "", nil) == nil || s.Event("a", "1\n2", nil) == nil || s.Event("a", "", func() {}) == nil {
			t.Error("an invalid event was sent")
		}
		waitDone(s)
	})
}

// A stream whose key is revoked ends within 15 seconds with a problem that says why.
func TestStreamsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	withStream(t, func(f *fixture, p *fakeReader, _ context.CancelFunc, ended <-chan struct{}) {
		var revoked error = problem.KeyRevoked.New("This key was revoked.")
		f.customer.revoked.Store(&revoked)
		time.Sleep(16 * time.Second)
		<-ended
		if !strings.Contains(p.String(), "event: problem\ndata: {\"type\":\"https://x.test/problems/key-revoked\"") {
			t.Errorf("%q", p)
		}
	}, waitDone)
}

// A stream goes on while the state of its key cannot be checked.
func TestStreamsSurviveFailedChecks(t *testing.T) {
	t.Parallel()
	withStream(t, func(f *fixture, p *fakeReader, _ context.CancelFunc, _ <-chan struct{}) {
		trouble := error(problem.ServiceUnavailable.New("away"))
		f.customer.revoked.Store(&trouble)
		time.Sleep(16 * time.Second)
		synctest.Wait()
		if strings.Contains(p.String(), "problem") || !strings.Contains(p.String(), "heartbeat") {
			t.Errorf("%q", p)
		}
	}, waitDone)
}

// A node that is about to stop ends its streams with a short reconnect delay, and opens no new ones.
func TestStreamsEndWhenTheNodeStops(t *testing.T) {
	t.Parallel()
	withStream(t, func(f *fixture, p *fakeReader, _ context.CancelFunc, ended <-chan struct{}) {
		f.draining.Store(true)
		time.Sleep(2 * time.Second)
		<-ended
		if !strings.Contains(p.String(), "retry: 100\nevent: problem\ndata: {\"type\":\"https://x.test/problems/server-draining\"") {
			t.Errorf("%q", p)
		}
		if w := f.do(t, http.MethodGet, "/events", nil); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "server-draining") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}, waitDone)
}

// A failed write ends the stream. Its handler notices, and nothing is sent afterwards.
func TestStreamsEndWithTheirReader(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	withStream(t, func(_ *fixture, p *fakeReader, _ context.CancelFunc, ended <-chan struct{}) {
		p.mu.Lock()
		p.broken = true
		p.mu.Unlock()
		time.Sleep(16 * time.Second)
		<-ended
	}, func(s *endpoint.Events) {
		waitDone(s)
		if err := s.Event("late", "", nil); !errors.Is(err, endpoint.ErrStreamEnded) {
			t.Errorf("%v", err)
		}
		close(next)
	})
	<-next
}

// A handler can end a stream with a problem.
func TestStreamsEndWithAProblem(t *testing.T) {
	t.Parallel()
	withStream(t, func(_ *fixture, p *fakeReader, _ context.CancelFunc, ended <-chan struct{}) {
		<-ended
		if !strings.HasSuffix(p.String(), "}\n\n") || !strings.Contains(p.String(), `"code":"attempt-not-found"`) {
			t.Errorf("%q", p)
		}
	}, func(s *endpoint.Events) { s.Fail(problem.AttemptNotFound.New("gone")) })
}

// A HEAD request for a stream is answered immediately, and the deadlines of the server do not end a stream.
func TestStreamsOnARealConnection(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	serverLimit := 500 * time.Millisecond
	endpoint.Plain(f.Table, endpoint.Operation{
		ID: "events", Method: http.MethodGet, Path: "/events", Tag: "T", Summary: "S", Status: http.StatusOK, Streams: true,
	}, func(w http.ResponseWriter, r *http.Request) error {
		s, err := endpoint.Stream(w, r)
		if err != nil {
			return err
		}
		defer s.Close()
		select {
		case <-s.Done():
			return nil
		case <-time.After(4 * serverLimit):
		}
		return s.Event("late", "", 1)
	})
	server := httptest.NewUnstartedServer(f.Table)
	server.Config.ReadTimeout, server.Config.WriteTimeout = serverLimit, serverLimit
	server.Start()
	defer server.Close()
	for method, want := range map[string]string{http.MethodHead: "", http.MethodGet: "event: late"} {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/events", nil)
		must.OK(t, err)
		req.Header.Set("Authorization", "Bearer x")
		res, err := server.Client().Do(req)
		must.OK(t, err)
		var text strings.Builder
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK || !strings.Contains(text.String(), want) {
			t.Errorf("%s: %d %q", method, res.StatusCode, text.String())
		}
	}
}

// Recheck makes a stream notice immediately that its key was revoked; streams of other orgs are not affected.
func TestStreamsAreRechecked(t *testing.T) {
	t.Parallel()
	withStream(t, func(f *fixture, p *fakeReader, _ context.CancelFunc, ended <-chan struct{}) {
		f.Recheck(f.customer.principal.Org.ID)
		synctest.Wait()
		if strings.Contains(p.String(), "problem") || len(f.admission.calls()) != 2 {
			t.Errorf("%q after %d", p, len(f.admission.calls()))
		}
		var revoked error = problem.KeyRevoked.New("This key was revoked.")
		f.customer.revoked.Store(&revoked)
		f.Recheck("org_another")
		synctest.Wait()
		if strings.Contains(p.String(), "problem") {
			t.Errorf("%q", p)
		}
		start := time.Now()
		f.Recheck(f.customer.principal.Org.ID)
		<-ended
		if !strings.Contains(p.String(), `"code":"key-revoked"`) || time.Since(start) > 0 {
			t.Errorf("%q after %v", p, time.Since(start))
		}
	}, waitDone)
}

// A stream with a limited life ends without a problem and asks its client to reconnect immediately.
func TestStreamsEndAfterTheirLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, nil)
		endpoint.Plain(f.Table, endpoint.Operation{
			ID: "events", Method: http.MethodGet, Path: "/events", Tag: "T", Summary: "S", Status: http.StatusOK, Streams: true,
		}, func(w http.ResponseWriter, r *http.Request) error {
			s, err := endpoint.OpenStream(w, r, endpoint.Opening{Retry: 2500 * time.Millisecond, Life: time.Minute})
			if err != nil {
				return err
			}
			defer s.Close()
			<-s.Done()
			return nil
		})
		start := time.Now()
		w := f.do(t, http.MethodGet, "/events", nil)
		text := w.Body.String()
		if !strings.HasPrefix(text, "retry: 2500\n\n") || !strings.HasSuffix(text, "retry: 100\n\n") || strings.Contains(text, "problem") {
			t.Errorf("%q", text)
		}
		if took := time.Since(start); took < time.Minute || took > 80*time.Second {
			t.Error(took)
		}
	})
}

// Events that are sent together arrive in order and unchanged. An invalid event does not end the stream.
func TestStreamsSendBatches(t *testing.T) {
	t.Parallel()
	withStream(t, func(_ *fixture, p *fakeReader, leave context.CancelFunc, _ <-chan struct{}) {
		got := parseStream([]byte(p.String()))
		if len(got) != 201 {
			t.Fatalf("%d events", len(got))
		}
		for i, one := range got[:200] {
			if one != (parsed{fmt.Sprint(i), "message", strings.Repeat("x", i*10)}) {
				t.Fatalf("%+v", one)
			}
		}
		leave()
	}, func(s *endpoint.Events) {
		var list []endpoint.Message
		for i := range 200 {
			list = append(list, endpoint.Message{Name: "message", ID: fmt.Sprint(i), Data: []byte(strings.Repeat("x", i*10))})
		}
		if err := errors.Join(s.Send(list), s.Send(nil)); err != nil {
			t.Error(err)
		}
		if s.Send([]endpoint.Message{{Name: "a\nb"}}) == nil {
			t.Error("an invalid event was sent")
		}
		_ = s.Event("end", "", 1)
		waitDone(s)
	})
}

// A reader that does not accept an event in time is disconnected, and the log says slow-consumer.
func TestSlowReadersAreDisconnected(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	logged := make(chan string, 1)
	endpoint.Plain(f.Table, endpoint.Operation{
		ID: "events", Method: http.MethodGet, Path: "/events", Tag: "T", Summary: "S", Status: http.StatusOK, Streams: true,
	}, func(w http.ResponseWriter, r *http.Request) error {
		s, err := endpoint.Stream(stalled{w}, r)
		if err != nil {
			return err
		}
		defer s.Close()
		err = s.Event("late", "", 1)
		logged <- fmt.Sprintf("%t %s", errors.Is(err, os.ErrDeadlineExceeded), s.Reason())
		return nil
	})
	f.do(t, http.MethodGet, "/events", nil)
	if got := <-logged; got != "true slow-consumer" {
		t.Error(got)
	}
}

// stalled accepts the first write and times out afterwards.
type stalled struct{ http.ResponseWriter }

func (s stalled) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte("retry:")) {
		return len(b), nil
	}
	return 0, fmt.Errorf("write: %w", os.ErrDeadlineExceeded)
}

func (stalled) FlushError() error { return nil }

// A token in the query authenticates only where an operation accepts it and only without a key, with its own scopes.
func TestTicketsReplaceAKeyWhereAccepted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	var asked []string
	add := func(path string, ticket func(*http.Request, string) (endpoint.Identity, error)) {
		endpoint.Plain(f.Table, endpoint.Operation{
			ID: path[1:], Method: http.MethodGet, Path: path, Tag: "T", Summary: "S", Status: http.StatusOK, Scope: scope.AccountsRead, Ticket: ticket,
		}, func(http.ResponseWriter, *http.Request) error { return nil })
	}
	add("/with", func(_ *http.Request, token string) (endpoint.Identity, error) {
		asked = append(asked, token)
		who := endpoint.Identity{Principal: f.customer.principal, Scopes: scope.Of(scope.AccountsRead)}
		if token == "narrow" {
			who.Scopes = scope.Of(scope.MeRead)
		}
		if token == "bad" {
			return endpoint.Identity{}, problem.KeyInvalid.New("no")
		}
		return who, nil
	})
	add("/without", nil)
	get := func(target string, header http.Header) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
		r.Header = header
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		return w.Code
	}
	for target, want := range map[string]int{"/with?token=good": 200, "/with?token=bad": 401, "/with?token=narrow": 403, "/with": 401, "/with?token=": 401, "/without?token=good": 401} {
		if got := get(target, http.Header{}); got != want {
			t.Errorf("%s: %d", target, got)
		}
	}
	before := len(asked)
	if got := get("/with?token=bad", http.Header{"Authorization": {"Bearer x"}}); got != 200 || len(asked) != before {
		t.Errorf("%d, asked for %v", got, asked)
	}
}

// Held requests have their own limit, and a node that is about to stop holds none.
func TestHeldRequestsAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(d *endpoint.Deps) { d.Config.MaxStreams = 1 })
	held, free := make(chan struct{}), make(chan struct{})
	endpoint.Plain(f.Table, endpoint.Operation{
		ID: "held", Method: http.MethodGet, Path: "/held", Tag: "T", Summary: "S", Status: http.StatusOK,
	}, func(w http.ResponseWriter, r *http.Request) error {
		done, err := endpoint.Hold(w, r, time.Second)
		if err != nil {
			return err
		}
		defer done()
		close(held)
		<-free
		return nil
	})
	first := make(chan int)
	go func() { first <- f.do(t, http.MethodGet, "/held", nil).Code }()
	<-held
	if w := f.do(t, http.MethodGet, "/held", nil); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d beyond the limit", w.Code)
	}
	close(free)
	if got := <-first; got != http.StatusOK {
		t.Error(got)
	}
	f.draining.Store(true)
	if w := f.do(t, http.MethodGet, "/held", nil); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "server-draining") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
