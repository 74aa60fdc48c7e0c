package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// The errors of Call and Do. Other errors are the context's, ErrOrigin, and two problems: egress-unavailable if no
// proxy of the region opens a tunnel, and upstream/unavailable if the proxies work but report that they cannot reach
// the platform. For a site, upstream/unavailable also means that its host is not public (ErrNotPublic) or that any
// other failure may be the site's fault.
var (
	// ErrNotSent is wrapped by every error that occurred before any byte was sent. Even a write may be repeated.
	ErrNotSent = errors.New("nothing was sent")
	// ErrBroken means that the connection ended before the response did. The platform may have acted on the request.
	ErrBroken = errors.New("the connection to the platform broke")
	// ErrMalformed means that the response is not HTTP, has a header of more than 64 KiB, or has an invalid encoding.
	ErrMalformed = errors.New("the platform's response is malformed")
	// ErrNoAnswer means that the header of the response did not arrive within Limits.Header.
	ErrNoAnswer = errors.New("the platform did not answer in time")
	// ErrStalled means that nothing arrived for Limits.Idle in the middle of the body.
	ErrStalled = errors.New("the platform's response stalled")
	// ErrTooLong means that the whole call took longer than Limits.Total.
	ErrTooLong = errors.New("the platform's response took too long")
	// ErrTooLarge means that the body is larger than Limits.Bytes.
	ErrTooLarge = errors.New("the platform's response is too large")
	// ErrBomb means that the body has an implausible compression ratio.
	ErrBomb = errors.New("the platform's response has an implausible compression ratio")
)

// retryAfter is the wait that callers are advised, in seconds. By then the next health check has run.
const retryAfter = 5

// Client sends the requests of one identity. It is a small stateless value; Egress keeps the connections.
type Client struct {
	egress  *Egress
	who     Identity
	origins Origins
}

// HTTP returns an *http.Client for libraries that need one, such as a WebSocket library. Its errors contain the URL, so
// do not log them.
func (c *Client) HTTP() *http.Client {
	return &http.Client{
		Transport:     c,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip is Do with the default limits.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) { return c.Do(req, Limits{}) }

// Do sends a request and waits for the header of the response. The limits apply to the body as well: reading it returns
// one of the errors above when it exceeds them. The caller must close the body or read it to its end. A gzip body is
// decompressed.
//
// If a proxy does not open a connection, Do tries the next proxy of the region. It never resends a request that may
// have reached the platform. Each call has its own connection, which is closed afterwards.
func (c *Client) Do(req *http.Request, limits Limits) (*http.Response, error) {
	address, err := c.origins.addressOf(req.URL)
	if err == nil && !isValidAccount(c.who.Account) {
		err = errAccount
	}
	if err != nil {
		if req.Body != nil {
			err = errors.Join(err, req.Body.Close())
		}
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	ctx, span := c.startSpan(req.Context(), req.Method, address, req.URL.Hostname())
	x, out := startExchange(c.egress, req, limits)
	if parent := c.traceparent(ctx, address); parent != "" {
		if out.Header = out.Header.Clone(); out.Header == nil {
			out.Header = http.Header{}
		}
		out.Header.Set("Traceparent", parent)
	}
	began := c.egress.deps.Now()
	resp, err := c.sendViaProxies(x, out, address)
	x.releaseBody(req, err)
	if err != nil {
		c.observeRequest(ctx, 0, began)
		endSpan(span, 0)
		err = x.translateError(err)
		x.end()
		return nil, err
	}
	c.observeRequest(ctx, resp.StatusCode, began)
	endSpan(span, resp.StatusCode)
	resp.Request = req
	return x.wrapResponse(resp)
}

// sendViaProxies tries the proxies of the region in the account's order of preference, at most maxTries of them.
func (c *Client) sendViaProxies(x *exchange, out *http.Request, address string) (*http.Response, error) {
	account, order := c.who.Account, hash(c.who.Account)
	r := c.egress.region(c.who.Region)
	tried, faults := make([]*proxyNode, 0, maxTries), []*fault(nil)
	for r != nil && len(tried) < maxTries {
		p := r.pick(order, tried)
		if p == nil {
			break
		}
		tried = append(tried, p)
		out.URL.Host = account + "." + p.label + "." + address
		resp, err := c.egress.transport.RoundTrip(out)
		if err == nil {
			return resp, nil
		}
		// Only a failed dial leads to the next proxy. If all dials together took too long, this is the last one.
		// After any other error the request may have been sent.
		f, failed := errors.AsType[*fault](err)
		switch {
		case errors.Is(err, errDialling):
			f = &fault{proxy: p.name, reason: slow}
		case failed:
		default:
			return nil, err
		}
		faults = append(faults, f)
		if !failed || f.reason == blocked || !x.rewind(out) {
			break
		}
	}
	return nil, c.unavailableProblem(faults, isSite(address), false)
}

// unavailableProblem returns the problem for a call that got no tunnel. arrived means that an earlier try on a reused
// connection may have reached the platform. If every proxy reported that it cannot reach the platform, the problem is
// the platform's. If it is a site, everything that may be the site's fault counts as such a report.
func (c *Client) unavailableProblem(faults []*fault, site, arrived bool) error {
	unreached := 0
	list := []error{errors.New("no proxy is healthy")} // replaced by the faults, if there are any
	for i, f := range faults {
		list = append(list[:i], f)
		if f.reason == unreachable || site && classifySiteDial(f.reason) == unclear {
			unreached++
		}
	}
	cause := errors.Join(list...)
	if n := len(faults); n > 0 && faults[n-1].reason == exhausted {
		return problem.ServiceUnavailable.New("This server cannot open more connections at the moment.").After(retryAfter).Because(cause)
	}
	if !arrived {
		cause = fmt.Errorf("%w: %w", ErrNotSent, cause)
	}
	if unreached > 0 && unreached == len(faults) {
		if site {
			return siteProblem(c.who.Region, faults[unreached-1].reason, cause)
		}
		return problem.UpstreamUnavailable.Newf("The platform cannot be reached from the region %s.", c.who.Region).After(retryAfter).Because(cause)
	}
	if r := c.egress.region(c.who.Region); r != nil && r.switchedOff.Load() {
		return problem.EgressUnavailable.Newf("The region %s is switched off by the operators of this service, for a while.", c.who.Region).After(retryAfter).Because(cause)
	}
	return problem.EgressUnavailable.Newf("No egress is available in the region %s.", c.who.Region).After(retryAfter).Because(cause)
}

var errAccount = errors.New("the account is not a valid identifier")

// isValidAccount reports whether an account can be part of a pool key, which is separated by dots.
func isValidAccount(account string) bool {
	return account != "" && len(account) <= 128 && !strings.ContainsFunc(account, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

func (e *Egress) dialPlain(ctx context.Context, _, key string) (net.Conn, error) {
	return e.dial(ctx, key, false)
}

func (e *Egress) dialTLS(ctx context.Context, _, key string) (net.Conn, error) {
	return e.dial(ctx, key, true)
}

// dial opens a connection for a pool key (account.region.fingerprint.host:port). The key alone determines the route, so a
// connection can only be pooled under the identity that it was made for. It also records the result for the proxy's
// health. A site has no part in the checks of proxies, because a customer chose it.
func (e *Egress) dial(ctx context.Context, key string, secure bool) (net.Conn, error) {
	p, to, site, err := e.parseKey(key)
	if err != nil {
		return nil, err
	}
	to.secure = secure
	began := e.deps.Now()
	var conn net.Conn
	if site {
		conn, err = e.dialSite(ctx, p, to, key)
	} else {
		p.region.lastTarget.Store(&to)
		conn, err = e.dialer.openTunnel(ctx, p, to, to.address(), key)
	}
	why := succeeded
	if f, ok := errors.AsType[*fault](err); ok {
		why = f.reason
	}
	e.metrics.dials.WithLabelValues(p.region.name, string(why)).Inc()
	if site {
		e.observe(ctx, p, classifySiteDial(why), why)
		return conn, err
	}
	p.recordLatency(why, e.deps.Now().Sub(began))
	e.observe(ctx, p, classifyDial(why, len(e.deps.Config.Check.list) > 0), why)
	return conn, err
}

// parseKey splits a pool key into its proxy and target. site means that the target is a site.
func (e *Egress) parseKey(key string) (p *proxyNode, to target, site bool, err error) {
	parts := strings.SplitN(key, ".", 4)
	if len(parts) == 4 {
		host, port, err := net.SplitHostPort(strings.TrimPrefix(parts[3], siteMarker))
		if p := e.routes.Load().byLabel[parts[1]+"."+parts[2]]; err == nil && p != nil {
			return p, target{host: host, port: port}, isSite(parts[3]), nil
		}
	}
	return nil, target{}, false, errors.New("a connection was requested without an identity")
}

// Read reads the body of a response of Do to its end and closes it.
func Read(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	return text, nil
}
