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
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/proxy"
)

// reason is why a dial failed, as a word that is safe to show. It is also the outcome in metrics.
type reason string

// Failures of the proxy itself.
const (
	refused    reason = "refused"    // nothing listens at its address
	unresolved reason = "unresolved" // its host name does not resolve
	noAnswer   reason = "no_answer"  // no connection in time
	reset      reason = "reset"      // it closed the connection
	denied     reason = "denied"     // it rejects our credentials
	forbidden  reason = "forbidden"  // it forbids the destination
	rejected   reason = "rejected"   // any other refusal
	garbled    reason = "garbled"    // it does not speak its protocol
	untrusted  reason = "untrusted"  // the certificate of an https proxy is not valid
)

// Failures that may also be the platform's fault.
const (
	slow        reason = "slow"         // no tunnel in time: the proxy hangs, or waits for a platform that hangs
	unreachable reason = "unreachable"  // the proxy reports that it cannot reach the platform
	platformTLS reason = "platform_tls" // the tunnel is open, but TLS with the platform failed
	spokeFirst  reason = "spoke_first"  // data came through the tunnel before we sent anything
)

const (
	succeeded reason = "ok"
	cancelled reason = "cancelled" // the caller no longer wants the connection
	blocked   reason = "blocked"   // the host of a site does not resolve to public addresses only; no proxy was asked
	exhausted reason = "exhausted" // this machine has no file descriptor, port or memory for a connection
)

// maxConnectReply bounds the header of a proxy's response to CONNECT, in bytes.
const maxConnectReply = 16 << 10

// fault is a failed dial. It wraps no error, because network errors contain the proxy's address.
type fault struct {
	proxy  string
	reason reason
}

func (f *fault) Error() string { return "proxy " + f.proxy + ": " + string(f.reason) }

// dialer opens tunnels through proxies.
type dialer struct {
	// connect opens a TCP connection; tests replace it.
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

// openTunnel opens a tunnel through a proxy to a target, with TLS inside it if the target is secure. address is what
// the proxy connects to: the target's own host and port, or an address that the host was resolved to. key separates the
// TLS sessions of identities. An error is always a *fault.
func (d *dialer) openTunnel(ctx context.Context, via *proxyNode, to target, address, key string) (net.Conn, error) {
	raw, err := d.connectProxy(ctx, via)
	if err != nil {
		return nil, d.newFault(ctx, via, err, tcpReason(err))
	}
	conn := via.newTunnel(raw)
	limited, cancel := context.WithTimeout(ctx, d.handshake)
	defer cancel()
	conn, why, err := d.requestTunnel(limited, via, conn, address)
	if err == nil && to.secure {
		conn, err = d.startTLS(limited, conn, to.host, key)
		why = platformTLS
	}
	// A platform must not send before the first request.
	if err == nil && checkActivity(conn) == connSpoke {
		why, err = spokeFirst, errNoTunnel // the data would be taken for the response to our request
	}
	if err != nil {
		_ = conn.Close() // it is discarded, so an error does not matter
		return nil, d.newFault(ctx, via, err, why)
	}
	return conn, nil
}

// newFault returns the fault for an error. It refines the reason: cancelled if the caller has gone away, and slow or
// reset instead of garbled.
func (d *dialer) newFault(ctx context.Context, via *proxyNode, err error, why reason) error {
	switch {
	case ctx.Err() != nil:
		why = cancelled
	case why == garbled && isTimeout(err):
		why = slow
	case why == garbled && isHangup(err):
		why = reset
	}
	return &fault{proxy: via.name, reason: why}
}

// connectProxy opens a TCP connection to the proxy itself. This machine resolves the names of proxies and sites only;
// the proxy resolves a platform's.
func (d *dialer) connectProxy(ctx context.Context, via *proxyNode) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.dial)
	defer cancel()
	return d.connect(ctx, "tcp", via.address.Reveal())
}

// tcpReason classifies an error of connectProxy.
func tcpReason(err error) reason {
	if isExhausted(err) {
		return exhausted
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return unresolved
	}
	switch {
	case isTimeout(err):
		return noAnswer
	case errors.Is(err, syscall.ECONNRESET):
		return reset
	}
	return refused
}

// isExhausted reports whether an error is due to a lack of resources on this machine.
func isExhausted(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL}, func(lack error) bool {
		return errors.Is(err, lack)
	})
}

// requestTunnel asks the proxy to connect to an address. It passes a name on, so that it is resolved where the traffic
// leaves. It always returns the connection, also on error; for an https proxy this is the TLS connection.
func (d *dialer) requestTunnel(ctx context.Context, via *proxyNode, conn net.Conn, address string) (net.Conn, reason, error) {
	switch via.scheme {
	case "socks5":
		why, err := d.requestSOCKS(ctx, via, conn, address)
		return conn, why, err
	case "https":
		host, _, err := net.SplitHostPort(via.address.Reveal())
		if err != nil {
			return conn, garbled, err
		}
		c := d.tls.Clone()
		c.ServerName = host
		secured := tls.Client(&recordTracker{Conn: conn}, c)
		if err := secured.HandshakeContext(ctx); err != nil {
			if isTimeout(err) || isHangup(err) {
				return conn, garbled, err
			}
			return conn, untrusted, err
		}
		conn = secured
	}
	// A deadline in the past ends reads and writes in progress.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	why, err := requestCONNECT(via, conn, address)
	if !stop() && err == nil { // the deadline was set just after the response, so the connection is unusable
		why, err = slow, ctx.Err()
	}
	return conn, why, err
}

// requestCONNECT requests a tunnel with the HTTP method CONNECT.
func requestCONNECT(via *proxyNode, conn net.Conn, address string) (reason, error) {
	req := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address,
		Header: http.Header{"User-Agent": {""}}, // an empty value suppresses the header
	}
	if !via.user.Empty() {
		text := via.user.Reveal() + ":" + via.password.Reveal()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(text)))
	}
	if err := req.Write(conn); err != nil {
		return garbled, err
	}
	// ReadResponse has no limit of its own for the header.
	limited := &io.LimitedReader{R: conn, N: maxConnectReply}
	reader := bufio.NewReader(limited)
	resp, err := http.ReadResponse(reader, req) //nolint:bodyclose // the tunnel follows the header, or conn is closed
	if limited.N <= 0 {
		err = errNoTunnel
	}
	if err != nil {
		return garbled, err
	}
	switch code := resp.StatusCode; {
	case code == http.StatusProxyAuthRequired, code == http.StatusUnauthorized:
		return denied, errNoTunnel
	case code == http.StatusForbidden:
		return forbidden, errNoTunnel
	case code/100 == 5:
		return unreachable, errNoTunnel // 502 by the standard, 503 from squid, 500 from tinyproxy
	case code/100 != 2:
		return rejected, errNoTunnel
	case reader.Buffered() > 0:
		return garbled, errNoTunnel // platforms do not send first, so the proxy itself sent this
	}
	return succeeded, nil
}

var errNoTunnel = errors.New("no tunnel")

// requestSOCKS requests a tunnel with SOCKS5.
func (d *dialer) requestSOCKS(ctx context.Context, via *proxyNode, conn net.Conn, address string) (reason, error) {
	var auth *proxy.Auth
	if !via.user.Empty() {
		auth = &proxy.Auth{User: via.user.Reveal(), Password: via.password.Reveal()}
	}
	socks, err := proxy.SOCKS5("tcp", "", auth, existingConn{conn})
	if err != nil {
		return garbled, err
	}
	_, err = socks.(proxy.ContextDialer).DialContext(ctx, "tcp", address)
	return socksReason(err), err
}

// socksReason classifies an error by its text, because the library has no error types for the proxy's replies.
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
	switch {
	case strings.Contains(text, "authentication"):
		return denied
	case strings.Contains(text, "not allowed by ruleset"):
		return forbidden
	case strings.Contains(text, "unknown error "):
		return rejected
	}
	return garbled
}

// existingConn is a dialer that returns an existing connection.
type existingConn struct{ conn net.Conn }

func (c existingConn) Dial(string, string) (net.Conn, error) { return c.conn, nil }

func (c existingConn) DialContext(context.Context, string, string) (net.Conn, error) {
	return c.conn, nil
}

// startTLS performs the TLS handshake with the platform inside the tunnel.
func (d *dialer) startTLS(ctx context.Context, conn net.Conn, host, key string) (net.Conn, error) {
	c := d.tls.Clone()
	c.ServerName = host
	c.ClientSessionCache = accountSessions{key: key, all: d.sessions}
	secured := tls.Client(&recordTracker{Conn: conn}, c)
	return secured, secured.HandshakeContext(ctx)
}

// accountSessions is a view of the shared TLS session cache for one key. A resumed session would let the platform
// link two identities.
type accountSessions struct {
	key string
	all tls.ClientSessionCache
}

func (s accountSessions) Get(name string) (*tls.ClientSessionState, bool) {
	return s.all.Get(s.key + " " + name)
}

func (s accountSessions) Put(name string, state *tls.ClientSessionState) {
	s.all.Put(s.key+" "+name, state)
}

// tunnel is a connection through a proxy. Its errors and addresses do not reveal the proxy's address.
type tunnel struct {
	net.Conn
	name string
	via  *proxyNode

	// polling makes Read return without blocking. Only the owner of the tunnel may set it, while no other goroutine
	// reads.
	polling bool
	poll    poll
}

// Close closes the connection and unregisters it. It may be called more than once.
func (t *tunnel) Close() error {
	t.via.tunnels.remove(t)
	return t.Conn.Close()
}

func (t *tunnel) Read(p []byte) (int, error) {
	if t.polling {
		n, err := t.poll.read(t.Conn, p)
		if errors.Is(err, errNothingArrived) {
			return n, errNothingArrived
		}
		return n, hideAddresses("read", err)
	}
	n, err := t.Conn.Read(p)
	return n, hideAddresses("read", err)
}

func (t *tunnel) Write(p []byte) (int, error) {
	n, err := t.Conn.Write(p)
	return n, hideAddresses("write", err)
}

// RemoteAddr returns the proxy's name, region/index.
func (t *tunnel) RemoteAddr() net.Addr { return tunnelAddr(t.name) }

// LocalAddr hides the node's address in the proxy's network.
func (t *tunnel) LocalAddr() net.Addr { return tunnelAddr("node") }

type tunnelAddr string

func (tunnelAddr) Network() string  { return "tunnel" }
func (a tunnelAddr) String() string { return string(a) }

// tunnelError is an error of a read or write, without addresses.
type tunnelError struct {
	op    string
	cause error // an error number or a bare sentinel
	late  bool
}

func (e *tunnelError) Error() string   { return e.op + " in the tunnel: " + e.cause.Error() }
func (e *tunnelError) Unwrap() error   { return e.cause }
func (e *tunnelError) Timeout() bool   { return e.late }
func (e *tunnelError) Temporary() bool { return e.late }

// hideAddresses replaces a network error, which contains addresses, by a tunnelError.
func hideAddresses(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // io.EOF must be passed on unwrapped, and is never wrapped here
		return err
	}
	late := isTimeout(err)
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

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	late, ok := errors.AsType[net.Error](err)
	return ok && late.Timeout()
}

// isHangup reports whether an error means that the other side closed the connection.
func isHangup(err error) bool {
	if _, ok := errors.AsType[*tunnelError](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
