// Package egress is how traffic leaves. It has two ways out, and they share nothing.
//
// Egress takes an account's calls to its platform, through a proxy of the account's region and in no other way: never
// straight, never through another region, whatever the environment says of proxies. Start at Egress.Client, Client.Call
// and Client.Do. Package upstream uses it so:
//
//	client := out.Client(egress.Identity{Region: "us", Account: "acct_…", Isolation: egress.ByAccount}, origins)
//	reply, err := client.Call(ctx, &egress.Request{…}, egress.Limits{Header: 15 * time.Second})
//	defer reply.Release() // bounded in bytes, ratio and time; the errors are those of client.go
//
// Call (call.go, line.go) owns its connection and carries what is in memory, at half the cost. Do (client.go, exchange.go)
// carries uploads, downloads and WebSockets over the standard transport. Both keep the same promises.
//
// A Client is a small value: make one per call. It is an http.RoundTripper too, and Client.HTTP is what a WebSocket
// library wants. Redirects are not followed, cookies not kept, nothing is sent twice that may have arrived.
//
// Public takes webhooks to customers' URLs, straight, and only to public addresses. Start at NewPublic.
//
// The package does not own what is said on the wire: requests, sessions, signatures and retries are the callers'.
package egress

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/platform/egress/internal/h1"
)

const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 8 * time.Second
	checkEvery       = 5 * time.Second

	idleTimeout = 60 * time.Second
	// idlePerAccount is small, because a node has many accounts; idlePerProxy is for connections that all accounts share.
	idlePerAccount = 2
	idlePerProxy   = 256
	maxIdle        = 20_000
	maxHeader      = h1.MaxHeader
	tlsSessions    = 4096

	// maxTries bounds how many proxies one call may try.
	maxTries = 3
)

// Config is what an operator decides. Zero values stand for the defaults.
type Config struct {
	Regions []Region
	// Check are origins of which a working proxy must reach one. Without any, a proxy must only be there, and after a
	// failure give a tunnel to the platform that was last asked for.
	Check Origins
	// MaxIdle bounds the idle connections of this node; the longest idle is closed first.
	MaxIdle int
	// Roots verify platforms and https proxies; nil means the system's.
	Roots *x509.CertPool
	// DialTimeout is for reaching a proxy, HandshakeTimeout for everything after that until a request can be sent.
	DialTimeout      time.Duration
	HandshakeTimeout time.Duration
}

// Deps is what the service needs.
type Deps struct {
	Config Config
	Log    *slog.Logger
	Now    func() time.Time
}

// Egress is the way to the platforms.
type Egress struct {
	Deps
	regions   map[string]*region
	transport *http.Transport // of Do
	lines     *lines
	dialer    dialer
	metrics   metrics
	inflaters sync.Pool // of *gzip.Reader
	carriers  sync.Pool // of *carrier
}

// New makes the service. It connects to nothing; Run keeps the proxies' health.
func New(d Deps) *Egress {
	c := &d.Config
	c.MaxIdle = cmp.Or(c.MaxIdle, maxIdle)
	c.DialTimeout = cmp.Or(c.DialTimeout, dialTimeout)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, handshakeTimeout)
	e := &Egress{Deps: d, regions: map[string]*region{}, lines: newLines(c.MaxIdle, d.Now), dialer: newDialer(*c), metrics: newMetrics()}
	for _, r := range c.Regions {
		e.regions[r.Name] = newRegion(r)
		e.metrics.watch(e.regions[r.Name])
	}
	e.transport = e.newTransport()
	return e
}

// newTransport makes the transport of Do. A request's address is rewritten to a key that names account, region, proxy and host, which
// is all that the dialer gets to know.
//
// It uses no connection twice. The standard transport detects unsolicited data in a goroutine of its own, possibly too
// late: the next call would then take the data for its answer. Files are few and large, so a new connection costs little.
func (e *Egress) newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // the dialer goes through the proxy; the environment has no say
		DialContext:            e.dialPlain,
		DialTLSContext:         e.dialTLS,
		Protocols:              protocols,
		DisableCompression:     true, // we inflate, and bound what comes out
		MaxIdleConnsPerHost:    -1,   // keeps none; DisableKeepAlives would also say so to the platform
		MaxResponseHeaderBytes: maxHeader,
	}
}

// Isolation says who may share a connection.
type Isolation int

// The isolations. ByAccount is the default: no state of a connection is ever shared by two accounts.
const (
	ByAccount Isolation = iota
	ByProxy
)

// Identity is whose traffic it is.
type Identity struct {
	// Region is a code of two letters, such as us.
	Region string
	// Account decides which proxy of the region is used, and stays with it. An attempt's id will do before there is an account.
	Account   string
	Isolation Isolation
}

// Client makes the way out for one identity to the origins that its manifest names.
func (e *Egress) Client(who Identity, origins Origins) *Client {
	return &Client{egress: e, who: who, origins: origins}
}

// Regions lists the regions that have proxies, healthy or not.
func (e *Egress) Regions() []string {
	var names []string
	for name := range e.regions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Available says whether a region has a healthy proxy.
func (e *Egress) Available(name string) bool {
	r := e.regions[name]
	return r != nil && r.healthy() > 0
}

// Status is the health of one proxy. Proxies are named by region and place in the settings, never by address.
type Status struct {
	Region string
	Proxy  int
	// Fingerprint is the same on all nodes, whatever the order of their settings; no address can be read from it.
	Fingerprint string
	Healthy     bool
	// Since is when Healthy last changed; zero if it never did.
	Since time.Time
	// Reason is why the last dial or check failed; empty if it did not.
	Reason string
	// Drained means that nothing new goes through it; Open is how many connections of this node still do.
	Drained bool
	Open    int
	// Latency is how long it took to open the last way through it; 0 if none was.
	Latency time.Duration
}

// Status lists the proxies.
func (e *Egress) Status() []Status {
	var list []Status
	for _, name := range e.Regions() {
		for _, p := range e.regions[name].proxies {
			list = append(list, p.status())
		}
	}
	return list
}

// Run checks the proxies until the context ends. Without it a proxy that failed does not come back.
func (e *Egress) Run(ctx context.Context) error {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		e.Check(ctx)
		e.cutOff()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Close closes idle connections.
func (e *Egress) Close() {
	e.lines.close()
}

// Collectors are to be registered.
func (e *Egress) Collectors() []prometheus.Collector { return e.metrics.collectors() }
