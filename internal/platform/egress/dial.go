package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/proxy"
)

// reason is why a dial failed, in a word that is safe to show. It is also the outcome in metrics.
type reason string

// What a proxy does wrong by itself.
const (
	refused    reason = "refused"    // nothing listens there
	unresolved reason = "unresolved" // its name is not known
	noAnswer   reason = "no_answer"  // no connection in time
	reset      reason = "reset"      // it hung up
	denied     reason = "denied"     // it does not accept our credentials, or forbids the destination
	rejected   reason = "rejected"   // another refusal
	garbled    reason = "garbled"    // it does not speak its protocol
	untrusted  reason = "untrusted"  // the TLS of an https proxy does not verify
)

// What may be the platform's fault as well.
const (
	slow        reason = "slow"         // no tunnel in time: the proxy hangs, or waits for a platform that does
	unreachable reason = "unreachable"  // the proxy answers, and says that it has no way to the platform
	platformTLS reason = "platform_tls" // there is a tunnel, and no valid TLS at its end
	spokeFirst  reason = "spoke_first"  // something came through the tunnel before we sent anything
)

const (
	succeeded reason = "ok"
	cancelled reason = "cancelled" // nobody wants the connection any more
)

// maxConnectReply bounds the header of a proxy's answer.
const maxConnectReply = 16 << 10

// fault is a failed dial. It wraps nothing: errors of the network hold the proxy's address.
type fault struct {
	proxy  string
	reason reason
}

func (f *fault) Error() string { return "proxy " + f.proxy + ": " + string(f.reason) }

// dialer makes tunnels through proxies.
type dialer struct {
	connect   func(ctx context.Context, network, address string) (net.Conn, error)
	dial      time.Duration
	handshake time.Duration
	tls       *tls.Config
	sessions  tls.ClientSessionCache
}

func newDialer(c Config) dialer {
	return dialer{
		connect: new(net.Dialer).DialContext, dial: c.DialTimeout, handshake: c.HandshakeTimeout,
		tls:      &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.Roots, NextProtos: []string{"http/1.1"}},
		sessions: tls.NewLRUClientSessionCache(tlsSessions),
	}
}

// open makes a tunnel through a proxy to a target, with TLS in it if the target wants that. key is whose it is.
// An error is always a *fault.
func (d *dialer) open(ctx context.Context, via *node, to target, key string) (net.Conn, error) {
	raw, err := d.reach(ctx, via)
	if err != nil {
		return nil, d.fault(ctx, via, err, tcpReason(err))
	}
	conn := via.tunnel(raw)
	limited, cancel := context.WithTimeout(ctx, d.handshake)
	defer cancel()
	conn, why, err := d.ask(limited, via, conn, net.JoinHostPort(to.host, to.port))
	if err == nil && to.secure {
		conn, err = d.secure(limited, conn, to.host, key)
		why = platformTLS
	}
	if err == nil && look(conn) == spoke {
		why, err = spokeFirst, errNoTunnel // what it said would be taken for the answer to our request
	}
	if err != nil {
		_ = conn.Close() // of no use any more, whatever it says
		return nil, d.fault(ctx, via, err, why)
	}
	return conn, nil
}

// fault names a failure, unless it is only that the caller went away.
func (d *dialer) fault(ctx context.Context, via *node, err error, why reason) error {
	switch {
	case ctx.Err() != nil:
		why = cancelled
	case why == garbled && timedOut(err):
		why = slow
	case why == garbled && hungUp(err):
		why = reset
	}
	return &fault{proxy: via.name, reason: why}
}

// reach connects to the proxy itself. Its name, if it has one, is the only one that is looked up here.
func (d *dialer) reach(ctx context.Context, via *node) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.dial)
	defer cancel()
	return d.connect(ctx, "tcp", via.address.Reveal())
}

func tcpReason(err error) reason {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return unresolved
	}
	switch {
	case timedOut(err):
		return noAnswer
	case errors.Is(err, syscall.ECONNRESET):
		return reset
	}
	return refused
}

// ask has the proxy connect to an address: by name, so that the name is looked up where the traffic leaves.
// The connection is given back also when it failed.
func (d *dialer) ask(ctx context.Context, via *node, conn net.Conn, address string) (net.Conn, reason, error) {
	switch via.scheme {
	case "socks5":
		why, err := d.askSOCKS(ctx, via, conn, address)
		return conn, why, err
	case "https":
		host, _, err := net.SplitHostPort(via.address.Reveal())
		if err != nil {
			return conn, garbled, err
		}
		c := d.tls.Clone()
		c.ServerName = host
		secured := tls.Client(&records{Conn: conn}, c)
		if err := secured.HandshakeContext(ctx); err != nil {
			if timedOut(err) || hungUp(err) {
				return conn, garbled, err
			}
			return conn, untrusted, err
		}
		conn = secured
	}
	// A deadline in the past ends reads and writes that are under way.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	why, err := askCONNECT(via, conn, address)
	if !stop() && err == nil {
		why, err = slow, ctx.Err()
	}
	return conn, why, err
}

// askCONNECT speaks HTTP to the proxy.
func askCONNECT(via *node, conn net.Conn, address string) (reason, error) {
	req := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address,
		Header: http.Header{"User-Agent": {""}}, // empty: none is sent
	}
	if !via.user.Empty() {
		text := via.user.Reveal() + ":" + via.password.Reveal()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(text)))
	}
	if err := req.Write(conn); err != nil {
		return garbled, err
	}
	limited := &io.LimitedReader{R: conn, N: maxConnectReply}
	reader := bufio.NewReader(limited)
	resp, err := http.ReadResponse(reader, req) //nolint:bodyclose // what follows the header is the tunnel, or is thrown away with the connection
	if limited.N <= 0 {
		err = errNoTunnel
	}
	if err != nil {
		return garbled, err
	}
	switch code := resp.StatusCode; {
	case code == http.StatusProxyAuthRequired, code == http.StatusUnauthorized, code == http.StatusForbidden:
		return denied, errNoTunnel
	case code/100 == 5:
		return unreachable, errNoTunnel // 502 by the book, 503 from squid, 500 from tinyproxy
	case code/100 != 2:
		return rejected, errNoTunnel
	case reader.Buffered() > 0:
		return garbled, errNoTunnel // a platform does not speak first, so this is the proxy's own voice
	}
	return succeeded, nil
}

var errNoTunnel = errors.New("no tunnel")

// askSOCKS speaks SOCKS5 to the proxy.
func (d *dialer) askSOCKS(ctx context.Context, via *node, conn net.Conn, address string) (reason, error) {
	var auth *proxy.Auth
	if !via.user.Empty() {
		auth = &proxy.Auth{User: via.user.Reveal(), Password: via.password.Reveal()}
	}
	socks, err := proxy.SOCKS5("tcp", "", auth, connected{conn})
	if err != nil {
		return garbled, err
	}
	_, err = socks.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
	return socksReason(err), err
}

// socksReason reads the library's words, because it has no types for what a proxy answered.
func socksReason(err error) reason {
	if err == nil {
		return succeeded
	}
	text := err.Error()
	for _, words := range []string{"general SOCKS server failure", "network unreachable", "host unreachable", "connection refused", "TTL expired"} {
		if strings.HasSuffix(text, "unknown error "+words) {
			return unreachable
		}
	}
	for _, words := range []string{"authentication", "not allowed by ruleset"} {
		if strings.Contains(text, words) {
			return denied
		}
	}
	if strings.Contains(text, "unknown error ") {
		return rejected
	}
	return garbled
}

// connected is a dialer for a connection that exists already.
type connected struct{ conn net.Conn }

func (c connected) Dial(string, string) (net.Conn, error) { return c.conn, nil }

func (c connected) DialContext(context.Context, string, string) (net.Conn, error) { return c.conn, nil }

// secure speaks TLS with the platform, through the tunnel.
func (d *dialer) secure(ctx context.Context, conn net.Conn, host, key string) (net.Conn, error) {
	c := d.tls.Clone()
	c.ServerName = host
	c.ClientSessionCache = sessionsOf{key: key, all: d.sessions}
	secured := tls.Client(&records{Conn: conn}, c)
	return secured, secured.HandshakeContext(ctx)
}

// sessionsOf keeps one identity's TLS sessions apart from all others': a resumed session tells the platform who it was.
type sessionsOf struct {
	key string
	all tls.ClientSessionCache
}

func (s sessionsOf) Get(name string) (*tls.ClientSessionState, bool) {
	return s.all.Get(s.key + " " + name)
}

func (s sessionsOf) Put(name string, state *tls.ClientSessionState) {
	s.all.Put(s.key+" "+name, state)
}

// tunnel is a connection through a proxy whose errors and addresses do not tell where the proxy is.
type tunnel struct {
	net.Conn
	name string
	via  *node

	// polling makes Read take only what has arrived. Only the owner of the tunnel changes it, while no other goroutine reads.
	polling bool
	poll    poll
}

// Close ends it, as often as it is called.
func (t *tunnel) Close() error {
	t.via.mu.Lock()
	delete(t.via.tunnels, t)
	t.via.mu.Unlock()
	return t.Conn.Close()
}

func (t *tunnel) Read(p []byte) (int, error) {
	if t.polling {
		n, err := t.poll.read(t.Conn, p)
		if errors.Is(err, errNothingArrived) {
			return n, errNothingArrived
		}
		return n, hide("read", err)
	}
	n, err := t.Conn.Read(p)
	return n, hide("read", err)
}

func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.Conn.Write(p)
	return n, hide("write", err)
}

// RemoteAddr names the proxy by region and place.
func (t *tunnel) RemoteAddr() net.Addr { return tunnelAddr(t.name) }

// LocalAddr is hidden as well: it tells the node's address in the proxy's network.
func (t *tunnel) LocalAddr() net.Addr { return tunnelAddr("node") }

type tunnelAddr string

func (tunnelAddr) Network() string  { return "tunnel" }
func (a tunnelAddr) String() string { return string(a) }

// tunnelError is a failed read or write, without addresses.
type tunnelError struct {
	op    string
	cause error // an error number or a bare sentinel
	late  bool
}

func (e *tunnelError) Error() string   { return e.op + " in the tunnel: " + e.cause.Error() }
func (e *tunnelError) Unwrap() error   { return e.cause }
func (e *tunnelError) Timeout() bool   { return e.late }
func (e *tunnelError) Temporary() bool { return e.late }

func hide(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // an end of file is passed on as it is, and is never wrapped here
		return err
	}
	late := timedOut(err)
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return &tunnelError{op, number, late}
	}
	for _, known := range []error{net.ErrClosed, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return &tunnelError{op, known, late}
		}
	}
	if late {
		return &tunnelError{op, context.DeadlineExceeded, late}
	}
	return &tunnelError{op, errors.New("broken"), late}
}

func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	late, ok := errors.AsType[net.Error](err)
	return ok && late.Timeout()
}

func hungUp(err error) bool {
	if _, ok := errors.AsType[*tunnelError](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
