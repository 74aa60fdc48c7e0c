package egress

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// Limits of a request to a service of the operator's.
const (
	directConnect = 5 * time.Second
	directTotal   = 10 * time.Second
	directAnswer  = 1 << 20
	directHeader  = 64 << 10
)

// NewDirect makes the way to services that the operator has named in the settings, such as an identity provider: straight, over TLS, and
// without redirects. Unlike customers' URLs they may be in the operator's own network. Plain http is for this machine only, or for a
// development machine if plain is true.
func NewDirect(plain bool) *http.Client {
	return &http.Client{
		Timeout: directTotal,
		Transport: direct{plain, &http.Transport{
			Proxy: nil, DialContext: (&net.Dialer{Timeout: directConnect}).DialContext, TLSHandshakeTimeout: directConnect,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: directHeader,
		}},
		// A redirect would take a secret to a server that nobody has named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// direct refuses plain http, and bounds what is read.
type direct struct {
	plain bool
	next  *http.Transport
}

var errPlain = errors.New("plain http is used on this machine only")

// RoundTrip sends a request.
func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !d.plain && !here(req.URL.Hostname()) {
		if req.Body != nil {
			_ = req.Body.Close() // nothing was read of it
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

// CloseIdleConnections lets go of idle connections.
func (d direct) CloseIdleConnections() { d.next.CloseIdleConnections() }

type bounded struct {
	io.Reader
	io.Closer
}

// here says whether a host is this machine.
func here(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
