package egress

import (
	"maps"
	"net"
	"slices"
	"time"
)

// drainPatience is how long what goes through a drained proxy may still take. Calls end much sooner; listeners would never, and come back
// through another proxy.
const drainPatience = 2 * time.Minute

// Steer follows what operators have decided: drained are proxies by region and fingerprint (us/9f3c…), off are regions. Nothing new goes
// through either. What goes through a region that is switched off is cut off at once, through a drained proxy after a while.
func (e *Egress) Steer(drained, off map[string]bool) {
	for _, r := range e.regions {
		r.off.Store(off[r.name])
		for _, p := range r.proxies {
			now := drained[r.name+"/"+p.fingerprint]
			p.mu.Lock()
			if p.drained.Swap(now) != now {
				p.leaveBy = e.Now().Add(drainPatience)
			}
			p.mu.Unlock()
		}
	}
	e.cutOff()
}

// cutOff ends what still goes through proxies that were drained long enough ago, or whose region is switched off.
func (e *Egress) cutOff() {
	for _, r := range e.regions {
		for _, p := range r.proxies {
			p.mu.Lock()
			var list []*tunnel
			if r.off.Load() || p.drained.Load() && !e.Now().Before(p.leaveBy) {
				list = slices.Collect(maps.Keys(p.tunnels))
			}
			p.mu.Unlock()
			for _, t := range list {
				_ = t.Close() // whoever uses it finds out by their next read or write
			}
		}
	}
}

// tunnel makes a connection one through the proxy, which is known until it is closed.
func (p *node) tunnel(raw net.Conn) net.Conn {
	t := &tunnel{Conn: raw, name: p.name, via: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tunnels[t] = struct{}{}
	return t
}
