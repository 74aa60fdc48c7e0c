package egress

import (
	"bytes"
	"cmp"
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
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/tracing"
)

const (
	publicConnect = 5 * time.Second // including name resolution
	publicTLS     = 5 * time.Second
	publicTotal   = 10 * time.Second
	publicLookup  = 3 * time.Second
	publicAnswer  = 16 << 10 // bytes of the body that are read
	publicHeader  = 64 << 10
	// As many idle connections are kept as deliveries run concurrently, in total and per host: a new connection costs
	// more than a delivery.
	publicIdle    = 4096
	publicPerHost = 256

	// blockedFor is the minimum time that a blocked request takes, so that its duration does not reveal the reason.
	blockedFor = time.Second
)

// PublicConfig holds the operator's settings for webhooks.
type PublicConfig struct {
	// Loopback allows http and https to this machine, on any port. It is for development only.
	Loopback bool
	// Deny lists networks that must not be reached although their addresses are public.
	Deny []netip.Prefix
	// Roots verify receivers. Default: the system's.
	Roots *x509.CertPool
	// Resolver resolves names. Default: the system's.
	Resolver *net.Resolver
	// BeforeConnect can make a connection fail, for tests; nil otherwise.
	BeforeConnect func() error
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	Now      func() time.Time
}

// Public sends requests to customers' URLs: directly, only to public addresses, and without following redirects. It is
// safe for concurrent use.
type Public struct {
	config     PublicConfig
	guard      *guard
	transport  *http.Transport
	port       string
	minBlocked time.Duration
	total      time.Duration
	sends      *prometheus.CounterVec
	answered   prometheus.Counter
}

// NewPublic returns a client. It does not connect to anything.
func NewPublic(c PublicConfig) *Public {
	p := &Public{config: c, guard: newGuard(c.Deny), port: "443", minBlocked: blockedFor, total: publicTotal}
	if c.Resolver == nil {
		p.config.Resolver = net.DefaultResolver
	}
	if c.Loopback {
		p.guard.exempt = loopback
	}
	p.sends = promauto.With(c.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "stagedoor_egress_public_total",
		Help: "Requests to customers' URLs, by outcome: answered or the reason of the failure.",
	}, []string{"outcome"})
	p.answered = p.sends.WithLabelValues("answered")
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	p.transport = &http.Transport{
		Proxy:                  nil, // with a proxy, the guard would check the proxy's address
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

// dial connects to an address if the guard allows it.
func (p *Public) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: publicConnect, Resolver: p.config.Resolver, ControlContext: p.guard.control}
	if p.config.BeforeConnect != nil {
		d.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
			return cmp.Or(p.guard.control(ctx, network, address, c), p.config.BeforeConnect())
		}
	}
	return d.DialContext(ctx, network, withRootDot(address))
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
		_ = conn.Close() // it is discarded, so an error does not matter
		return nil, fmt.Errorf("%w: %w", errTLS, err)
	}
	return secured, nil
}

// Failure is why a request got no response, as a word that tells the customer nothing about our network.
type Failure string

// The failures.
const (
	FailBlocked  Failure = "destination_blocked" // not allowed, not public, or the name does not resolve
	FailConnect  Failure = "connect"             // no connection to the address
	FailTLS      Failure = "tls"                 // the certificate is not valid or the handshake failed
	FailTimeout  Failure = "timeout"
	FailBroken   Failure = "connection_broken"
	FailResponse Failure = "bad_response" // not HTTP, or a header of more than 64 KiB
)

// ErrExhausted means that this machine has no file descriptors, ports or memory for another connection. It says nothing
// about the receiver.
var ErrExhausted = errors.New("this machine cannot open another connection")

// Error returns the failure as text.
func (f Failure) Error() string { return "request to the customer's URL failed: " + string(f) }

// Answer is the response of a receiver.
type Answer struct {
	Status int
	Header http.Header
	// Body is the part of the body that arrived in time, at most 16 KiB.
	Body []byte
	// Reason says in words why there was no response; empty if there was one.
	Reason string
}

// CheckURL checks a URL before it is saved: its form, and that its host resolves to public addresses only. The error is
// the problem unsafe-url, or the context's.
func (p *Public) CheckURL(ctx context.Context, raw string) error {
	u, err := parseURL(raw, p.port, p.isExempt)
	if err != nil {
		return err
	}
	if p.isExempt(u) {
		return nil
	}
	started := p.config.Now()
	if _, err := p.guard.resolve(ctx, p.config.Resolver, u.Hostname()); err == nil {
		return nil
	}
	waitMinBlocked(ctx, p.config.Now, started, p.minBlocked)
	if ctx.Err() != nil {
		return fmt.Errorf("check a URL: %w", context.Cause(ctx))
	}
	return unsafeURL("address", "The host does not resolve to a public address.")
}

// Target is a URL whose form was checked once, for many requests. The zero Target is blocked.
type Target struct{ url *url.URL }

// Host returns scheme, host and port, which identify the receiver.
func (t Target) Host() string {
	if t.url == nil {
		return ""
	}
	return t.url.Scheme + "://" + t.url.Host
}

// Target checks the form of a URL, as CheckURL does. Its addresses are checked each time a connection is opened.
func (p *Public) Target(raw string) (Target, error) {
	u, err := parseURL(raw, p.port, p.isExempt)
	return Target{u}, err
}

// isExempt reports whether a URL leads to this machine and the operator allows that.
func (p *Public) isExempt(u *url.URL) bool {
	return p.config.Loopback && isLoopbackHost(u.Hostname()) && (u.Scheme == "http" || u.Scheme == "https")
}

// Post sends a body to a URL. Every response counts as a success, regardless of its status, including redirects. The
// error is a Failure, ErrExhausted, or the context's.
func (p *Public) Post(ctx context.Context, raw string, header http.Header, body []byte) (Answer, error) {
	// A URL that was saved under older rules may be invalid now. Its target is empty, and so blocked.
	target, err := p.Target(raw)
	if err != nil {
		target = Target{}
	}
	return p.Send(ctx, target, header.Clone(), body)
}

// Send is Post to a target. It takes ownership of the header.
func (p *Public) Send(ctx context.Context, target Target, header http.Header, body []byte) (Answer, error) {
	started := p.config.Now()
	answer, err := p.send(ctx, target, header, body)
	if err == nil {
		p.answered.Inc()
		return answer, nil
	}
	outcome := "cancelled"
	if errors.Is(err, ErrExhausted) {
		outcome = "exhausted"
	}
	if f, failed := errors.AsType[Failure](err); failed {
		outcome = string(f)
		if f == FailBlocked {
			waitMinBlocked(ctx, p.config.Now, started, p.minBlocked)
		}
	}
	p.sends.WithLabelValues(outcome).Inc()
	return answer, err
}

// replayable makes net/http resend a request on a new connection if the receiver closes an idle one at that moment. The
// key is set with no values, so no header is sent.
const replayable = "Idempotency-Key"

func (p *Public) send(ctx context.Context, target Target, header http.Header, body []byte) (Answer, error) {
	if target.url == nil {
		return Answer{Reason: p.explain(FailBlocked, nil)}, FailBlocked
	}
	if header == nil {
		header = http.Header{}
	}
	header[replayable] = nil
	limited, cancel := context.WithTimeout(ctx, p.total)
	defer cancel()
	req := (&http.Request{
		Method: http.MethodPost, URL: target.url, Host: target.url.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: header, Body: newBodyReader(body), ContentLength: int64(len(body)),
		GetBody: func() (io.ReadCloser, error) { return newBodyReader(body), nil },
	}).WithContext(limited)
	_, span := tracing.Start(ctx, http.MethodPost, trace.SpanKindClient)
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		endSpan(span, 0)
		return p.fail(ctx, err)
	}
	endSpan(span, resp.StatusCode)
	defer resp.Body.Close()
	// At the timeout the transport hangs up, but it may still return a response that arrives just then.
	if err := limited.Err(); err != nil {
		return p.fail(ctx, err)
	}
	// An error of the body counts only if the caller has gone away.
	text, err := readAnswer(resp)
	if err != nil && ctx.Err() != nil {
		return Answer{}, classifyError(ctx, err)
	}
	return Answer{Status: resp.StatusCode, Header: resp.Header, Body: text}, nil
}

// fail returns the answer and the error of a request without a response.
func (p *Public) fail(ctx context.Context, err error) (Answer, error) {
	classified := classifyError(ctx, err)
	if failure, ok := errors.AsType[Failure](classified); ok {
		return Answer{Reason: p.explain(failure, err)}, failure
	}
	return Answer{}, classified
}

// newBodyReader returns a reader of the body. An empty body must be http.NoBody; with any other reader net/http would
// take the length 0 for unknown.
func newBodyReader(body []byte) io.ReadCloser {
	if len(body) == 0 {
		return http.NoBody
	}
	return io.NopCloser(bytes.NewReader(body))
}

// readAnswer reads the beginning of a body. The status alone is a valid response, so a body that is endless, broken
// or slow is cut off. A body of known length needs no growing buffer.
func readAnswer(resp *http.Response) ([]byte, error) {
	if n := resp.ContentLength; n >= 0 && n <= publicAnswer {
		text := make([]byte, n)
		got, err := io.ReadFull(resp.Body, text)
		return text[:got], err
	}
	return io.ReadAll(io.LimitReader(resp.Body, publicAnswer))
}

// classifyError returns the Failure for an error, or ErrExhausted. It drops the error itself, which contains addresses.
func classifyError(ctx context.Context, err error) error {
	_, noName := errors.AsType[*net.DNSError](err)
	op, atNetwork := errors.AsType[*net.OpError](err)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("send to a customer's URL: %w", context.Cause(ctx))
	case isExhausted(err):
		return ErrExhausted
	case errors.Is(err, errBlocked), noName:
		return FailBlocked
	case isTimeout(err):
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

// waitMinBlocked waits until the minimum time of a blocked request has passed.
func waitMinBlocked(ctx context.Context, now func() time.Time, since time.Time, minimum time.Duration) {
	timer := time.NewTimer(minimum - now().Sub(since))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (p *Public) Close() { p.transport.CloseIdleConnections() }
