package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	publicConnect = 5 * time.Second // looking up the name included
	publicTLS     = 5 * time.Second
	publicTotal   = 10 * time.Second
	publicLookup  = 3 * time.Second
	publicAnswer  = 16 << 10
	publicHeader  = 64 << 10
	// As many connections are kept as deliveries run at once, on the whole and to one host: a new one costs more than the delivery.
	publicIdle    = 4096
	publicPerHost = 256

	// blockedFor is how long a refused destination takes, so that the time does not tell why it was refused.
	blockedFor = time.Second
)

// PublicConfig is what an operator decides about webhooks.
type PublicConfig struct {
	// Loopback allows http and https to this machine, on any port: for development, never in production.
	Loopback bool
	// Deny are networks of the operator's that must not be reached although their addresses are public.
	Deny []netip.Prefix
	// Roots verify receivers; nil means the system's.
	Roots *x509.CertPool
	// Resolver looks names up; nil means the system's.
	Resolver *net.Resolver
	Now      func() time.Time
}

// Public sends requests to URLs that customers gave: straight, only to public addresses, without redirects.
type Public struct {
	config    PublicConfig
	guard     *guard
	transport *http.Transport
	port      string
	floor     time.Duration
	total     time.Duration
	sends     *prometheus.CounterVec
	answered  prometheus.Counter
}

// NewPublic makes the client. It connects to nothing.
func NewPublic(c PublicConfig) *Public {
	p := &Public{config: c, guard: newGuard(c.Deny), port: "443", floor: blockedFor, total: publicTotal}
	if c.Resolver == nil {
		p.config.Resolver = net.DefaultResolver
	}
	if c.Loopback {
		p.guard.open = loopback
	}
	p.sends = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "stagedoor_egress_public_total",
		Help: "Requests to customers' URLs: answered, or why not.",
	}, []string{"outcome"})
	p.answered = p.sends.WithLabelValues("answered")
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	p.transport = &http.Transport{
		Proxy:                  nil, // behind a proxy the guard would see the proxy's address
		DialContext:            p.dial,
		DialTLSContext:         p.dialTLS,
		Protocols:              protocols,
		DisableCompression:     true,
		MaxIdleConns:           publicIdle,
		MaxIdleConnsPerHost:    publicPerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: publicHeader,
	}
	return p
}

// dial connects to an address that the guard allows.
func (p *Public) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: publicConnect, Resolver: p.config.Resolver, ControlContext: p.guard.control}
	return d.DialContext(ctx, network, rooted(address))
}

var errTLS = errors.New("no valid TLS")

func (p *Public) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := p.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, publicTLS)
	defer cancel()
	secured := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.config.Roots, ServerName: host})
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // of no use any more
		return nil, fmt.Errorf("%w: %w", errTLS, err)
	}
	return secured, nil
}

// Failure is why a request had no answer, in a word that tells the customer nothing about our network.
type Failure string

// The failures.
const (
	FailBlocked  Failure = "destination_blocked" // not allowed, not public, or the name is not known
	FailConnect  Failure = "connect"             // nobody answers at the address
	FailTLS      Failure = "tls"                 // the certificate or the handshake is not valid
	FailTimeout  Failure = "timeout"
	FailBroken   Failure = "connection_broken"
	FailResponse Failure = "bad_response" // not HTTP, or a header of more than 64 KiB
)

// Error makes a failure an error.
func (f Failure) Error() string { return "request to the customer's URL failed: " + string(f) }

// Answer is what a receiver said.
type Answer struct {
	Status int
	Header http.Header
	// Body is what came of it in time, at most 16 KiB.
	Body []byte
}

// CheckURL says whether a URL may be saved: its form, and that its host has public addresses only. The error is the
// problem unsafe-url.
func (p *Public) CheckURL(ctx context.Context, raw string) error {
	u, err := parseURL(raw, p.port, p.config.Loopback)
	if err != nil {
		return err
	}
	if p.config.Loopback && loopbackHost(u.Hostname()) {
		return nil
	}
	started := p.config.Now()
	lookup, cancel := context.WithTimeout(ctx, publicLookup)
	defer cancel()
	found, err := p.config.Resolver.LookupNetIP(lookup, "ip", u.Hostname()+".")
	for _, addr := range found {
		err = errors.Join(err, p.guard.allow(netip.AddrPortFrom(addr.Unmap(), 443)))
	}
	if err == nil && len(found) > 0 {
		return nil
	}
	p.hold(ctx, started)
	if ctx.Err() != nil {
		return fmt.Errorf("check a URL: %w", context.Cause(ctx))
	}
	return unsafeURL("address", "The host does not resolve to a public address.")
}

// Target is a URL that was looked at, so that many requests to it need not.
type Target struct{ url *url.URL }

// Host tells receivers apart: scheme, name and port.
func (t Target) Host() string {
	if t.url == nil {
		return ""
	}
	return t.url.Scheme + "://" + t.url.Host
}

// Target judges the form of a URL, as CheckURL does. Its addresses are judged whenever it is connected to.
func (p *Public) Target(raw string) (Target, error) {
	u, err := parseURL(raw, p.port, p.config.Loopback)
	return Target{u}, err
}

// Post sends a body to a URL. Every answer is a success, whatever its status; redirects are answers too. The error is a
// Failure, or the context's.
func (p *Public) Post(ctx context.Context, raw string, header http.Header, body []byte) (Answer, error) {
	// Of a URL that was saved under other rules the target is empty, and blocked.
	target, err := p.Target(raw)
	if err != nil {
		target = Target{}
	}
	return p.Send(ctx, target, header.Clone(), body)
}

// Send is Post to a target. The header is its own from now on.
func (p *Public) Send(ctx context.Context, target Target, header http.Header, body []byte) (Answer, error) {
	started := p.config.Now()
	answer, err := p.send(ctx, target, header, body)
	if err == nil {
		p.answered.Inc()
		return answer, nil
	}
	outcome := "cancelled"
	if f, failed := errors.AsType[Failure](err); failed {
		outcome = string(f)
		if f == FailBlocked {
			p.hold(ctx, started)
		}
	}
	p.sends.WithLabelValues(outcome).Inc()
	return answer, err
}

// replayable has a request sent again on another connection if a receiver closes an idle one just then. It is not a header: one
// without a value is not sent.
const replayable = "Idempotency-Key"

func (p *Public) send(ctx context.Context, target Target, header http.Header, body []byte) (Answer, error) {
	if target.url == nil {
		return Answer{}, FailBlocked
	}
	if header == nil {
		header = http.Header{}
	}
	header[replayable] = nil
	limited, cancel := context.WithTimeout(ctx, p.total)
	defer cancel()
	req := (&http.Request{
		Method: http.MethodPost, URL: target.url, Host: target.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: again(body), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return again(body), nil },
	}).WithContext(limited)
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return Answer{}, failure(ctx, err)
	}
	defer resp.Body.Close()
	// When time is over the transport hangs up, and may still give what a receiver answers to that.
	if err := limited.Err(); err != nil {
		return Answer{}, failure(ctx, err)
	}
	text, err := readAnswer(resp)
	if err != nil && ctx.Err() != nil {
		return Answer{}, failure(ctx, err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: text}, nil
}

// again reads a body from its beginning. None is said to be none: of another the length would be taken for unknown.
func again(body []byte) io.ReadCloser {
	if len(body) == 0 {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(body))
}

// readAnswer reads what there is of a body. A status is an answer: a body that does not end, breaks or drips is cut, and that is all.
// What is as short as it says needs no growing buffer.
func readAnswer(resp *http.Response) ([]byte, error) {
	if n := resp.ContentLength; n >= 0 && n <= publicAnswer {
		text := make([]byte, n)
		got, err := io.ReadFull(resp.Body, text)
		return text[:got], err
	}
	return io.ReadAll(io.LimitReader(resp.Body, publicAnswer))
}

// failure names what went wrong. Nothing of the error itself is kept: it holds addresses.
func failure(ctx context.Context, err error) error {
	_, noName := errors.AsType[*net.DNSError](err)
	op, atNetwork := errors.AsType[*net.OpError](err)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("send to a customer's URL: %w", context.Cause(ctx))
	case errors.Is(err, errBlocked), noName:
		return FailBlocked
	case timedOut(err):
		return FailTimeout
	case atNetwork && op.Op == "dial":
		return FailConnect
	case errors.Is(err, errTLS):
		return FailTLS
	case atNetwork, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return FailBroken
	}
	return FailResponse
}

// hold waits until a refusal has taken its time.
func (p *Public) hold(ctx context.Context, since time.Time) {
	timer := time.NewTimer(p.floor - p.config.Now().Sub(since))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Close closes idle connections.
func (p *Public) Close() { p.transport.CloseIdleConnections() }

// Collectors are to be registered.
func (p *Public) Collectors() []prometheus.Collector { return []prometheus.Collector{p.sends} }
