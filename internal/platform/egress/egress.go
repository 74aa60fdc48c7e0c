// Package egress sends all outbound traffic, on separate paths that share nothing.
//
// Egress sends an account's calls to its platform, and only through a proxy of the account's region: never directly,
// never through another region, and regardless of proxy variables in the environment. Start at Egress.Client,
// Client.Call and Client.Do. Package driver uses it like this:
//
//	client := out.Client(egress.Identity{Region: "us", Account: "acct_…", Isolation: egress.ByAccount}, origins)
//	reply, err := client.Call(ctx, &egress.Request{…}, egress.Limits{Header: 15 * time.Second})
//	defer reply.Release() // bounded in bytes, ratio and time; the errors are those of client.go
//
// Call (call.go, pool.go) owns its connection and sends requests whose body is in memory, at half the cost. Do
// (client.go, exchange.go, body.go) sends uploads, downloads and WebSockets through the standard transport. Both give
// the same guarantees. They do not follow redirects, do not keep cookies, and never resend a write that may have
// arrived.
//
// A client of SiteOrigins sends an account's calls to a site that a customer chose, on the same path. Its host must be
// public at every dial (site.go).
//
// Public sends webhooks to customers' URLs directly, and only to public addresses; start at NewPublic. NewDirect
// returns a client for services that the operator has configured.
//
// The package does not build requests, manage sessions, sign or retry; its callers do.
package egress

import (
	"cmp"
	"context"
	"crypto/x509"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/platform/egress/internal/h1"
)

const (
	dialTimeout      = 5 * time.Second
	handshakeTimeout = 8 * time.Second
	checkEvery       = 5 * time.Second

	idleTimeout = 60 * time.Second
	// idlePerAccount is small because a node has many accounts. idlePerProxy is for connections that all accounts
	// share.
	idlePerAccount = 2
	idlePerProxy   = 256
	maxIdle        = 20_000
	maxHeader      = h1.MaxHeader
	tlsSessions    = 4096

	// maxTries bounds the proxies that one call may try.
	maxTries = 3
)

// Config holds the operator's settings. Zero values mean the defaults.
type Config struct {
	Regions []Region
	// Check lists origins for health checks. A healthy proxy must reach at least one of them. If it is empty, a proxy
	// must only accept connections and, after a failure, open a tunnel to the platform that was dialled last.
	Check Origins
	// Sites lists origins that sites may have although they are not public, such as http://127.0.0.1:2368. It is for
	// development only. An entry that ParseOrigins rejects has no effect.
	Sites []string
	// Deny lists networks that sites must not have addresses in although these are public.
	Deny []netip.Prefix
	// Resolver resolves the names of sites. Default: the system's.
	Resolver *net.Resolver
	// MaxIdle bounds the idle connections that Call keeps on this node. The longest idle one is closed first.
	MaxIdle int
	// Roots verify platforms and https proxies. Default: the system's.
	Roots *x509.CertPool
	// DialTimeout bounds connecting to a proxy, HandshakeTimeout everything after that until a request can be sent.
	DialTimeout      time.Duration
	HandshakeTimeout time.Duration
	// PropagateTraces sends the context of traces to platforms, in the header traceparent. Sites never get it.
	PropagateTraces bool
}

// Deps are the dependencies of Egress.
type Deps struct {
	Config Config
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	// Starved reports whether this node was too slow a moment ago. A time-out then says nothing about a proxy. If it is
	// nil, the node never is.
	Starved func() bool
	Log     *slog.Logger
	Now     func() time.Time
}

// Egress sends traffic to platforms through regional proxies. It is safe for concurrent use.
type Egress struct {
	deps          Deps
	routes        atomic.Pointer[routes]
	steering      steering
	transport     *http.Transport // of Do
	pool          *connPool
	dialer        dialer
	guard         *guard  // of sites
	exempt        Origins // of sites
	minBlocked    time.Duration
	metrics       metrics
	inflaters     sync.Pool // of *gzip.Reader
	callExchanges sync.Pool // of *callExchange
}

// New returns an Egress. It does not connect to anything. Call Run to check the health of the proxies.
func New(d Deps) *Egress {
	if d.Starved == nil {
		d.Starved = func() bool { return false }
	}
	c := &d.Config
	c.MaxIdle = cmp.Or(c.MaxIdle, maxIdle)
	c.DialTimeout = cmp.Or(c.DialTimeout, dialTimeout)
	c.HandshakeTimeout = cmp.Or(c.HandshakeTimeout, handshakeTimeout)
	c.Resolver = cmp.Or(c.Resolver, net.DefaultResolver)
	e := &Egress{
		deps: d, pool: newConnPool(c.MaxIdle, d.Now), dialer: newDialer(*c),
		guard: newGuard(c.Deny), exempt: newExempt(c.Sites), minBlocked: blockedFor, metrics: newMetrics(d.Registry),
	}
	e.routes.Store(&routes{})
	e.Reload(c.Regions)
	if d.Registry != nil {
		d.Registry.MustRegister(proxyCounts{e})
	}
	e.transport = e.newTransport()
	return e
}

// region returns a region; nil if there is none.
func (e *Egress) region(name string) *region { return e.routes.Load().regions[name] }

// newTransport returns the transport of Do. Do rewrites the host of a request to a key of account, region, proxy and
// host (see dial). The key is all that the dialer gets, so a connection cannot be made for another identity.
//
// The transport does not reuse connections. The standard transport detects unsolicited data in a separate goroutine,
// possibly too late: the next call would then take the data for its response. Files are few and large, so a new
// connection costs little.
func (e *Egress) newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // the dialer uses the proxy; ignore the environment
		DialContext:            e.dialPlain,
		DialTLSContext:         e.dialTLS,
		Protocols:              protocols,
		DisableCompression:     true, // we inflate bodies ourselves, with a limit
		MaxIdleConnsPerHost:    -1,   // keep none; DisableKeepAlives would also send Connection: close to the platform
		MaxResponseHeaderBytes: maxHeader,
	}
}

// Isolation decides which calls may share a connection.
type Isolation int

// The isolations. ByAccount is the default: two accounts never share a connection. With ByProxy, accounts that use the
// same proxy may.
const (
	ByAccount Isolation = iota
	ByProxy
)

// Identity is the owner of traffic.
type Identity struct {
	// Region is a two-letter code, such as us.
	Region string
	// Account determines the proxy within the region. Before there is an account, the id of the connect attempt serves.
	Account   string
	Isolation Isolation
}

// Client returns a client that sends one identity's traffic to the given origins.
func (e *Egress) Client(who Identity, origins Origins) *Client {
	return &Client{egress: e, who: who, origins: origins}
}

// Regions returns the names of the configured regions, healthy or not.
func (e *Egress) Regions() []string {
	return slices.Sorted(maps.Keys(e.routes.Load().regions))
}

// Available reports whether a region has a usable proxy.
func (e *Egress) Available(name string) bool {
	r := e.region(name)
	return r != nil && r.healthy() > 0
}

// Status is the health of one proxy. It identifies the proxy by region and position in the settings, never by address.
type Status struct {
	Region string
	Proxy  int
	// Fingerprint identifies the proxy on all nodes, regardless of the order of their settings. It does not reveal the
	// address.
	Fingerprint string
	Healthy     bool
	// Since is the time of the last change of Healthy, or zero if it never changed.
	Since time.Time
	// Reason is why the last dial or check failed, or empty if it succeeded.
	Reason string
	// Drained means that an operator stopped new traffic through the proxy. Open is the number of this node's
	// connections through it.
	Drained bool
	Open    int
	// Latency is the time that the last successful dial or check took, or 0 if there was none.
	Latency time.Duration
}

// Status returns the health of all proxies.
func (e *Egress) Status() []Status {
	var list []Status
	for _, name := range e.Regions() {
		if r := e.region(name); r != nil {
			for _, p := range r.list() {
				list = append(list, p.status())
			}
		}
	}
	return list
}

// Run checks the proxies until the context ends. Without it, a proxy that is down never recovers.
func (e *Egress) Run(ctx context.Context) error {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		e.Check(ctx)
		e.closeDrained()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Close closes the idle connections.
func (e *Egress) Close() {
	e.pool.close()
}
