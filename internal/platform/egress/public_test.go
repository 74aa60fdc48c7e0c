package egress_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// outside is the network that tests treat as public. The other loopback addresses of this machine are inside.
var outside = netip.MustParsePrefix("127.0.3.0/24")

// fakeInternet has a name server, a receiver outside, and a honeypot inside on the same port.
type fakeInternet struct {
	*authority
	names *nameserver
	port  int
	inner atomic.Int64 // connections to the inside
	outer atomic.Int64
	found atomic.Pointer[func(name string) []netip.Addr]
}

// newFakeInternet starts a receiver outside with a handler. change can replace its certificate.
func newFakeInternet(t testing.TB, handler http.HandlerFunc, change ...func(*tls.Config, *authority)) *fakeInternet {
	t.Helper()
	n := &fakeInternet{authority: newAuthority(t)}
	n.resolve(func(string) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.3.1")} })
	n.names = newNameserver(t, func(name string, _ bool) []netip.Addr { return (*n.found.Load())(name) })
	server := httptest.NewUnstartedServer(handler)
	must.OK(t, server.Listener.Close())
	var inside net.Listener
	server.Listener, inside = samePort(t)
	n.port = server.Listener.Addr().(*net.TCPAddr).Port
	t.Cleanup(func() { _ = inside.Close() })
	go func() {
		for {
			conn, err := inside.Accept()
			if err != nil {
				return
			}
			n.inner.Add(1)
			_ = conn.Close()
		}
	}()
	server.TLS = &tls.Config{Certificates: []tls.Certificate{n.issue(t, time.Hour, "receiver.test")}}
	for _, f := range change {
		f(server.TLS, n.authority)
	}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			n.outer.Add(1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return n
}

// samePort listens outside and inside on the same port. It retries if a port is free outside but in use inside.
func samePort(t testing.TB) (outer, inner net.Listener) {
	t.Helper()
	for try := 0; ; try++ {
		outer, err := net.Listen("tcp", "127.0.3.1:0")
		must.OK(t, err)
		inner, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(outer.Addr().(*net.TCPAddr).Port))
		if err == nil {
			return outer, inner
		}
		must.OK(t, outer.Close())
		if try == 20 {
			t.Fatal(err)
		}
	}
}

func (n *fakeInternet) client(t testing.TB) *egress.Public {
	t.Helper()
	p := egress.Near(egress.PublicConfig{Roots: n.roots, Resolver: n.names.resolver(), Now: clock.Now}, outside, n.port, time.Millisecond, time.Minute)
	t.Cleanup(p.Close)
	return p
}

// resolve sets what names resolve to.
func (n *fakeInternet) resolve(answer func(name string) []netip.Addr) { n.found.Store(&answer) }

func (n *fakeInternet) url() string { return fmt.Sprintf("https://receiver.test:%d/hook?a=b", n.port) }

// A receiver gets exactly what was sent, and the caller gets its response.
func TestGoodReceiversGetTheirWebhooks(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	n := newFakeInternet(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, "thanks")
	})
	p := n.client(t)
	must.OK(t, p.CheckURL(t.Context(), n.url()))
	for range 3 {
		answer, err := p.Post(t.Context(), n.url(), http.Header{"X-Webhook-Id": {"evt_1"}, "User-Agent": {"Stagedoor"}}, []byte(`{"a":1}`))
		must.OK(t, err)
		if answer.Status != http.StatusAccepted || string(answer.Body) != "thanks" || answer.Header.Get("Retry-After") != "7" {
			t.Errorf("%+v", answer)
		}
		if string(body) != `{"a":1}` || got.Method != http.MethodPost || got.RequestURI != "/hook?a=b" || got.Header.Get("X-Webhook-Id") != "evt_1" || len(got.Header) != 3 || got.ProtoMajor != 1 {
			t.Errorf("%s %s %v", got.Method, body, got.Header)
		}
	}
	if n.outer.Load() != 1 || n.inner.Load() != 0 {
		t.Errorf("%d connections outside, %d inside", n.outer.Load(), n.inner.Load())
	}
}

// A name whose address changes from public to inner between the check and the call, or that has both kinds of addresses,
// reaches nothing inside (DNS rebinding).
func TestRebindingReachesNothing(t *testing.T) {
	t.Parallel()
	public, inner := netip.MustParseAddr("127.0.3.1"), netip.MustParseAddr("127.0.0.1")
	t.Run("in turns", func(t *testing.T) {
		t.Parallel()
		n := newFakeInternet(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") })
		var asked atomic.Int64
		n.resolve(func(string) []netip.Addr {
			// Each lookup asks for A and AAAA, in any order. A turn of three answers gives a round of four all results.
			if asked.Add(1)%3 > 0 {
				return []netip.Addr{public}
			}
			return []netip.Addr{inner}
		})
		p := n.client(t)
		outcomes := map[string]int{}
		for range 40 {
			checked := p.CheckURL(t.Context(), n.url()) == nil
			_, err := p.Post(t.Context(), n.url(), nil, nil)
			outcomes[fmt.Sprintf("%v %v", checked, err)]++
			if err != nil && !errors.Is(err, egress.FailBlocked) {
				t.Error(err)
			}
		}
		if n.inner.Load() != 0 || len(outcomes) < 2 {
			t.Errorf("%d connections inside; %v", n.inner.Load(), outcomes)
		}
	})
	t.Run("saved, then turned", func(t *testing.T) {
		t.Parallel()
		n := newFakeInternet(t, func(http.ResponseWriter, *http.Request) {})
		var turned atomic.Bool
		n.resolve(func(string) []netip.Addr {
			if turned.Load() {
				return []netip.Addr{inner}
			}
			return []netip.Addr{public}
		})
		p := n.client(t)
		must.OK(t, p.CheckURL(t.Context(), n.url()))
		turned.Store(true)
		for range 10 {
			if _, err := p.Post(t.Context(), n.url(), nil, nil); !errors.Is(err, egress.FailBlocked) {
				t.Error(err)
			}
		}
		if n.inner.Load() != 0 || n.outer.Load() != 0 {
			t.Errorf("%d connections inside, %d outside", n.inner.Load(), n.outer.Load())
		}
	})
	t.Run("mixed", func(t *testing.T) {
		t.Parallel()
		n := newFakeInternet(t, func(http.ResponseWriter, *http.Request) {})
		dead := netip.MustParseAddr("127.0.3.9") // public, but nothing listens there
		for _, mix := range [][]netip.Addr{{dead, inner}, {inner, dead}, {inner, public}, {public, inner}} {
			n.resolve(func(string) []netip.Addr { return mix })
			p := n.client(t)
			if err := p.CheckURL(t.Context(), n.url()); !errors.Is(err, problem.UnsafeURL.New("")) {
				t.Errorf("%v may be saved: %v", mix, err)
			}
			_, _ = p.Post(t.Context(), n.url(), nil, nil)
		}
		if n.inner.Load() != 0 {
			t.Errorf("%d connections inside", n.inner.Load())
		}
	})
}

// A redirect is a response like any other. It is not followed, neither inside nor outside.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		var hits atomic.Int64
		var target string
		n := newFakeInternet(t, func(w http.ResponseWriter, r *http.Request) {
			hits.Add(1)
			w.Header().Set("Location", target)
			w.WriteHeader(status)
		})
		for _, target = range []string{fmt.Sprintf("http://127.0.0.1:%d/", n.port), fmt.Sprintf("https://127.0.0.1:%d/", n.port), n.url(), "/other"} {
			answer, err := n.client(t).Post(t.Context(), n.url(), nil, []byte("x"))
			if err != nil || answer.Status != status {
				t.Errorf("%d to %s: %+v, %v", status, target, answer, err)
			}
		}
		if n.inner.Load() != 0 || hits.Load() != 4 {
			t.Errorf("%d: %d connections inside, %d calls outside", status, n.inner.Load(), hits.Load())
		}
	}
}

// A receiver that is slow, endless or broken, or has an invalid certificate, costs bounded time and gives its own
// Failure.
func TestBadReceiversAreCut(t *testing.T) {
	t.Parallel()
	flush := func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, text)
				_, _ = conn.Read(make([]byte, 1))
				_ = conn.Close()
			}
		}
	}
	fine := func(http.ResponseWriter, *http.Request) {}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		change  func(*tls.Config, *authority)
		want    egress.Failure
		bytes   int
		reason  string
	}{
		"hangs":         {handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, want: egress.FailTimeout, reason: "timed out after 1 s"},
		"drips headers": {handler: slowloris, want: egress.FailTimeout},
		"drips a body": {handler: func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < 100 && r.Context().Err() == nil; i++ {
				fmt.Fprint(w, "x")
				flush(w)
			}
			<-r.Context().Done()
		}, bytes: 100},
		"sends without end": {handler: func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		}, bytes: 16 << 10},
		"sends a huge header":  {handler: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 80<<10)) }, want: egress.FailResponse},
		"sends a large header": {handler: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 60<<10)) }},
		"is not HTTP":          {handler: raw("SSH-2.0-OpenSSH\r\n\r\n"), want: egress.FailResponse, reason: "the response is not HTTP"},
		"hangs up":             {handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: egress.FailBroken, reason: "the connection was closed before there was a response"},
		"has expired": {handler: fine, change: func(c *tls.Config, a *authority) {
			c.Certificates = []tls.Certificate{a.issue(t, -time.Minute, "receiver.test")}
		}, want: egress.FailTLS, reason: "the certificate has expired"},
		"has another name": {handler: fine, change: func(c *tls.Config, a *authority) {
			c.Certificates = []tls.Certificate{a.issue(t, time.Hour, "other.test")}
		}, want: egress.FailTLS, reason: "the certificate is for another host"},
		"signs itself": {handler: fine, change: func(c *tls.Config, _ *authority) {
			c.Certificates = []tls.Certificate{newAuthority(t).issue(t, time.Hour, "receiver.test")}
		}, want: egress.FailTLS, reason: "the certificate was not signed by a known authority, or an intermediate certificate is missing"},
		"speaks TLS 1.1": {handler: fine, change: func(c *tls.Config, _ *authority) {
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
		}, want: egress.FailTLS, reason: "the TLS handshake failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := c.change
			if change == nil {
				change = func(*tls.Config, *authority) {}
			}
			n := newFakeInternet(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that we hang up
				c.handler(w, r)
			}, change)
			total := time.Minute
			if c.want == egress.FailTimeout || name == "drips a body" {
				total = time.Second
			}
			p := egress.Near(egress.PublicConfig{Roots: n.roots, Resolver: n.names.resolver(), Now: clock.Now}, outside, n.port, time.Millisecond, total)
			answer, err := p.Post(t.Context(), n.url(), nil, []byte("x"))
			if c.want == "" && (err != nil || answer.Status != http.StatusOK || len(answer.Body) != c.bytes) || c.want != "" && !errors.Is(err, c.want) {
				t.Errorf("%d, %d bytes, %v", answer.Status, len(answer.Body), err)
			}
			if (answer.Reason != "") != (err != nil) || c.reason != "" && answer.Reason != c.reason {
				t.Errorf("the reason is %q, want %q", answer.Reason, c.reason)
			}
			if err != nil && (strings.Contains(err.Error(), "127.0") || strings.Contains(err.Error(), "test")) {
				t.Errorf("the error leaks an address: %v", err)
			}
		})
	}
}

func slowloris(w http.ResponseWriter, r *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
	for i := 0; err == nil; i++ {
		<-time.After(20 * time.Millisecond) // slow on purpose
		_, err = fmt.Fprintf(conn, "X-%d: x\r\n", i)
	}
}

// A refused connection is reported as such. An unknown name and a name that resolves inside look the same and take the
// same time.
func TestUnreachableReceiversTellNothing(t *testing.T) {
	t.Parallel()
	n := newFakeInternet(t, func(http.ResponseWriter, *http.Request) {})
	n.resolve(func(name string) []netip.Addr {
		switch name {
		case "nobody.test":
			return []netip.Addr{netip.MustParseAddr("127.0.3.9")}
		case "inside.test":
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
		case "empty.test":
			return []netip.Addr{}
		}
		return nil
	})
	const floor = 250 * time.Millisecond
	p := egress.Near(egress.PublicConfig{Roots: n.roots, Resolver: n.names.resolver(), Now: clock.Now}, outside, n.port, floor, time.Minute)
	reasons := map[egress.Failure]string{
		egress.FailConnect: "connection refused", egress.FailBlocked: "the host does not resolve to a public address",
	}
	for host, want := range map[string]egress.Failure{
		"nobody.test": egress.FailConnect, "inside.test": egress.FailBlocked, "unknown.test": egress.FailBlocked, "empty.test": egress.FailBlocked,
	} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			address := fmt.Sprintf("https://%s:%d/", host, n.port)
			started := time.Now()
			if answer, err := p.Post(t.Context(), address, nil, nil); !errors.Is(err, want) || answer.Reason != reasons[want] {
				t.Errorf("%v (%s), want %v", err, answer.Reason, want)
			}
			if took := time.Since(started); want == egress.FailBlocked && took < floor {
				t.Errorf("it took %s", took)
			}
			started = time.Now()
			err := p.CheckURL(t.Context(), address)
			if host == "nobody.test" {
				must.OK(t, err)
				return
			}
			unsafe, ok := errors.AsType[*problem.Error](err)
			if !ok || unsafe.Kind.Code != "unsafe-url" || unsafe.Detail != "The host does not resolve to a public address." || unsafe.Fields[0].Code != "address" || unsafe.Fields[0].Pointer != "/url" {
				t.Errorf("%+v", err)
			}
			if took := time.Since(started); took < floor {
				t.Errorf("it took %s", took)
			}
		})
	}
	t.Cleanup(func() {
		for _, name := range n.names.questions() {
			if !strings.HasSuffix(name, ".test") {
				t.Errorf("%s was looked up: a search domain was tried", name)
			}
		}
	})
}

// A caller that goes away does not count as a failure of the receiver.
func TestACallersEndIsNotAFailure(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1)
	n := newFakeInternet(t, func(_ http.ResponseWriter, r *http.Request) { arrived <- struct{}{}; <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := n.client(t).Post(ctx, n.url(), nil, nil)
	if _, failed := errors.AsType[egress.Failure](err); failed || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := n.client(t).CheckURL(ctx, "https://inside.test/"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Only in development may a receiver be on this machine, with http and on any port.
func TestLoopbackIsForDevelopment(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	must.OK(t, err)
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no DNS") }}
	dev := egress.NewPublic(egress.PublicConfig{Loopback: true, Now: clock.Now, Resolver: resolver})
	live := egress.NewPublic(egress.PublicConfig{Now: clock.Now, Resolver: resolver})
	for _, address := range []string{server.URL, "http://localhost:" + u.Port() + "/hook"} {
		must.OK(t, dev.CheckURL(t.Context(), address))
		if answer, err := dev.Post(t.Context(), address, nil, nil); err != nil || string(answer.Body) != "hello" {
			t.Errorf("%s: %+v, %v", address, answer, err)
		}
		if err := live.CheckURL(t.Context(), address); !errors.Is(err, problem.UnsafeURL.New("")) {
			t.Errorf("%s: %v", address, err)
		}
		if _, err := live.Post(t.Context(), address, nil, nil); !errors.Is(err, egress.FailBlocked) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{"http://192.168.0.1/", "http://example.com/", "https://example.com:8443/", "http://[fe80::1%25lo]/", "http://0.0.0.0/", "http://user@localhost/", "ftp://localhost/"} {
		if err := dev.CheckURL(t.Context(), address); !errors.Is(err, problem.UnsafeURL.New("")) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A response that arrives at the moment of the timeout counts as a timeout.
func TestAnswerAtTheTimeoutDoesNotCount(t *testing.T) {
	t.Parallel()
	p := egress.Near(egress.PublicConfig{Now: clock.Now}, outside, 443, time.Millisecond, time.Millisecond)
	// If both a response and the timeout are there, the transport prefers the response. Here both always are.
	p.Instead(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	})
	if answer, err := p.Post(t.Context(), "https://receiver.test/", nil, []byte("x")); !errors.Is(err, egress.FailTimeout) {
		t.Errorf("%d, %v", answer.Status, err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if answer, err := p.Post(gone, "https://receiver.test/", nil, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", answer.Status, err)
	}
}
