package egress

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
)

// routes are the regions at one moment. They are not modified.
type routes struct {
	regions map[string]*region
	// byLabel finds proxies for dials, also those that were removed a moment ago and that a call has already picked.
	byLabel map[string]*proxyNode
}

// Reload replaces the regions and their proxies by those in the settings. Calls that start afterwards use them.
//
// Connections are not cut. A proxy that stays keeps its connections and its health, at whichever position it is now. With
// another password it keeps its connections and counts as healthy until a dial or check says otherwise. A proxy that was
// removed, or that is in another region now, is drained: its calls end, its accounts move to other proxies, and what is
// still open after drainGrace is closed.
func (e *Egress) Reload(list []Region) {
	e.steering.mu.Lock()
	defer e.steering.mu.Unlock()
	before := e.routes.Load()
	after := &routes{regions: make(map[string]*region, len(list)), byLabel: map[string]*proxyNode{}}
	for _, p := range e.steering.removed {
		after.byLabel[p.label] = p
	}
	lists := map[*region][]*proxyNode{}
	for _, c := range list {
		r := before.regions[c.Name]
		if r == nil {
			r = &region{name: c.Name}
			r.proxies.Store(&[]*proxyNode{})
			r.switchedOff.Store(e.steering.switchedOff[c.Name])
		}
		after.regions[c.Name] = r
		for i, settings := range c.Proxies {
			p := newProxyNode(settings, r, i).succeed(before.byLabel[r.name+"."+settings.fingerprint()])
			if e.steering.drained[r.name+"/"+p.fingerprint] && !p.drained.Swap(true) {
				p.drainDeadline = e.deps.Now().Add(drainGrace)
			}
			after.byLabel[p.label] = p
			lists[r] = append(lists[r], p)
		}
	}
	e.logChanges(before, list)
	for _, r := range before.regions {
		for _, p := range r.list() {
			if after.byLabel[p.label] == nil {
				p.drainDeadline = e.deps.Now().Add(drainGrace)
				e.steering.removed = append(e.steering.removed, p)
				after.byLabel[p.label] = p
			}
		}
	}
	// A proxy that was removed and is back is not drained any more.
	e.steering.removed = slices.DeleteFunc(e.steering.removed, func(p *proxyNode) bool { return after.byLabel[p.label] != p })
	// A call that picks a proxy must find it.
	e.routes.Store(after)
	for r, proxies := range lists {
		r.proxies.Store(&proxies)
	}
}

// succeed returns the proxy that takes the place of an older one, which may be nil; the older one if nothing has changed.
func (p *proxyNode) succeed(old *proxyNode) *proxyNode {
	if old == nil {
		return p
	}
	same := old.password.Reveal() == p.password.Reveal()
	if same && old.index == p.index && old.region == p.region && old.drainDeadline.IsZero() {
		return old
	}
	p.tunnels = old.tunnels
	if !same {
		return p
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	p.state, p.since, p.last, p.good = old.state, old.since, old.last, old.good
	p.down.Store(old.state.down)
	p.latency.Store(old.latency.Load())
	if old.drained.Load() {
		p.drained.Store(true)
		p.drainDeadline = old.drainDeadline
	}
	return p
}

// logChanges logs a line for each region that changes. It names no proxy by its address.
func (e *Egress) logChanges(before *routes, list []Region) {
	if len(before.regions) == 0 {
		return // the start
	}
	names := slices.Collect(maps.Keys(before.regions))
	for _, c := range list {
		if before.regions[c.Name] == nil {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		var old []*proxyNode
		if r := before.regions[name]; r != nil {
			old = r.list()
		}
		var now []Proxy
		if i := slices.IndexFunc(list, func(c Region) bool { return c.Name == name }); i >= 0 {
			now = list[i].Proxies
		}
		var added, changed int
		for _, p := range now {
			i := slices.IndexFunc(old, func(o *proxyNode) bool { return o.identity() == p.identity() })
			if i < 0 {
				added++
			} else if old[i].password.Reveal() != p.password.Reveal() {
				changed++
			}
		}
		if removed := len(old) + added - len(now); added+changed+removed > 0 {
			//nolint:forbidigo // a log line needs no caller
			e.deps.Log.LogAttrs(context.Background(), slog.LevelInfo, "egress region changed", slog.String(logkey.Region, name),
				slog.Int(logkey.Added, added), slog.Int(logkey.Removed, removed), slog.Int(logkey.PasswordsChanged, changed),
				slog.Int(logkey.Proxies, len(now)))
		}
	}
}
