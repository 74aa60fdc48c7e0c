package egress

import (
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// drainGrace is how long connections through a drained or removed proxy may stay open. Calls end much sooner. Sockets
// would never end on their own; after this time listeners reconnect through another proxy.
const drainGrace = 2 * time.Minute

// steering is what operators have decided about proxies, by switches and by the settings.
type steering struct {
	mu sync.Mutex
	// drained and switchedOff are the arguments of the last Steer.
	drained, switchedOff map[string]bool
	// removed are the proxies that are no longer in the settings and may have connections.
	removed []*proxyNode
}

// Steer applies the operators' switches. drained holds proxies as region/fingerprint (us/9f3c…), switchedOff holds
// regions. Neither gets new traffic. Connections through a region that is switched off are closed immediately, those
// through a drained proxy after drainGrace.
func (e *Egress) Steer(drained, switchedOff map[string]bool) {
	e.steering.mu.Lock()
	e.steering.drained, e.steering.switchedOff = drained, switchedOff
	e.steer()
	e.steering.mu.Unlock()
	e.closeDrained()
}

// steer applies the last switches to the current proxies. The caller holds the lock.
func (e *Egress) steer() {
	for _, p := range e.steering.removed {
		p.region.switchedOff.Store(e.steering.switchedOff[p.region.name])
	}
	for _, r := range e.routes.Load().regions {
		r.switchedOff.Store(e.steering.switchedOff[r.name])
		for _, p := range r.list() {
			now := e.steering.drained[r.name+"/"+p.fingerprint]
			p.mu.Lock()
			if p.drained.Swap(now) != now {
				p.drainDeadline = e.deps.Now().Add(drainGrace)
			}
			p.mu.Unlock()
		}
	}
}

// closeDrained closes all connections through proxies whose drain deadline has passed or whose region is switched off.
func (e *Egress) closeDrained() {
	e.steering.mu.Lock()
	defer e.steering.mu.Unlock()
	for _, r := range e.routes.Load().regions {
		for _, p := range r.list() {
			p.mu.Lock()
			over := p.drained.Load() && !e.deps.Now().Before(p.drainDeadline)
			p.mu.Unlock()
			if over || r.switchedOff.Load() {
				p.tunnels.close()
			}
		}
	}
	e.steering.removed = slices.DeleteFunc(e.steering.removed, func(p *proxyNode) bool {
		over := !e.deps.Now().Before(p.drainDeadline)
		if over || p.region.switchedOff.Load() {
			p.tunnels.close()
		}
		return over
	})
}

// tunnels are the open connections through a proxy.
type tunnels struct {
	mu   sync.Mutex
	open map[*tunnel]struct{}
}

func (s *tunnels) add(t *tunnel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[t] = struct{}{}
}

func (s *tunnels) remove(t *tunnel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, t)
}

func (s *tunnels) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// close closes all connections. Their users get an error from the next read or write.
func (s *tunnels) close() {
	s.mu.Lock()
	list := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, t := range list {
		_ = t.Close() // the user gets the error
	}
}

// newTunnel wraps a connection to the proxy and registers it until it is closed.
func (p *proxyNode) newTunnel(raw net.Conn) net.Conn {
	t := &tunnel{Conn: raw, name: p.name, via: p}
	p.tunnels.add(t)
	return t
}
