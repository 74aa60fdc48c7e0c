package egress

import (
	"maps"
	"net"
	"slices"
	"time"
)

// drainGrace is how long connections through a drained proxy may stay open. Calls end much sooner. Sockets would
// never end on their own; after this time listeners reconnect through another proxy.
const drainGrace = 2 * time.Minute

// Steer applies the operators' switches. drained holds proxies as region/fingerprint (us/9f3c…), switchedOff holds
// regions. Neither gets new traffic. Connections through a region that is switched off are closed immediately, those
// through a drained proxy after drainGrace.
func (e *Egress) Steer(drained, switchedOff map[string]bool) {
	for _, r := range e.regions {
		r.switchedOff.Store(switchedOff[r.name])
		for _, p := range r.proxies {
			now := drained[r.name+"/"+p.fingerprint]
			p.mu.Lock()
			if p.drained.Swap(now) != now {
				p.drainDeadline = e.deps.Now().Add(drainGrace)
			}
			p.mu.Unlock()
		}
	}
	e.closeDrained()
}

// closeDrained closes all connections through proxies whose drain deadline has passed or whose region is switched off.
func (e *Egress) closeDrained() {
	for _, r := range e.regions {
		for _, p := range r.proxies {
			p.mu.Lock()
			var list []*tunnel
			if r.switchedOff.Load() || p.drained.Load() && !e.deps.Now().Before(p.drainDeadline) {
				list = slices.Collect(maps.Keys(p.tunnels))
			}
			p.mu.Unlock()
			for _, t := range list {
				_ = t.Close() // its user gets an error from the next read or write
			}
		}
	}
}

// newTunnel wraps a connection to the proxy and registers it until it is closed.
func (p *proxyNode) newTunnel(raw net.Conn) net.Conn {
	t := &tunnel{Conn: raw, name: p.name, via: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tunnels[t] = struct{}{}
	return t
}
