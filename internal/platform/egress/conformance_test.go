package egress_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// modeVariable selects how this run of the tests sends bodies in memory: "owned" means through Call, otherwise
// through Do.
const modeVariable = "EGRESS_WAY"

func usesCall() bool { return os.Getenv(modeVariable) == "owned" }

// connections returns how many connections a number of calls need: Call reuses them, Do uses one for each call.
func connections(calls, connSet int64) int64 {
	if usesCall() {
		return connSet
	}
	return calls
}

// call sends an http.Request through Call.
func call(c *egress.Client, req *http.Request, limits egress.Limits) (egress.Reply, error) {
	q := egress.Request{Method: req.Method, Origin: req.URL.Scheme + "://" + req.URL.Host, Path: req.URL.EscapedPath(), Query: req.URL.RawQuery}
	if q.Path == "" {
		q.Path = "/"
	}
	for name, values := range req.Header {
		for _, value := range values {
			q.Header = append(q.Header, egress.Field{Name: name, Value: value})
		}
	}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return egress.Reply{}, err
		}
		q.Body = body
	}
	return c.Call(req.Context(), &q, limits)
}

// Call gives the same guarantees as Do: the tests of Do run again in a child process that uses Call.
func TestCallKeepsEveryPromiseOfDo(t *testing.T) {
	t.Parallel()
	if usesCall() {
		return
	}
	// These tests do not depend on the mode, or test both modes themselves.
	const rest = "ProxyVariables|TheEnvironment|HealthHas|TheStandardTransport|GoodReceivers|Rebinding|Redirects|BadReceivers|UnreachableReceivers|" +
		"ACallersEnd|Loopback|UnsafeURLs|InnerAddresses|OperatorsNetworks|RegionsAre|WrongRegions|OriginsAre|IdleConnectionsHave|WebSockets|" +
		"ACallArrives|EveryForm|Unasked|PlatformThat|Doubtful|AClosedConnection|AnEndThat|OnlyReads|AnAnswerMay|ACallEnds|CallOfACaller|NothingCanBe|ConcurrentCalls|AKeepAlive"
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.skip=^Test("+rest+")", "-test.count=1", "-test.v")
	again.Env = append(os.Environ(), modeVariable+"=owned")
	out, err := again.CombinedOutput()
	if ran := strings.Count(string(out), "\n--- PASS: Test"); err != nil || ran < 20 {
		t.Errorf("%d tests: %v\n%s", ran, err, out)
	}
}

// callFunc is Call, or the same over the standard transport.
type callFunc func(*egress.Client, context.Context, *egress.Request, egress.Limits) (egress.Reply, error)

// overBoth runs a test with Call and with the standard transport.
func overBoth(t *testing.T, test func(t *testing.T, do callFunc)) {
	t.Helper()
	for name, do := range map[string]callFunc{"owned": (*egress.Client).Call, "transport": (*egress.Client).CallStreaming} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, do)
		})
	}
}

// want makes a call and checks the response.
func (do callFunc) want(t *testing.T, c *egress.Client, q egress.Request, status int, body string) egress.Reply {
	t.Helper()
	r, err := do(c, t.Context(), &q, egress.Limits{})
	if err != nil || r.Status != status || string(r.Body) != body {
		t.Errorf("%s %s: %d %q, %v; want %d %q", q.Method, q.Path, r.Status, r.Body, err, status, body)
	}
	return r
}

// The platform gets exactly the request of the caller, through every kind of proxy, with TLS and without.
func TestACallArrivesAsItWasMade(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, do callFunc) {
		t.Helper()
		for _, start := range []func(testing.TB, http.HandlerFunc) *platform{newPlatform, newPlainPlatform} {
			p := start(t, func(w http.ResponseWriter, r *http.Request) {
				text, _ := io.ReadAll(r.Body)
				host, _, _ := net.SplitHostPort(r.RemoteAddr)
				w.Header().Add("Set-Cookie", "a=1; Path=/")
				w.Header().Add("Set-Cookie", "b=2")
				w.Header().Set("X-Odd", "  spaced\t")
				w.WriteHeader(http.StatusCreated)
				names := slices.Sorted(maps.Keys(r.Header))
				fmt.Fprintf(w, "%s %s %s %s %s %d %v %s", host, r.Method, r.Host, r.RequestURI, text, r.ContentLength, names, r.Header.Get("Cookie"))
			})
			for _, scheme := range []string{"http", "https", "socks5"} {
				w := newFixture(t, p, "us="+newTestProxy(t, scheme, "127.0.1.1", p).url())
				q := egress.Request{
					Method: http.MethodPut, Origin: p.origin, Path: "/a%2Fb/", Query: "x=%20&y", Body: []byte(`{"z":1}`),
					Header: []egress.Field{{Name: "X-Bc", Value: "1"}, {Name: "User-Agent", Value: "browser"}, {Name: "Content-Type", Value: "application/json"}},
					Cookies: []egress.Field{
						{Name: "sess", Value: "s"}, {Name: "auth_id", Value: `"q"`},
					},
				}
				host := strings.TrimPrefix(strings.TrimPrefix(p.origin, "https://"), "http://")
				r := do.want(t, w.client(t, "us", "acct_1"), q, http.StatusCreated,
					"127.0.1.1 PUT "+host+` /a%2Fb/?x=%20&y {"z":1} 7 [Accept-Encoding Content-Length Content-Type Cookie User-Agent X-Bc] sess=s; auth_id="q"`)
				h := r.Header()
				if !r.SetsCookies() || !slices.Equal(h["Set-Cookie"], []string{"a=1; Path=/", "b=2"}) || h.Get("X-Odd") != "spaced" {
					t.Errorf("%v", h)
				}
				r.Release()
				if h.Get("X-Odd") != "spaced" {
					t.Errorf("released: %v", h)
				}
			}
		}
	})
}

// hangsUp starts a proxy that signals when it has closed our side of a tunnel.
func hangsUp(t *testing.T, p *platform, closed chan<- struct{}) string {
	t.Helper()
	return "http://" + listen(t, func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		far, err := net.Dial("tcp", p.address)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = copyAll(far, c) }()
		_, _ = copyAll(c, far)
		closed <- struct{}{}
	})
}

// Before sending, Call notices that the platform has closed an idle connection. A write uses another one and arrives
// once.
func TestAClosedConnectionIsNoticedBeforeAWrite(t *testing.T) {
	t.Parallel()
	for _, start := range []func(testing.TB, http.HandlerFunc) *platform{newPlatform, newPlainPlatform} {
		p := start(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
		closed := make(chan struct{}, 10)
		w := newFixture(t, p, "us="+hangsUp(t, p, closed))
		client := w.client(t, "us", "acct_1")
		for range 4 {
			r := callFunc((*egress.Client).Call).want(t, client, egress.Request{Method: http.MethodPost, Origin: p.origin, Path: "/"}, 200, "ok")
			r.Release()
			p.server.CloseClientConnections()
			<-closed
		}
		if p.hits.Load() != 4 {
			t.Errorf("%d calls", p.hits.Load())
		}
	}
}

// Call also notices an end of TLS that arrived together with the last response.
func TestAnEndThatCameWithTheAnswerIsNoticed(t *testing.T) {
	t.Parallel()
	p := &platform{authority: newAuthority(t), origin: "https://platform.test"}
	config := &tls.Config{Certificates: []tls.Certificate{p.issue(t, time.Hour, "platform.test")}}
	var served atomic.Int64
	p.address = listen(t, func(raw net.Conn) {
		held := &holdingConn{Conn: raw}
		conn := tls.Server(held, config)
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		served.Add(1)
		held.hold = true
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		_ = conn.CloseWrite()
		_ = raw.SetWriteDeadline(time.Time{}) // undo the deadline that CloseWrite sets
		_, _ = raw.Write(held.text)
		_, _ = raw.Read(make([]byte, 1)) // the socket stays open: only TLS has ended
	})
	w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
	for range 3 {
		r := callFunc((*egress.Client).Call).want(t, w.client(t, "us", "acct_1"), egress.Request{Method: http.MethodPost, Origin: p.origin, Path: "/"}, 200, "ok")
		r.Release()
	}
	if served.Load() != 3 {
		t.Errorf("%d calls", served.Load())
	}
}

// holdingConn can hold back what is written, so that it is sent in one piece.
type holdingConn struct {
	net.Conn
	hold bool
	text []byte
}

func (h *holdingConn) Write(p []byte) (int, error) {
	if !h.hold {
		return h.Conn.Write(p)
	}
	h.text = append(h.text, p...)
	return len(p), nil
}

// A write that may have arrived is not resent. A read is, if a reused connection gave no byte of a response.
func TestOnlyReadsAreSentAgain(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, do callFunc) {
		t.Helper()
		for method, c := range map[string]struct {
			header []egress.Field
			times  int64 // how often it arrives, on a reused connection
		}{
			http.MethodGet:    {nil, 2},
			http.MethodPost:   {nil, 1},
			http.MethodDelete: {nil, 1},
			http.MethodPatch:  {[]egress.Field{{Name: "Idempotency-Key", Value: "k"}}, 2},
		} {
			if strings.HasSuffix(t.Name(), "transport") {
				c.times = 1 // it keeps no connection
			}
			var seen atomic.Int64
			p := newRawPlatform(t, func(conn net.Conn) {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, req.Body)
					if req.URL.Path == "/second" && seen.Add(1) == 1 {
						return // it arrived, but there is no response
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				}
			})
			w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
			client := w.client(t, "us", "acct_1")
			r := do.want(t, client, egress.Request{Method: http.MethodGet, Origin: p.origin, Path: "/first"}, 200, "ok")
			r.Release()
			q := egress.Request{Method: method, Origin: p.origin, Path: "/second", Header: c.header}
			if method != http.MethodGet {
				q.Body = []byte("x")
			}
			r, err := do(client, t.Context(), &q, egress.Limits{})
			r.Release()
			if failed := errors.Is(err, egress.ErrBroken) && !errors.Is(err, egress.ErrNotSent); failed != (c.times == 1) || !failed && err != nil {
				t.Errorf("%s: %v", method, err)
			}
			if seen.Load() != c.times {
				t.Errorf("%s arrived %d times", method, seen.Load())
			}
		}
	})
}

// If a platform responds and hangs up before it has read the whole body, its response counts.
func TestAnAnswerMayComeBeforeTheRequestsEnd(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, do callFunc) {
		t.Helper()
		for _, size := range []int{1 << 10, 60 << 10, 900 << 10} {
			p := newRawPlatform(t, func(conn net.Conn) {
				in := bufio.NewReader(conn)
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\nenuf")
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = io.Copy(io.Discard, req.Body) // so that a reset does not overtake the response
				_ = conn.Close()
			})
			f := newTestProxy(t, "http", "127.0.1.1", p)
			w := newFixture(t, p, "us="+f.url())
			r := do.want(t, w.client(t, "us", "acct_1"), egress.Request{Method: http.MethodPost, Origin: p.origin, Path: "/", Body: make([]byte, size)}, 413, "enuf")
			r.Release()
		}
	})
}

// If the caller goes away, the call and its connection end immediately, in any phase.
func TestACallEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	gone := errors.New("the caller hung up")
	overBoth(t, func(t *testing.T, do callFunc) {
		t.Helper()
		for path, where := range map[string]string{"/silent": "before the header", "/half": "in the body"} {
			reached, ended := make(chan struct{}), make(chan struct{})
			p := newPlainPlatform(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/" {
					fmt.Fprint(w, "ok")
					return
				}
				if r.URL.Path == "/half" {
					w.Header().Set("Content-Length", "10")
					fmt.Fprint(w, "half")
					_ = http.NewResponseController(w).Flush()
				}
				reached <- struct{}{}
				<-r.Context().Done() // the connection is closed
				close(ended)
			})
			w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
			client := w.client(t, "us", "acct_1")
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-reached; cancel(gone) }()
			r, err := do(client, ctx, &egress.Request{Method: http.MethodGet, Origin: p.origin, Path: path}, egress.Limits{})
			if !errors.Is(err, gone) || errors.Is(err, egress.ErrNotSent) {
				t.Errorf("%s: %v", where, err)
			}
			r.Release()
			<-ended
			r = do.want(t, client, egress.Request{Method: http.MethodGet, Origin: p.origin, Path: "/"}, 200, "ok")
			r.Release()
			ctx, cancel = context.WithCancelCause(t.Context())
			cancel(gone)
			if _, err := do(client, ctx, &egress.Request{Method: http.MethodPost, Origin: p.origin, Path: "/"}, egress.Limits{}); !errors.Is(err, gone) {
				t.Error(err)
			}
		}
	})
}

// Call does not send the request of a caller who has already gone away, even if an idle connection is available.
func TestCallOfACallerWhoHungUpIsNotSent(t *testing.T) {
	t.Parallel()
	gone := errors.New("the caller hung up")
	overBoth(t, func(t *testing.T, do callFunc) {
		t.Helper()
		var sent atomic.Int64
		p := newPlainPlatform(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				sent.Add(1)
			}
			fmt.Fprint(w, "ok")
		})
		w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
		client := w.client(t, "us", "acct_1")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		for range 100 {
			r := do.want(t, client, egress.Request{Method: http.MethodGet, Origin: p.origin, Path: "/"}, 200, "ok")
			r.Release()
			r, err := do(client, ctx, &egress.Request{Method: http.MethodPost, Origin: p.origin, Path: "/"}, egress.Limits{})
			if !errors.Is(err, gone) {
				t.Fatal(err)
			}
			r.Release()
		}
		if n := sent.Load(); n > 0 {
			t.Errorf("%d of 100 calls were sent", n)
		}
	})
}

// A request with invalid parts is not sent, and the error does not repeat them. No part can start another line.
func TestNothingCanBeSmuggledIntoARequest(t *testing.T) {
	t.Parallel()
	p := newPlainPlatform(t, func(http.ResponseWriter, *http.Request) {})
	w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
	good := egress.Request{Method: http.MethodGet, Origin: p.origin, Path: "/"}
	field := func(name, value string) func(*egress.Request) {
		return func(q *egress.Request) { q.Header = []egress.Field{{Name: name, Value: value}} }
	}
	cookie := func(name, value string) func(*egress.Request) {
		return func(q *egress.Request) { q.Cookies = []egress.Field{{Name: name, Value: value}} }
	}
	for name, spoil := range map[string]func(*egress.Request){
		"method":           func(q *egress.Request) { q.Method = "GET /canary HTTP/1.1\r\n" },
		"no method":        func(q *egress.Request) { q.Method = "" },
		"no path":          func(q *egress.Request) { q.Path = "" },
		"an absolute path": func(q *egress.Request) { q.Path = "http://evil.test/" },
		"space in path":    func(q *egress.Request) { q.Path = "/canary x" },
		"line in path":     func(q *egress.Request) { q.Path = "/\r\nCanary: x" },
		"line in query":    func(q *egress.Request) { q.Query = "a=\ncanary" },
		"fragment":         func(q *egress.Request) { q.Query = "a#canary" },
		"not ASCII":        func(q *egress.Request) { q.Path = "/canaryü" },
		"a line in value":  field("X-A", "canary\r\nX-B: 1"),
		"a bare feed":      field("X-A", "canary\nX-B: 1"),
		"a zero":           field("X-A", "canary\x00"),
		"a line in name":   field("X-A: 1\r\nX-B", "canary"),
		"no name":          field("", "canary"),
		"host":             field("hOst", "canary.test"),
		"length":           field("content-length", "100"),
		"coding":           field("Transfer-Encoding", "chunked"),
		"connection":       field("Connection", "upgrade"),
		"upgrade":          field("Upgrade", "websocket"),
		"expect":           field("Expect", "100-continue"),
		"a cookie's line":  cookie("a", "canary\r\nX: y"),
		"a second cookie":  cookie("a", "canary; b=c"),
		"a cookie's name":  cookie("a=canary; b", "c"),
	} {
		q := good
		spoil(&q)
		_, err := w.client(t, "us", "acct_1").Call(t.Context(), &q, egress.Limits{})
		if !errors.Is(err, egress.ErrNotSent) || strings.Contains(err.Error(), "anary") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p.hits.Load() != 0 {
		t.Errorf("%d requests were sent", p.hits.Load())
	}
	good.Origin = "https://platform.test"
	if _, err := w.client(t, "us", "acct_1").Call(t.Context(), &good, egress.Limits{}); !errors.Is(err, egress.ErrOrigin) {
		t.Error(err)
	}
}

// Concurrent calls of many accounts of two regions never share a connection between accounts.
func TestConcurrentCallsKeepTheirConnections(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, do callFunc) {
		t.Helper()
		var seen seenConns
		p := newPlatform(t, seen.handle)
		us, uk := newTestProxy(t, "http", "127.0.1.1", p), newTestProxy(t, "http", "127.0.2.1", p)
		w := newFixture(t, p, "us="+us.url()+" uk="+uk.url())
		var group sync.WaitGroup
		for worker := range 32 {
			group.Go(func() {
				for n := range 30 {
					region := []string{"us", "uk"}[worker%2]
					account := fmt.Sprintf("acct_%s_%d", region, (worker/2+n)%6)
					q := egress.Request{Method: http.MethodGet, Origin: p.origin, Path: "/", Header: []egress.Field{{Name: "X-Account", Value: account}}}
					r, err := do(w.client(t, region, account), t.Context(), &q, egress.Limits{})
					if err != nil {
						t.Error(err)
					}
					r.Release()
				}
			})
		}
		group.Wait()
		if seen.shared() != 0 || seen.h2 != 0 || len(seen.list) != 12 {
			t.Errorf("%d connections shared, %d calls over HTTP/2, %d accounts", seen.shared(), seen.h2, len(seen.list))
		}
	})
}

// Call honours the platform's Keep-Alive timeout.
func TestAKeepAliveHintIsBelieved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newFakeTimeFixture(t, "us=http://good:1", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Keep-Alive", "timeout=5, max=100") })
		client := s.Client(egress.Identity{Region: "us", Account: "acct_1"}, s.origins)
		for _, wait := range []time.Duration{0, 3 * time.Second, 3 * time.Second, 4*time.Second + 1} {
			time.Sleep(wait)
			r, err := client.Call(t.Context(), &egress.Request{Method: http.MethodGet, Origin: "http://plain.test", Path: "/"}, egress.Limits{})
			must.OK(t, err)
			r.Release()
		}
		if n := s.dials.Load(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
		time.Sleep(2 * time.Minute)
		if n := s.Idle(); n != 0 {
			t.Errorf("%d connections are still kept", n)
		}
	})
}
