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
)

const (
	// A proxy is left after two failures in a row, so that one lost packet moves nobody, and used again after three
	// successes, so that a proxy that comes and goes does not move its accounts back and forth.
	downAfter = 2
	upAfter   = 3

	checksAtOnce = 16
)

// region is a pool of proxies at work.
type region struct {
	name    string
	proxies []*node
	// asked is the platform that was last dialled from here: what a doubtful proxy must reach if the operator named
	// nothing else.
	asked atomic.Pointer[target]
	// off means that an operator has switched the region off.
	off atomic.Bool
}

// node is one proxy at work.
type node struct {
	Proxy
	region *region
	place  int
	// name is region and place, for logs and errors; label is the same as a part of a pool's key.
	name, label string
	// seed makes the accounts' order of preference. It does not depend on the place, so that a new proxy in front of
	// the others moves only the accounts that it takes over.
	seed uint64

	// fingerprint names the proxy among all nodes, whatever its place in their settings.
	fingerprint string

	down atomic.Bool
	// drained means that an operator wants nothing new to go through it.
	drained atomic.Bool
	// latency is how long it took to open the last way through it.
	latency atomic.Int64
	mu      sync.Mutex
	state   health
	since   time.Time
	last    reason
	good    time.Time
	// leaveBy is when what still goes through a drained proxy is cut off.
	leaveBy time.Time
	tunnels map[*tunnel]struct{}
}

func newRegion(c Region) *region {
	r := &region{name: c.Name}
	for i, p := range c.Proxies {
		sum := sha256.Sum256([]byte(p.identity()))
		place := strconv.Itoa(i)
		r.proxies = append(r.proxies, &node{
			Proxy: p, region: r, place: i, name: r.name + "/" + place, label: r.name + "." + place,
			seed: binary.BigEndian.Uint64(sum[:]), fingerprint: hex.EncodeToString(sum[:8]), tunnels: map[*tunnel]struct{}{},
		})
	}
	return r
}

// healthy is how many proxies can be used.
func (r *region) healthy() int {
	n := 0
	for _, p := range r.proxies {
		if p.usable() {
			n++
		}
	}
	return n
}

// usable says whether something new may go through the proxy.
func (p *node) usable() bool { return !p.down.Load() && !p.drained.Load() && !p.region.off.Load() }

// pick chooses the account's proxy among the healthy ones that were not tried: by rendezvous hashing, so that a dead
// proxy moves only its own accounts, and they return to it.
func (r *region) pick(account uint64, tried []*node) *node {
	var best *node
	var top uint64
	for _, p := range r.proxies {
		if !p.usable() || slices.Contains(tried, p) {
			continue
		}
		if score := mix(account ^ p.seed); best == nil || score > top {
			best, top = p, score
		}
	}
	return best
}

// hash is FNV-1a: the same on every node and in every version.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return h
}

// mix is the finalizer of SplitMix64: it spreads every bit of its input over all of its output.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// health is the state of a proxy: whether it is down, and how many results in a row have said the opposite.
type health struct {
	down    bool
	against int
}

func (h health) after(success bool) health {
	if success != h.down {
		h.against = 0
		return h
	}
	h.against++
	if h.against >= downAfter && !h.down || h.against >= upAfter {
		return health{down: !h.down}
	}
	return h
}

// verdict is what a result says about the proxy.
type verdict int

const (
	good verdict = iota
	bad
	unclear
)

// judgeDial judges the dial of a call. What may be the platform's fault says nothing about the proxy: a platform that
// is down must not take the region with it. A slow tunnel counts only if no check can tell better.
func judgeDial(why reason, checked bool) verdict {
	switch why {
	case succeeded:
		return good
	case cancelled, unreachable, platformTLS, spokeFirst:
		return unclear
	case slow:
		if checked {
			return unclear
		}
		return bad
	case refused, unresolved, noAnswer, reset, denied, rejected, garbled, untrusted:
		return bad
	}
	return bad
}

// judgeCheck judges a check. An address that the operator named must be reached; of any other, a proxy that gives a
// clear answer is a proxy that works.
func judgeCheck(why reason, named bool) verdict {
	switch {
	case why == succeeded, !named && (why == unreachable || why == platformTLS || why == spokeFirst):
		return good
	case why == cancelled:
		return unclear
	}
	return bad
}

// note takes in a result and says whether the state has changed.
func (p *node) note(v verdict, why reason, now time.Time) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v == unclear {
		return false
	}
	p.last = why
	if v == good {
		p.last, p.good = "", now
	}
	was := p.state.down
	p.state = p.state.after(v == good)
	if p.state.down == was {
		return false
	}
	p.since = now
	p.down.Store(p.state.down)
	return true
}

func (p *node) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Status{
		Region: p.region.name, Proxy: p.place, Fingerprint: p.fingerprint, Healthy: !p.state.down, Since: p.since, Reason: string(p.last),
		Drained: p.drained.Load(), Open: len(p.tunnels), Latency: time.Duration(p.latency.Load()),
	}
}

// took notes how long it took to open a way, if one was.
func (p *node) took(why reason, d time.Duration) {
	if why == succeeded {
		p.latency.Store(int64(d))
	}
}

// fresh says whether calls have proved the proxy lately, so that it needs no check.
func (p *node) fresh(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.state.down && p.state.against == 0 && !p.good.IsZero() && now.Sub(p.good) < checkEvery
}

// doubted says whether the last result was a failure, or the proxy is down.
func (p *node) doubted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state.down || p.state.against > 0
}

// observe takes in how a dial or a check ended.
func (e *Egress) observe(ctx context.Context, p *node, v verdict, why reason) {
	if !p.note(v, why, e.Now()) {
		return
	}
	level := slog.LevelInfo
	if p.down.Load() {
		level = slog.LevelWarn
	}
	e.Log.LogAttrs(ctx, level, "egress proxy changed", slog.String("region", p.region.name), slog.Int("proxy", p.place),
		slog.Bool("healthy", !p.down.Load()), slog.String("reason", string(why)),
		slog.Int("healthy_proxies", p.region.healthy()), slog.Int("proxies", len(p.region.proxies)))
}

// Check tries every proxy once that calls have not proved lately, and takes in the results.
func (e *Egress) Check(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(checksAtOnce)
	for _, r := range e.regions {
		for _, p := range r.proxies {
			if !p.fresh(e.Now()) {
				group.Go(func() error { e.check(ctx, p); return nil })
			}
		}
	}
	_ = group.Wait() // no check returns an error
}

// check tries one proxy: one of the named addresses must be reached.
func (e *Egress) check(ctx context.Context, p *node) {
	why, named := cancelled, len(e.Config.Check.addresses) > 0
	began := e.Now()
	switch asked := p.region.asked.Load(); {
	case named:
		for t := range e.Config.Check.addresses {
			if why = e.try(ctx, p, t); why == succeeded {
				break
			}
		}
	case asked != nil && p.doubted():
		why = e.try(ctx, p, target{host: asked.host, port: asked.port}) // no TLS: the tunnel is enough
	default: // no reason to bother the platform
		conn, err := e.dialer.reach(ctx, p)
		if why = succeeded; err == nil {
			_ = conn.Close() // it was only to see whether somebody is there
		} else if why = tcpReason(err); ctx.Err() != nil {
			why = cancelled
		}
	}
	p.took(why, e.Now().Sub(began))
	e.metrics.checks.WithLabelValues(p.region.name, string(why)).Inc()
	e.observe(ctx, p, judgeCheck(why, named), why)
}

func (e *Egress) try(ctx context.Context, p *node, t target) reason {
	conn, err := e.dialer.open(ctx, p, t, "check."+p.label)
	if f, ok := errors.AsType[*fault](err); ok {
		return f.reason
	}
	_ = conn.Close() // it was only to see whether it opens
	return succeeded
}
