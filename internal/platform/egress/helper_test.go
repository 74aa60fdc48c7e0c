package egress_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/elazarl/goproxy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/things-go/go-socks5"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

const (
	user     = "canary-user"
	password = "canary-password"
)

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	roots       *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must.OK(t, err)
	certificate, err := x509.ParseCertificate(der)
	must.OK(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	return &authority{certificate, key, roots}
}

func (a *authority) issue(t testing.TB, until time.Duration, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must.OK(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(until), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	must.OK(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// platform is a platform whose name only proxies can resolve.
type platform struct {
	*authority
	origin   string // https://platform.test, or http://plain.test
	address  string // where it really is
	hits     atomic.Int64
	accepted atomic.Int64 // connections of a platform that offers HTTP/2
	server   *httptest.Server
	closed   chan string // connections of a plain platform that ended
}

// newPlatform starts a platform that offers HTTP/2.
func newPlatform(t testing.TB, handler http.HandlerFunc) *platform {
	t.Helper()
	p := &platform{authority: newAuthority(t), origin: "https://platform.test"}
	p.server = httptest.NewUnstartedServer(p.count(handler))
	p.server.TLS = &tls.Config{Certificates: []tls.Certificate{p.issue(t, time.Hour, "platform.test")}}
	p.server.EnableHTTP2 = true
	p.server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connNumberKey{}, p.accepted.Add(1))
	}
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.StartTLS()
	p.address = p.server.Listener.Addr().String()
	t.Cleanup(p.server.Close)
	return p
}

type connNumberKey struct{}

// connNumber returns the number of the request's connection, in the order that newPlatform's server accepted them.
func connNumber(r *http.Request) int64 { n, _ := r.Context().Value(connNumberKey{}).(int64); return n }

func newPlainPlatform(t testing.TB, handler http.HandlerFunc) *platform {
	t.Helper()
	p := &platform{authority: newAuthority(t), origin: "http://plain.test", closed: make(chan string, 100)}
	p.server = httptest.NewUnstartedServer(p.count(handler))
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			select {
			case p.closed <- c.RemoteAddr().String():
			default: // the test does not read the channel
			}
		}
	}
	p.server.Start()
	p.address = p.server.Listener.Addr().String()
	t.Cleanup(p.server.Close)
	return p
}

// newRawPlatform starts a platform that serves connections with a function.
func newRawPlatform(t testing.TB, talk func(net.Conn)) *platform {
	t.Helper()
	return &platform{authority: newAuthority(t), origin: "http://plain.test", address: listen(t, talk)}
}

func (p *platform) count(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.hits.Add(1)
		handler(w, r)
	})
}

func (p *platform) origins(t testing.TB) egress.Origins {
	t.Helper()
	o, err := egress.ParseOrigins(p.origin)
	must.OK(t, err)
	return o
}

// listen serves connections until the test ends.
func listen(t testing.TB, talk func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	keep := &connSet{}
	t.Cleanup(func() { _ = l.Close(); keep.close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			keep.add(conn)
			go talk(conn)
		}
	}()
	return l.Addr().String()
}

// connSet is a set of connections that are closed together.
type connSet struct {
	mu   sync.Mutex
	list map[net.Conn]bool
}

func (k *connSet) add(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.list == nil {
		k.list = map[net.Conn]bool{}
	}
	k.list[c] = true
}

func (k *connSet) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.list {
		_ = c.Close()
	}
	k.list = nil
}

// testProxy is a real proxy whose traffic leaves from its own loopback address. It can be killed and restarted.
type testProxy struct {
	t       testing.TB
	scheme  string
	source  string
	hosts   map[string]string // replaces DNS: host:port to the real address
	tls     *tls.Config
	tunnels atomic.Int64

	mu       sync.Mutex
	address  string
	listener net.Listener
	conns    *connSet
	asked    []string // addresses that tunnels were requested to
	password string   // of http and https proxies
}

// newTestProxy starts a proxy for platforms. scheme is http, https or socks5.
func newTestProxy(t testing.TB, scheme, source string, platforms ...*platform) *testProxy {
	t.Helper()
	f := &testProxy{t: t, scheme: scheme, source: source, hosts: map[string]string{}, address: "127.0.0.1:0", password: password}
	for _, p := range platforms {
		f.hosts["platform.test:443"], f.hosts["plain.test:80"] = p.address, p.address
		if scheme == "https" {
			f.tls = &tls.Config{Certificates: []tls.Certificate{p.issue(t, time.Hour)}}
		}
	}
	f.start()
	t.Cleanup(f.kill)
	return f
}

func (f *testProxy) url() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.scheme + "://" + user + ":" + f.password + "@" + f.address
}

// setPassword changes the password that the proxy accepts.
func (f *testProxy) setPassword(to string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.password = to
}

func (f *testProxy) start() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener != nil {
		return
	}
	l, err := net.Listen("tcp", f.address)
	must.OK(f.t, err)
	f.address, f.listener, f.conns = l.Addr().String(), l, &connSet{}
	l = recordingListener{l, f.conns}
	if f.tls != nil {
		l = tls.NewListener(l, f.tls)
	}
	if f.scheme == "socks5" {
		server := socks5.NewServer(
			socks5.WithCredential(socks5.StaticCredentials{user: password}),
			socks5.WithResolver(passNames{}),
			socks5.WithDial(func(_ context.Context, _, address string) (net.Conn, error) { return f.dial(address) }),
		)
		go func() { _ = server.Serve(l) }()
		return
	}
	proxy := goproxy.NewProxyHttpServer()
	proxy.Logger = log.New(io.Discard, "", 0)
	proxy.ConnectDial = func(_, address string) (net.Conn, error) { return f.dial(address) }
	proxy.OnRequest().HandleConnectFunc(func(host string, ctx *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
		want := &http.Request{Header: http.Header{}}
		f.mu.Lock()
		want.SetBasicAuth(user, f.password)
		f.mu.Unlock()
		if ctx.Req.Header.Get("Proxy-Authorization") != want.Header.Get("Authorization") {
			ctx.Resp = &http.Response{StatusCode: http.StatusProxyAuthRequired, ProtoMajor: 1, ProtoMinor: 1}
			return goproxy.RejectConnect, host
		}
		return goproxy.OkConnect, host
	})
	server := &http.Server{Handler: proxy, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(l) }()
}

// dial connects from the proxy's own address.
func (f *testProxy) dial(address string) (net.Conn, error) {
	f.mu.Lock()
	f.asked = append(f.asked, address)
	f.mu.Unlock()
	real, ok := f.hosts[address]
	if !ok {
		return nil, errors.New("no such host")
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(f.source)}}
	conn, err := d.Dial("tcp", real)
	if err != nil {
		return nil, err
	}
	f.tunnels.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conns != nil {
		f.conns.add(conn)
	}
	return conn, nil
}

// destinations returns the addresses that tunnels were requested to.
func (f *testProxy) destinations() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// kill stops the proxy and closes all its connections.
func (f *testProxy) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listener == nil {
		return
	}
	_ = f.listener.Close()
	f.conns.close()
	f.listener = nil
}

// recordingListener adds the connections that it accepts to a set.
type recordingListener struct {
	net.Listener
	conns *connSet
}

func (l recordingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.conns.add(conn)
	}
	return conn, err
}

// passNames is a resolver that leaves names to the dialer.
type passNames struct{}

func (passNames) Resolve(ctx context.Context, _ string) (context.Context, net.IP, error) {
	return ctx, nil, nil
}

// logBuffer collects the log of a test.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// fixture is an Egress under test and its log.
type fixture struct {
	*egress.Egress
	log       *logBuffer
	registry  *prometheus.Registry
	platform  *platform
	addresses []string // of proxies, which must not leak
}

// newFixture returns an Egress. regions is the setting of the operator, such as "us=http://… uk=…".
func newFixture(t testing.TB, p *platform, regions string, change ...func(*egress.Config)) *fixture {
	t.Helper()
	list, err := egress.ParseRegions(secret.New(regions))
	must.OK(t, err)
	c := egress.Config{Regions: list, Roots: p.roots, DialTimeout: time.Minute, HandshakeTimeout: time.Minute}
	for _, f := range change {
		f(&c)
	}
	w := &fixture{log: &logBuffer{}, platform: p, registry: prometheus.NewRegistry()}
	for _, part := range strings.FieldsFunc(regions, func(r rune) bool { return r == ' ' || r == ',' }) {
		if _, after, ok := strings.Cut(part, "="); ok {
			part = after
		}
		u, err := url.Parse(part)
		must.OK(t, err)
		w.addresses = append(w.addresses, u.Host)
	}
	w.Egress = egress.New(egress.Deps{Config: c, Registry: w.registry, Log: slog.New(slog.NewTextHandler(w.log, nil)), Now: clock.Now})
	t.Cleanup(w.Close)
	t.Cleanup(func() { w.noLeak(t, w.log.String()) })
	return w
}

// shortHandshake shortens the time that a proxy may take.
func shortHandshake(c *egress.Config) { c.HandshakeTimeout = 2 * time.Second }

func (w *fixture) client(t testing.TB, region, account string) *egress.Client {
	t.Helper()
	return w.Client(egress.Identity{Region: region, Account: account}, w.platform.origins(t))
}

// get makes a call and returns the body.
func (w *fixture) get(t testing.TB, region, account string) (string, error) {
	t.Helper()
	return fetch(t, w.client(t, region, account), w.platform.origin+"/?secret=canary-query", egress.Limits{})
}

func fetch(t testing.TB, c *egress.Client, url string, limits egress.Limits) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must.OK(t, err)
	return send(c, req, limits)
}

// send makes a call and reads the response, through Call or Do depending on usesCall.
func send(c *egress.Client, req *http.Request, limits egress.Limits) (string, error) {
	if usesCall() && (req.Body == nil || req.Body == http.NoBody || req.GetBody != nil) {
		reply, err := call(c, req, limits)
		defer reply.Release()
		return string(reply.Body), err
	}
	resp, err := c.Do(req, limits) //nolint:bodyclose // Read closes it
	if err != nil {
		return "", err
	}
	text, err := egress.Read(resp)
	return string(text), err
}

// noLeak checks that a text contains neither the address nor the credentials of a proxy.
func (w *fixture) noLeak(t testing.TB, text string) {
	t.Helper()
	for _, canary := range append([]string{user, password, "canary-query"}, w.addresses...) {
		_, port, _ := net.SplitHostPort(canary)
		if strings.Contains(text, canary) || port != "" && strings.Contains(text, ":"+port) {
			t.Errorf("%q leaked in %s", canary, text)
		}
	}
}

// wantUnavailable checks that an error is the problem egress-unavailable with retryAfter, wraps ErrNotSent and leaks
// nothing.
func (w *fixture) wantUnavailable(t testing.TB, err error) {
	t.Helper()
	p, ok := errors.AsType[*problem.Error](err)
	if !ok || p.Kind.Code != problem.EgressUnavailable.Code || p.RetryAfter != 5 {
		t.Fatalf("want egress-unavailable, got %v", err)
	}
	if !errors.Is(err, egress.ErrNotSent) {
		t.Errorf("the error does not wrap ErrNotSent: %v", err)
	}
	document, failed := p.Document(problem.Place{ProblemsURL: "https://x/problems", Instance: "urn:x"})
	must.OK(t, failed)
	w.noLeak(t, fmt.Sprintf("%v %+v %s", err, err, document))
}

// nameserver is a real DNS server with answers from a test.
type nameserver struct {
	conn   net.PacketConn
	answer func(name string, v6 bool) []netip.Addr

	mu    sync.Mutex
	asked []string
}

func newNameserver(t testing.TB, answer func(name string, v6 bool) []netip.Addr) *nameserver {
	t.Helper()
	n, err := startNameserver(answer)
	must.OK(t, err)
	t.Cleanup(func() { _ = n.conn.Close() })
	return n
}

func startNameserver(answer func(name string, v6 bool) []netip.Addr) (*nameserver, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	n := &nameserver{conn: conn, answer: answer}
	go n.serve()
	return n, nil
}

// questions returns the names that were looked up.
func (n *nameserver) questions() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

func (n *nameserver) serve() {
	buffer := make([]byte, 4096)
	for {
		size, from, err := n.conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buffer[:size]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		name := strings.TrimSuffix(q.Name.String(), ".")
		n.mu.Lock()
		n.asked = append(n.asked, name)
		n.mu.Unlock()
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		found := n.answer(name, q.Type == dnsmessage.TypeAAAA)
		if found == nil {
			m.RCode = dnsmessage.RCodeNameError
		}
		for _, addr := range found {
			head := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}
			if q.Type == dnsmessage.TypeA && addr.Is4() {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}})
			} else if q.Type == dnsmessage.TypeAAAA && addr.Is6() {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
			}
		}
		if text, err := m.Pack(); err == nil {
			_, _ = n.conn.WriteTo(text, from)
		}
	}
}

func (n *nameserver) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", n.conn.LocalAddr().String())
	}}
}
