package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Limits of requests to the operator's services. directAnswer and directHeader are bytes.
const (
	directConnect = 5 * time.Second
	directTotal   = 10 * time.Second
	directAnswer  = 1 << 20
	directHeader  = 64 << 10
)

// NewDirect returns a client for services that the operator has configured, such as an identity provider. It connects
// directly, requires TLS and does not follow redirects. Unlike customers' URLs, these services may be in the
// operator's own network. Plain http is allowed to this machine only, or everywhere if allowPlain is true, which is
// for development.
func NewDirect(allowPlain bool) *http.Client { return NewDirectTrusting(allowPlain, nil) }

// NewDirectTrusting is NewDirect for services whose certificates are signed by these authorities; nil means those of the
// system.
func NewDirectTrusting(allowPlain bool, roots *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout: directTotal,
		Transport: direct{allowPlain, &http.Transport{
			Proxy: nil, DialContext: (&net.Dialer{Timeout: directConnect}).DialContext, TLSHandshakeTimeout: directConnect,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: directHeader,
		}},
		// A redirect could send a secret to a server that the operator has not configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// DialDirect returns a function that connects to a service that the operator has configured and that does not speak HTTP,
// such as a syslog server. With TLS, its certificate must be signed by one of the authorities; nil means those of the
// system.
func DialDirect(address string, encrypted bool, roots *x509.CertPool) func(context.Context) (net.Conn, error) {
	plain := &net.Dialer{Timeout: directConnect}
	secured := &tls.Dialer{NetDialer: plain, Config: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}}
	return func(ctx context.Context) (net.Conn, error) {
		if encrypted {
			return secured.DialContext(ctx, "tcp", address)
		}
		return plain.DialContext(ctx, "tcp", address)
	}
}

// direct rejects plain http and bounds the response body.
type direct struct {
	allowPlain bool
	next       *http.Transport
}

var errPlain = errors.New("plain http is allowed to this machine only")

// RoundTrip sends a request.
func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !d.allowPlain && !isThisMachine(req.URL.Hostname()) {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must close the body
		}
		return nil, errPlain
	}
	resp, err := d.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = bounded{io.LimitReader(resp.Body, directAnswer), resp.Body}
	return resp, nil
}

func (d direct) CloseIdleConnections() { d.next.CloseIdleConnections() }

type bounded struct {
	io.Reader
	io.Closer
}

// isThisMachine reports whether a host is localhost or a loopback address.
func isThisMachine(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
