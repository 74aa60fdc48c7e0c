package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// CallStreaming is Call over the standard transport.
func (c *Client) CallStreaming(ctx context.Context, q *Request, limits Limits) (Reply, error) {
	return c.callStreaming(ctx, q, limits)
}

// Idle returns the number of idle connections that Call keeps.
func (e *Egress) Idle() int {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	return e.pool.count
}

// Near returns a Public that treats a network of this machine as public and a port as 443, with shorter times.
func Near(c PublicConfig, network netip.Prefix, port int, minBlocked, total time.Duration) *Public {
	p := NewPublic(c)
	p.guard.exempt = append(p.guard.exempt, network)
	p.port, p.minBlocked, p.total = strconv.Itoa(port), minBlocked, total
	return p
}

type roundTrip func(*http.Request) (*http.Response, error)

func (do roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return do(r) }

// Instead replaces the network for https URLs.
func (p *Public) Instead(do func(*http.Request) (*http.Response, error)) {
	p.transport.RegisterProtocol("https", roundTrip(do))
}

// Allows reports whether webhooks may be sent to an address.
func (p *Public) Allows(network string, at netip.AddrPort) bool {
	return p.guard.control(nil, network, at.String(), nil) == nil //nolint:staticcheck // the guard ignores its context
}

// CheckForm checks the form of a URL without resolving its host.
func CheckForm(raw string) (host, port string, err error) {
	u, err := parseURL(raw, "443", func(*url.URL) bool { return false })
	if err != nil {
		return "", "", err
	}
	return u.Hostname(), u.Port(), nil
}

// Health applies results to the state of a proxy and returns whether it is down after each.
func Health(results ...bool) (down []bool) {
	var h health
	for _, r := range results {
		h = h.withResult(r)
		down = append(down, h.down)
	}
	return down
}

// Reach replaces how proxies are connected to.
func (e *Egress) Reach(connect func(ctx context.Context, address string) (net.Conn, error)) {
	e.dialer.connect = func(ctx context.Context, _, address string) (net.Conn, error) { return connect(ctx, address) }
}

// Between wraps how proxies are connected to.
func (e *Egress) Between(do func(ctx context.Context, address string, connect func(context.Context, string) (net.Conn, error)) (net.Conn, error)) {
	before := e.dialer.connect
	e.Reach(func(ctx context.Context, address string) (net.Conn, error) {
		return do(ctx, address, func(ctx context.Context, address string) (net.Conn, error) { return before(ctx, "tcp", address) })
	})
}

// ShortBlocked shortens the minimum time of a dial to a site that is not public.
func (e *Egress) ShortBlocked() { e.minBlocked = time.Millisecond }

// CloseDrained closes connections through drained proxies, as Run does after each round of checks.
func (e *Egress) CloseDrained() { e.closeDrained() }

// Starve sets whether the node is starved.
func (e *Egress) Starve(is bool) { e.deps.Starved = func() bool { return is } }
