package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// CallStreaming is Call over the standard transport.
func (c *Client) CallStreaming(ctx context.Context, q *Request, limits Limits) (Reply, error) {
	return c.callStreaming(ctx, q, limits)
}

// Idle counts the connections that Call keeps.
func (e *Egress) Idle() int {
	e.lines.mu.Lock()
	defer e.lines.mu.Unlock()
	return e.lines.count
}

// Near is a client for tests: it takes a network of this machine for public and a port for 443, and hurries.
func Near(c PublicConfig, network netip.Prefix, port int, floor, total time.Duration) *Public {
	p := NewPublic(c)
	p.guard.open = append(p.guard.open, network)
	p.port, p.floor, p.total = strconv.Itoa(port), floor, total
	return p
}

type roundTrip func(*http.Request) (*http.Response, error)

func (do roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return do(r) }

// Instead has something else answer.
func (p *Public) Instead(do func(*http.Request) (*http.Response, error)) {
	p.transport.RegisterProtocol("https", roundTrip(do))
}

// Allows says whether webhooks may go to an address.
func (p *Public) Allows(network string, at netip.AddrPort) bool {
	return p.guard.control(nil, network, at.String(), nil) == nil //nolint:staticcheck // the guard does not look at its context
}

// CheckForm judges a URL without looking its host up.
func CheckForm(raw string) (host, port string, err error) {
	u, err := parseURL(raw, "443", false)
	if err != nil {
		return "", "", err
	}
	return u.Hostname(), u.Port(), nil
}

// Health runs results through the state of a proxy and gives the state after each.
func Health(results ...bool) (down []bool) {
	var h health
	for _, r := range results {
		h = h.after(r)
		down = append(down, h.down)
	}
	return down
}

// Reach replaces the network between a service and its proxies.
func (e *Egress) Reach(connect func(ctx context.Context, address string) (net.Conn, error)) {
	e.dialer.connect = func(ctx context.Context, _, address string) (net.Conn, error) { return connect(ctx, address) }
}

// Between puts something between a service and its network.
func (e *Egress) Between(do func(ctx context.Context, address string, connect func(context.Context, string) (net.Conn, error)) (net.Conn, error)) {
	before := e.dialer.connect
	e.Reach(func(ctx context.Context, address string) (net.Conn, error) {
		return do(ctx, address, func(ctx context.Context, address string) (net.Conn, error) { return before(ctx, "tcp", address) })
	})
}

// CutOff does what Run does now and then.
func (e *Egress) CutOff() { e.cutOff() }
