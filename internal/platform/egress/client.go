package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// What can go wrong, besides the context's end, ErrOrigin, and these problems: egress-unavailable if no proxy of the
// region gives a tunnel, upstream/unavailable if proxies work and say that they cannot reach the platform.
var (
	// ErrNotSent is in every error that came before the request could be sent: also a write may be repeated.
	ErrNotSent = errors.New("nothing was sent")
	// ErrBroken means that the connection ended before the answer did. The platform may have acted on the request.
	ErrBroken = errors.New("the connection to the platform broke")
	// ErrMalformed means that the answer is not HTTP, has a header of more than 64 KiB, or is encoded wrongly.
	ErrMalformed = errors.New("the platform's answer is malformed")
	// ErrNoAnswer means that the header of the answer did not come within Limits.Header.
	ErrNoAnswer = errors.New("the platform did not answer in time")
	// ErrStalled means that nothing came for Limits.Idle in the middle of the body.
	ErrStalled = errors.New("the platform's answer stalled")
	// ErrTooLong means that the whole call took longer than Limits.Total.
	ErrTooLong = errors.New("the platform's answer took too long")
	// ErrTooLarge means that the body is larger than Limits.Bytes.
	ErrTooLarge = errors.New("the platform's answer is too large")
	// ErrBomb means that the body is compressed beyond reason.
	ErrBomb = errors.New("the platform's answer inflates beyond reason")
)

// retryAfter is what callers are told to wait, in seconds: a check later the region may be back.
const retryAfter = 5

// Client sends the requests of one identity. It is a small value without state; connections are kept by Egress.
type Client struct {
	egress  *Egress
	who     Identity
	origins Origins
}

// HTTP is the client for libraries that want an *http.Client, such as WebSockets. Its errors hold the URL, so do not log them.
func (c *Client) HTTP() *http.Client {
	return &http.Client{
		Transport:     c,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip is Do with the default limits.
func (c *Client) RoundTrip(req *http.Request) (*http.Response, error) { return c.Do(req, Limits{}) }

// Do sends a request and waits for the header of the answer. The body is bounded by the limits: reading it gives one of
// the errors above when it goes beyond. It must be closed, or read to its end. A gzip body arrives inflated.
//
// A request that found no connection tries the next proxy of the region. One that may have reached the platform is not repeated. The
// connection is the call's own and is closed after it.
func (c *Client) Do(req *http.Request, limits Limits) (*http.Response, error) {
	address, err := c.origins.find(req.URL)
	if err == nil && !soundAccount(c.who.Account) {
		err = errAccount
	}
	if err != nil {
		if req.Body != nil {
			err = errors.Join(err, req.Body.Close())
		}
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	x, out := begin(c.egress, req, limits)
	resp, err := c.send(x, out, address)
	x.sent(req, err)
	if err != nil {
		err = x.explain(err)
		x.end()
		return nil, err
	}
	resp.Request = req
	return x.receive(resp)
}

// send tries the account's proxies in the account's order.
func (c *Client) send(x *exchange, out *http.Request, address string) (*http.Response, error) {
	account, order := c.who.Account, hash(c.who.Account)
	r := c.egress.regions[c.who.Region]
	tried, faults := make([]*node, 0, maxTries), []*fault(nil)
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
		f, failed := errors.AsType[*fault](err)
		switch {
		case errors.Is(err, errDialling):
			f = &fault{proxy: p.name, reason: slow}
		case failed:
		default:
			return nil, err
		}
		faults = append(faults, f)
		if !failed || !x.rewind(out) {
			break
		}
	}
	return nil, c.unavailable(faults, false)
}

// unavailable is the answer when no proxy gave a tunnel.
func (c *Client) unavailable(faults []*fault, arrived bool) error {
	blamed := 0 // on the platform
	list := []error{errors.New("no proxy is healthy")}
	for i, f := range faults {
		list = append(list[:i], f)
		if f.reason == unreachable {
			blamed++
		}
	}
	cause := errors.Join(list...)
	if !arrived {
		cause = fmt.Errorf("%w: %w", ErrNotSent, cause)
	}
	if blamed > 0 && blamed == len(faults) {
		return problem.UpstreamUnavailable.Newf("The platform cannot be reached from the region %s.", c.who.Region).After(retryAfter).Because(cause)
	}
	if r := c.egress.regions[c.who.Region]; r != nil && r.off.Load() {
		return problem.EgressUnavailable.Newf("The region %s is switched off by the operators of this service, for a while.", c.who.Region).After(retryAfter).Because(cause)
	}
	return problem.EgressUnavailable.Newf("No egress is available in the region %s.", c.who.Region).After(retryAfter).Because(cause)
}

var errAccount = errors.New("the account is no identifier")

// soundAccount keeps the account one part of a pool's key.
func soundAccount(account string) bool {
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

// dial opens a connection for a pool's key. The key alone says where it goes, so a connection can only ever be kept
// under the identity that it was made for.
func (e *Egress) dial(ctx context.Context, key string, secure bool) (net.Conn, error) {
	p, to, err := e.read(key)
	if err != nil {
		return nil, err
	}
	to.secure = secure
	p.region.asked.Store(&to)
	began := e.Now()
	conn, err := e.dialer.open(ctx, p, to, key)
	why := succeeded
	if f, ok := errors.AsType[*fault](err); ok {
		why = f.reason
	}
	p.took(why, e.Now().Sub(began))
	e.metrics.dials.WithLabelValues(p.region.name, string(why)).Inc()
	e.observe(ctx, p, judgeDial(why, len(e.Config.Check.addresses) > 0), why)
	return conn, err
}

// read takes a pool's key apart: account.region.place.host:port.
func (e *Egress) read(key string) (*node, target, error) {
	parts := strings.SplitN(key, ".", 4)
	if len(parts) == 4 {
		host, port, err := net.SplitHostPort(parts[3])
		place, bad := strconv.Atoi(parts[2])
		if r := e.regions[parts[1]]; err == nil && bad == nil && r != nil && place < len(r.proxies) {
			return r.proxies[place], target{host: host, port: port}, nil
		}
	}
	return nil, target{}, errors.New("a connection was asked for without an identity")
}

// Read reads a body to its end, within its limits, and closes it.
func Read(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return text, nil
}
