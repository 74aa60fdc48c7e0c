package egress_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// seenConns records which connections each account's calls used. It knows a connection by its number: the kernel may
// give the address of a closed connection to a new one.
type seenConns struct {
	mu   sync.Mutex
	list map[string][]int64
	h2   int
}

func (s *seenConns) handle(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.list == nil {
		s.list = map[string][]int64{}
	}
	if r.ProtoMajor != 1 {
		s.h2++
	}
	account, conn := r.Header.Get("X-Account"), connNumber(r)
	if !slices.Contains(s.list[account], conn) {
		s.list[account] = append(s.list[account], conn)
	}
}

// shared counts connections that more than one account used.
func (s *seenConns) shared() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, n := map[int64]string{}, 0
	for account, conns := range s.list {
		for _, c := range conns {
			if other := owner[c]; other != "" && other != account {
				n++
			}
			owner[c] = account
		}
	}
	return n
}

func callAs(t testing.TB, rt http.RoundTripper, url, account string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must.OK(t, err)
	req.Header.Set("X-Account", account)
	if client, ok := rt.(*egress.Client); ok && usesCall() {
		_, err := send(client, req, egress.Limits{})
		must.OK(t, err)
		return
	}
	resp, err := rt.RoundTrip(req)
	must.OK(t, err)
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	must.OK(t, err)
}

// Two accounts never share a connection, even if the platform offers HTTP/2. Call reuses connections.
func TestNoConnectionServesTwoAccounts(t *testing.T) {
	t.Parallel()
	var seen seenConns
	p := newPlatform(t, seen.handle)
	us, uk := newTestProxy(t, "http", "127.0.1.1", p), newTestProxy(t, "http", "127.0.2.1", p)
	w := newFixture(t, p, "us="+us.url()+" uk="+uk.url())
	for n := range 40 {
		account := fmt.Sprintf("acct_%d", n%4)
		callAs(t, w.client(t, []string{"us", "uk"}[n%2], account), p.origin, account)
	}
	if seen.shared() != 0 || seen.h2 != 0 {
		t.Errorf("%d connections shared, %d calls over HTTP/2: %v", seen.shared(), seen.h2, seen.list)
	}
	for account, conns := range seen.list {
		if int64(len(conns)) != connections(10, 1) {
			t.Errorf("%s needed %d connections for ten calls in a row", account, len(conns))
		}
	}
	if want := connections(20, 2); len(seen.list) != 4 || us.tunnels.Load() != want || uk.tunnels.Load() != want {
		t.Errorf("%v, %d and %d tunnels", seen.list, us.tunnels.Load(), uk.tunnels.Load())
	}
}

// This is what the test above guards against: with HTTP/2 the standard transport pools connections by host alone, so
// the second region's call leaves through the first region's proxy.
func TestTheStandardTransportSharesConnectionsOverHTTP2(t *testing.T) {
	t.Parallel()
	var seen seenConns
	p := newPlatform(t, seen.handle)
	us, uk := newTestProxy(t, "http", "127.0.1.1", p), newTestProxy(t, "http", "127.0.2.1", p)
	proxies := map[string]string{"us": us.url(), "uk": uk.url()}
	naive := &http.Transport{
		Proxy:             func(r *http.Request) (*url.URL, error) { return url.Parse(proxies[r.Header.Get("X-Account")]) },
		TLSClientConfig:   &tls.Config{RootCAs: p.roots, MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(naive.CloseIdleConnections)
	callAs(t, naive, p.origin, "us")
	callAs(t, naive, p.origin, "uk")
	if seen.shared() != 1 || seen.h2 != 2 || uk.tunnels.Load() != 0 {
		t.Errorf("the standard transport no longer shares connections: %v, %d tunnels in uk", seen.list, uk.tunnels.Load())
	}
}

// With isolation by proxy, accounts of one proxy share connections; accounts of two regions still do not.
func TestIsolationByProxySharesWithinTheProxyOnly(t *testing.T) {
	t.Parallel()
	var seen seenConns
	p := newPlatform(t, seen.handle)
	us, uk := newTestProxy(t, "socks5", "127.0.1.1", p), newTestProxy(t, "socks5", "127.0.2.1", p)
	w := newFixture(t, p, "us="+us.url()+" uk="+uk.url())
	for n := range 40 {
		region := []string{"us", "uk"}[n%2]
		client := w.Client(egress.Identity{Region: region, Account: fmt.Sprintf("acct_%d", n), Isolation: egress.ByProxy}, p.origins(t))
		callAs(t, client, p.origin, region)
	}
	if want := connections(20, 1); seen.shared() != 0 || us.tunnels.Load() != want || uk.tunnels.Load() != want {
		t.Errorf("%v, %d and %d tunnels", seen.list, us.tunnels.Load(), uk.tunnels.Load())
	}
}

// An account resumes only its own TLS sessions.
func TestTLSSessionsAreTheAccountsOwn(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		fmt.Fprint(w, r.TLS.DidResume)
	})
	w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
	for _, c := range []struct{ account, resumed string }{
		{"acct_1", "false"}, {"acct_1", "true"}, {"acct_2", "false"}, {"acct_2", "true"}, {"acct_1", "true"},
	} {
		if got, err := w.get(t, "us", c.account); err != nil || got != c.resumed {
			t.Errorf("%s resumed %s, %v", c.account, got, err)
		}
	}
}

// At most MaxIdle connections stay open for all accounts together, and the longest idle are closed first.
func TestIdleConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	if !usesCall() {
		return // Do keeps no connections
	}
	p := newPlainPlatform(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) })
	w := newFixture(t, p, "us="+newTestProxy(t, "socks5", "127.0.1.1", p).url(), func(c *egress.Config) { c.MaxIdle = 3 })
	var conns []string
	for n := range 8 {
		conn, err := w.get(t, "us", fmt.Sprintf("acct_%d", n))
		must.OK(t, err)
		conns = append(conns, conn)
	}
	var gone []string
	for range 5 {
		gone = append(gone, <-p.closed)
	}
	slices.Sort(gone)
	if want := slices.Sorted(slices.Values(conns[:5])); !slices.Equal(gone, want) {
		t.Errorf("closed %v, want %v", gone, want)
	}
	if conn, err := w.get(t, "us", "acct_7"); err != nil || conn != conns[7] {
		t.Errorf("the newest connection was not kept: %s, %v", conn, err)
	}
}

// A request to an origin that the manifest does not list fails before anything is dialled.
func TestOnlyTheManifestsOriginsAreCalled(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, sourceOf)
	f := newTestProxy(t, "http", "127.0.1.1", p)
	w := newFixture(t, p, "us="+f.url())
	for _, address := range []string{
		"https://evil.test/", "http://platform.test/", "https://platform.test:8443/", "https://platform.test.evil.test/",
		"https://xplatform.test/", "https://platform.test./", "https://127.0.0.1/", "ftp://platform.test/", "https://[::1]/", "//platform.test/", "/path",
	} {
		_, err := fetch(t, w.client(t, "us", "acct_1"), address, egress.Limits{})
		if !errors.Is(err, egress.ErrOrigin) || !errors.Is(err, egress.ErrNotSent) {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, account := range []string{"", "a.b", "a b", "a:b", "a/b", "ä", strings.Repeat("a", 129)} {
		if _, err := w.get(t, "us", account); !errors.Is(err, egress.ErrNotSent) {
			t.Errorf("account %q: %v", account, err)
		}
	}
	body := &onceBody{Reader: strings.NewReader("x")}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://evil.test/", body)
	must.OK(t, err)
	if _, err := send(w.client(t, "us", "acct_1"), req, egress.Limits{}); !errors.Is(err, egress.ErrOrigin) {
		t.Error(err)
	}
	body.wantClosed(t)
	if f.tunnels.Load() != 0 {
		t.Errorf("%d tunnels", f.tunnels.Load())
	}
	// Call accepts an origin only as it was written, not in an equivalent form.
	if _, err := fetch(t, w.client(t, "us", "acct_1"), "https://PLATFORM.test:443/", egress.Limits{}); err != nil != usesCall() {
		t.Error(err)
	}
}

// The platform gets its own host name and our headers, and nothing that the standard library would add. Responses are
// returned unchanged, including redirects and cookies.
func TestRequestsAndAnswersAreNotTouched(t *testing.T) {
	t.Parallel()
	var got http.Header
	var host string
	p := newPlatform(t, func(w http.ResponseWriter, r *http.Request) {
		got, host = r.Header.Clone(), r.Host
		w.Header().Set("Location", "https://evil.test/")
		w.Header().Add("Set-Cookie", "a=1")
		w.WriteHeader(http.StatusFound)
	})
	w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
	client := w.client(t, "us", "acct_1")
	for range 2 {
		for name, do := range map[string]func(*http.Request) (*http.Response, error){"Do": client.RoundTrip, "HTTP": client.HTTP().Do} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.origin+"/a%2Fb?c=d", nil)
			must.OK(t, err)
			req.Header = http.Header{"User-Agent": {"browser"}}
			resp, err := do(req)
			must.OK(t, err)
			must.OK(t, resp.Body.Close())
			if resp.StatusCode != http.StatusFound || resp.Header.Get("Set-Cookie") != "a=1" || resp.Request.URL.Host != "platform.test" {
				t.Errorf("%s: %d %v %s", name, resp.StatusCode, resp.Header, resp.Request.URL.Host)
			}
			if len(req.Header) != 1 || req.URL.Host != "platform.test" {
				t.Errorf("%s changed the request: %v", name, req)
			}
			if len(got) != 2 || got.Get("User-Agent") != "browser" || got.Get("Accept-Encoding") != "gzip" || host != "platform.test" {
				t.Errorf("%s sent %v to %s", name, got, host)
			}
		}
	}
}

// A WebSocket uses the account's region and is bound neither by the call's limits nor by its context.
func TestWebSocketsGoThroughTheRegion(t *testing.T) {
	t.Parallel()
	for _, make := range []func(testing.TB, http.HandlerFunc) *platform{newPlatform, newPlainPlatform} {
		p := make(t, func(w http.ResponseWriter, r *http.Request) {
			conn, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			for {
				kind, text, err := conn.Read(r.Context())
				if err != nil {
					return
				}
				if conn.Write(r.Context(), kind, append(text, " from "+host...)) != nil {
					return
				}
			}
		})
		for _, scheme := range []string{"http", "socks5"} {
			w := newFixture(t, p, "us="+newTestProxy(t, scheme, "127.0.1.1", p).url())
			ctx, cancel := context.WithCancel(t.Context())
			//nolint:bodyclose // the connection is the body, and is closed below
			conn, resp, err := websocket.Dial(ctx, strings.Replace(p.origin, "http", "ws", 1), &websocket.DialOptions{HTTPClient: w.client(t, "us", "acct_1").HTTP()})
			cancel()
			must.OK(t, err)
			if resp.StatusCode != http.StatusSwitchingProtocols {
				t.Error(resp.StatusCode)
			}
			for range 3 {
				must.OK(t, conn.Write(t.Context(), websocket.MessageText, []byte("hello")))
				if _, text, err := conn.Read(t.Context()); err != nil || string(text) != "hello from 127.0.1.1" {
					t.Errorf("%s: %s, %v", p.origin, text, err)
				}
			}
			must.OK(t, conn.Close(websocket.StatusNormalClosure, ""))
		}
	}
}

// A write that may have arrived is not resent.
func TestWritesAreNotRepeated(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost {
			panic(http.ErrAbortHandler) // it arrived, but there is no response
		}
	})
	w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
	client := w.client(t, "us", "acct_1")
	for n := range 3 {
		before := p.hits.Load()
		_, err := fetch(t, client, p.origin, egress.Limits{})
		must.OK(t, err)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.origin, strings.NewReader("x"))
		must.OK(t, err)
		_, err = send(client, req, egress.Limits{})
		if !errors.Is(err, egress.ErrBroken) || errors.Is(err, egress.ErrNotSent) {
			t.Errorf("%d: %v", n, err)
		}
		if made := p.hits.Load() - before; made != 2 {
			t.Errorf("%d calls arrived", made)
		}
	}
}

// An error of the request's body is returned as it is.
func TestABrokenUploadIsTheCallersError(t *testing.T) {
	t.Parallel()
	p := newPlainPlatform(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	w := newFixture(t, p, "us="+newTestProxy(t, "http", "127.0.1.1", p).url())
	lost := errors.New("the caller hung up")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.origin, io.MultiReader(strings.NewReader("half"), failing{lost}))
	must.OK(t, err)
	if _, err = send(w.client(t, "us", "acct_1"), req, egress.Limits{}); !errors.Is(err, lost) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
