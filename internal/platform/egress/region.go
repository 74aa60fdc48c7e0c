package egress

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
)

const (
	// A proxy goes down after two consecutive failures, so that a single lost packet moves no accounts. It comes back
	// after three consecutive successes, so that a flapping proxy does not move its accounts back and forth.
	downAfter = 2
	upAfter   = 3

	checksAtOnce = 16
)

// region is a Region with the state of its proxies.
type region struct {
	name string
	// proxies is never nil. Reload replaces the list, and nothing modifies it.
	proxies atomic.Pointer[[]*proxyNode]
	// lastTarget is the platform that was dialled last. A doubtful proxy must reach it if the operator has configured
	// no addresses for checks.
	lastTarget atomic.Pointer[target]
	// switchedOff means that an operator has switched the region off.
	switchedOff atomic.Bool
}

// proxyNode is a Proxy with its state. When the settings of a proxy change, another proxyNode takes its place.
type proxyNode struct {
	Proxy
	region *region
	index  int
	// name is region/index, for logs and errors. label is region.fingerprint, for pool keys.
	name, label string
	// seed determines the accounts' order of preference. It does not depend on the index, so that adding a proxy
	// anywhere in the list moves only the accounts that it takes over.
	seed uint64

	// fingerprint identifies the proxy on all nodes, regardless of its index in their settings and of its password.
	fingerprint string
	// tunnels are its open connections. Those of a proxyNode in whose place it is remain.
	tunnels *tunnels

	// down copies state.down, for reads without the lock.
	down atomic.Bool
	// drained means that an operator has stopped new traffic through the proxy.
	drained atomic.Bool
	// latency is the duration of the last successful dial or check, in nanoseconds.
	latency atomic.Int64
	mu      sync.Mutex
	state   health
	since   time.Time // of the last change of state.down
	last    reason    // of the last failure; empty after a success
	good    time.Time // of the last success
	// drainDeadline is when remaining connections through a drained or removed proxy are closed.
	drainDeadline time.Time
}

func newProxyNode(p Proxy, r *region, index int) *proxyNode {
	sum, fingerprint := sha256.Sum256([]byte(p.identity())), p.fingerprint()
	return &proxyNode{
		Proxy: p, region: r, index: index, name: r.name + "/" + strconv.Itoa(index), label: r.name + "." + fingerprint,
		seed: binary.BigEndian.Uint64(sum[:]), fingerprint: fingerprint, tunnels: &tunnels{open: map[*tunnel]struct{}{}},
	}
}

// fingerprint is that of proxyNode.
func (p Proxy) fingerprint() string {
	sum := sha256.Sum256([]byte(p.identity()))
	return hex.EncodeToString(sum[:8])
}

// list returns the proxies in the order of the settings.
func (r *region) list() []*proxyNode { return *r.proxies.Load() }

// healthy returns the number of usable proxies.
func (r *region) healthy() int {
	n := 0
	for _, p := range r.list() {
		if p.isUsable() {
			n++
		}
	}
	return n
}

// isUsable reports whether new traffic may use the proxy.
func (p *proxyNode) isUsable() bool {
	return !p.down.Load() && !p.drained.Load() && !p.region.switchedOff.Load()
}

// pick returns the account's preferred proxy among the usable ones that were not tried, or nil if there is none. It
// uses rendezvous hashing, so that a dead proxy moves only its own accounts, and they return to it when it recovers.
func (r *region) pick(account uint64, tried []*proxyNode) *proxyNode {
	var best *proxyNode
	var top uint64
	for _, p := range r.list() {
		if !p.isUsable() || slices.Contains(tried, p) {
			continue
		}
		if score := mix(account ^ p.seed); best == nil || score > top {
			best, top = p, score
		}
	}
	return best
}

// hash returns the FNV-1a hash, which is the same on every node and in every version.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// mix is the finalizer of SplitMix64. It spreads every bit of its input over the whole output.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// health is the state of a proxy: whether it is down, and the number of consecutive results that contradict this.
type health struct {
	down     bool
	opposing int
}

// withResult returns the state after a result.
func (h health) withResult(success bool) health {
	if success != h.down {
		h.opposing = 0
		return h
	}
	h.opposing++
	if h.opposing >= downAfter && !h.down || h.opposing >= upAfter {
		return health{down: !h.down}
	}
	return h
}

// outcome is what a result says about the proxy itself.
type outcome int

const (
	good outcome = iota
	bad
	unclear
)

// classifyDial classifies the dial of a call. A result that may be the platform's fault is unclear: a platform that is
// down must not take the region down with it. A slow tunnel counts as a failure only if there are no configured checks,
// which can decide better.
func classifyDial(why reason, checked bool) outcome {
	switch why {
	case succeeded:
		return good
	case cancelled, blocked, exhausted, unreachable, platformTLS, spokeFirst:
		return unclear
	case slow:
		if checked {
			return unclear
		}
		return bad
	case refused, unresolved, noAnswer, reset, denied, forbidden, rejected, garbled, untrusted:
		return bad
	}
	return bad
}

// classifySiteDial classifies the dial of a call to a site. A customer chose the site, so only a failure that no site
// can cause counts against the proxy: one from before the proxy was asked for a tunnel, or its refusal of our
// credentials.
func classifySiteDial(why reason) outcome {
	switch why {
	case succeeded:
		return good
	case refused, unresolved, noAnswer, untrusted, denied:
		return bad
	case cancelled, blocked, exhausted, unreachable, platformTLS, spokeFirst, slow, reset, forbidden, rejected, garbled:
	}
	return unclear
}

// classifyCheck classifies a health check. A proxy must reach an address that the operator has configured (named).
// For any other address, a definite answer of the proxy is enough.
func classifyCheck(why reason, named bool) outcome {
	switch {
	case why == succeeded, !named && (why == unreachable || why == platformTLS || why == spokeFirst):
		return good
	case why == cancelled, why == exhausted:
		return unclear
	}
	return bad
}

// isTimeOut reports whether a failure can be a time-out, which a node that is too slow causes itself.
func (why reason) isTimeOut() bool {
	return why == noAnswer || why == slow || why == unresolved || why == platformTLS
}

// recordResult records a result and reports whether the proxy went down or came back.
func (p *proxyNode) recordResult(v outcome, why reason, now time.Time) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v == unclear { // it changes neither the state nor the last reason
		return false
	}
	p.last = why
	if v == good {
		p.last, p.good = "", now
	}
	was := p.state.down
	p.state = p.state.withResult(v == good)
	if p.state.down == was {
		return false
	}
	p.since = now
	p.down.Store(p.state.down)
	return true
}

func (p *proxyNode) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Status{
		Region: p.region.name, Proxy: p.index, Fingerprint: p.fingerprint, Healthy: !p.state.down, Since: p.since, Reason: string(p.last),
		Drained: p.drained.Load(), Open: p.tunnels.count(), Latency: time.Duration(p.latency.Load()),
	}
}

// recordLatency records the duration of a dial or check if it succeeded.
func (p *proxyNode) recordLatency(why reason, d time.Duration) {
	if why == succeeded {
		p.latency.Store(int64(d))
	}
}

// provenRecently reports whether a call or check succeeded within checkEvery, so that no check is needed.
func (p *proxyNode) provenRecently(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.state.down && p.state.opposing == 0 && !p.good.IsZero() && now.Sub(p.good) < checkEvery
}

// isDoubtful reports whether the proxy is down or its last result was a failure.
func (p *proxyNode) isDoubtful() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.down || p.state.opposing > 0
}

// observe records the result of a dial or check and logs a change of state. A time-out while the node is starved is
// unclear: otherwise one busy org would take the region down for all.
func (e *Egress) observe(ctx context.Context, p *proxyNode, v outcome, why reason) {
	if v == bad && why.isTimeOut() && e.deps.Starved() {
		e.metrics.excused.WithLabelValues(p.region.name).Inc()
		v = unclear
	}
	if !p.recordResult(v, why, e.deps.Now()) {
		return
	}
	level := slog.LevelInfo
	if p.down.Load() {
		level = slog.LevelWarn
	}
	e.deps.Log.LogAttrs(ctx, level, "egress proxy changed", slog.String(logkey.Region, p.region.name), slog.Int(logkey.Proxy, p.index),
		slog.Bool(logkey.Healthy, !p.down.Load()), slog.String(logkey.Reason, string(why)),
		slog.Int(logkey.HealthyProxies, p.region.healthy()), slog.Int(logkey.Proxies, len(p.region.list())))
}

// Check checks all proxies that were not proven recently, concurrently, and records the results.
func (e *Egress) Check(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(checksAtOnce)
	for _, r := range e.routes.Load().regions {
		for _, p := range r.list() {
			if !p.provenRecently(e.deps.Now()) {
				group.Go(func() error { e.check(ctx, p); return nil })
			}
		}
	}
	_ = group.Wait() // no check returns an error
}

// check checks one proxy. With configured addresses it must reach one of them. Otherwise a doubtful proxy must open a
// tunnel to the last target, and any other proxy must only accept a connection, which does not involve the platform.
func (e *Egress) check(ctx context.Context, p *proxyNode) {
	why, named := cancelled, len(e.deps.Config.Check.list) > 0
	began := e.deps.Now()
	switch lastTarget := p.region.lastTarget.Load(); {
	case named:
		for i := range e.deps.Config.Check.list {
			if why = e.tryTarget(ctx, p, e.deps.Config.Check.list[i].target); why == succeeded {
				break
			}
		}
	case lastTarget != nil && p.isDoubtful():
		// A tunnel is enough, so do not start TLS.
		why = e.tryTarget(ctx, p, target{host: lastTarget.host, port: lastTarget.port})
	default:
		conn, err := e.dialer.connectProxy(ctx, p)
		if why = succeeded; err == nil {
			_ = conn.Close() // only the connection was of interest
		} else if why = tcpReason(err); ctx.Err() != nil {
			why = cancelled
		}
	}
	p.recordLatency(why, e.deps.Now().Sub(began))
	e.metrics.checks.WithLabelValues(p.region.name, string(why)).Inc()
	e.observe(ctx, p, classifyCheck(why, named), why)
}

// tryTarget opens a tunnel to a target and closes it.
func (e *Egress) tryTarget(ctx context.Context, p *proxyNode, t target) reason {
	conn, err := e.dialer.openTunnel(ctx, p, t, t.address(), "check."+p.label)
	if f, ok := errors.AsType[*fault](err); ok {
		return f.reason
	}
	_ = conn.Close() // only the tunnel was of interest
	return succeeded
}
