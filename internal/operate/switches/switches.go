// Package switches owns what operators decide while the service runs, for all nodes: what is switched off, which proxies are drained, and
// what the banner says.
//
// Every node has all of it in memory (State), so that asking costs nothing. A change is a row, an entry in the operators' own audit log,
// and a poke; whoever misses the poke reads the rows within two seconds. A node that cannot read them goes on with what it knows. Those
// who obey ask Refuse, or are told by Watch.
package switches

import (
	"context"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Switch names something that can be switched off.
type Switch string

// The switches, besides one for each region.
const (
	// Signups are people who make an org of their own.
	Signups Switch = "signups"
	// Connects are new attempts to connect an account.
	Connects Switch = "connects"
	// Writes are SDK methods that change something on a platform, and uploads.
	Writes Switch = "writes"
	// Webhooks are deliveries: events wait in the store meanwhile.
	Webhooks Switch = "webhooks"
)

const regionPrefix = "region/"

// Region is the switch of an egress region.
func Region(name string) Switch { return Switch(regionPrefix + name) }

// Region is the region that a switch is of; empty if it is of none.
func (s Switch) Region() string {
	name, ok := strings.CutPrefix(string(s), regionPrefix)
	if !ok {
		return ""
	}
	return name
}

// Decision is who decided something, when and why.
type Decision struct {
	Reason, By string
	At         time.Time
}

// Banner is what all customers are told in the dashboard.
type Banner struct {
	Text string
	// Level is info, warning or critical.
	Level string
	// URL is where more is said; empty for nowhere.
	URL string
	// Until is when it goes by itself; nil for never.
	Until *time.Time
	Decision
}

// State is all that is out of the ordinary, at one moment. It is never changed in place.
type State struct {
	Off map[Switch]Decision
	// Drained are proxies, by region and fingerprint: us/9f3c….
	Drained map[string]Decision
	// Banner is nil if there is none.
	Banner *Banner
}

// poker tells other nodes; *pubsub.Bus does.
type poker interface {
	Poke(subject string, payload []byte) error
	Listen(ctx context.Context, pattern string, heard func(last string, payload []byte)) error
}

// Deps is what the service needs.
type Deps struct {
	DB    *postgres.DB
	Audit *audit.Log
	Bus   poker
	Log   *slog.Logger
	Now   func() time.Time
}

// Control is the service. A nil one has nothing switched off.
type Control struct {
	Deps
	state    atomic.Pointer[State]
	watchers []func(State)
	wake     chan struct{}
	// reading is held by whoever reads the rows, so that those who watch are told one after the other.
	reading sync.Mutex
}

// New makes the service. Until it has read the rows nothing is out of the ordinary.
func New(d Deps) *Control {
	c := &Control{Deps: d, wake: make(chan struct{}, 1)}
	c.state.Store(&State{Off: map[Switch]Decision{}, Drained: map[string]Decision{}})
	return c
}

// Watch adds what is called with every new state, one after the other. It is added while the process is wired, before Run.
func (c *Control) Watch(do func(State)) { c.watchers = append(c.watchers, do) }

// State is what this node goes by.
func (c *Control) State() State { return *c.state.Load() }

// retryAfter is what callers are told to wait, in seconds. Nobody knows how long it takes.
const retryAfter = 60

// Refuse says why something is not done, if it is switched off. The operators' reason stays theirs.
func (c *Control) Refuse(s Switch) error {
	if c == nil {
		return nil
	}
	off := c.state.Load().Off
	if len(off) == 0 {
		return nil
	}
	if _, ok := off[s]; !ok {
		return nil
	}
	return problem.ServiceUnavailable.Newf("%s by the operators of this service, for a while.", refusal(s)).After(retryAfter).With("switch", string(s))
}

func refusal(s Switch) string {
	switch s {
	case Signups:
		return "Signing up is switched off"
	case Connects:
		return "Connecting accounts is switched off"
	case Writes:
		return "Calls that change something on a platform are switched off"
	case Webhooks:
		return "Webhook deliveries are held back"
	}
	return "The region " + s.Region() + " is switched off"
}

// Banner is what is to be shown now; nil for nothing.
func (c *Control) Banner() *Banner {
	if c == nil {
		return nil
	}
	b := c.state.Load().Banner
	if b == nil || b.Until != nil && !c.Now().Before(*b.Until) {
		return nil
	}
	return b
}

// subject is where nodes are told that something has changed.
const subject = "ctl.control"

const (
	pollEvery   = 2 * time.Second
	readAtMost  = 2 * time.Second
	retryFaster = 250 * time.Millisecond
)

// Run keeps the state current until the context ends.
func (c *Control) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- c.Bus.Listen(ctx, subject, func(string, []byte) { c.Wake() }) }()
	wait := pollEvery
	known := false
	for {
		err := c.Read(ctx)
		switch {
		case err == nil:
			wait, known = pollEvery, true
		case ctx.Err() == nil:
			c.Log.LogAttrs(ctx, slog.LevelWarn, "operators' decisions not read", slog.Any("error", err))
			if !known {
				wait = retryFaster
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return <-done
		case <-timer.C:
		case <-c.wake:
			timer.Stop()
		}
	}
}

// Wake has the rows read at once.
func (c *Control) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Read reads the rows and tells those who watch if they are others than before. Run does; a process may do it once before it begins.
func (c *Control) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readAtMost)
	defer cancel()
	c.reading.Lock()
	defer c.reading.Unlock()
	next, err := read(ctx, c.DB.Pool())
	if err != nil {
		return err
	}
	if before := c.state.Swap(&next); !reflect.DeepEqual(*before, next) {
		for _, do := range c.watchers {
			do(next)
		}
	}
	return nil
}

// told makes a change take effect here, and soon elsewhere. It is committed already: that its caller has gone changes nothing.
func (c *Control) told(ctx context.Context) (State, error) {
	ctx = context.WithoutCancel(ctx)
	if err := c.Bus.Poke(subject, nil); err != nil {
		c.Log.LogAttrs(ctx, slog.LevelDebug, "operators' decision not told", slog.Any("error", err))
	}
	err := c.Read(ctx)
	return c.State(), err
}

// Turn switches something on or off.
type Turn struct {
	Switch Switch
	On     bool
	Reason string
}

// Turn switches things on and off. What is so already stays as it is, and leaves no entry.
func (c *Control) Turn(ctx context.Context, by audit.By, turns []Turn) (State, error) {
	return c.change(ctx, func(tx postgres.Tx, now State) error {
		changes := audit.Changes{}
		for _, t := range turns {
			_, off := now.Off[t.Switch]
			if off != t.On {
				continue
			}
			changes.Note(string(t.Switch), word(!off), word(t.On))
			if t.Reason != "" {
				changes["reason"] = audit.Change{To: t.Reason}
			}
			if err := c.set(ctx, tx, by, row{kind: kindSwitch, name: string(t.Switch), reason: t.Reason}, !t.On); err != nil {
				return err
			}
		}
		if len(changes) == 0 {
			return nil
		}
		return c.Audit.Record(ctx, tx, audit.Operators, by, "switches", changes)
	})
}

func word(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Drain takes a proxy out of use, or back into it. name is for people, such as us/0.
func (c *Control) Drain(ctx context.Context, by audit.By, proxy, name, reason string, drained bool) (State, error) {
	return c.change(ctx, func(tx postgres.Tx, now State) error {
		if _, is := now.Drained[proxy]; is == drained {
			return nil
		}
		if err := c.set(ctx, tx, by, row{kind: kindDrain, name: proxy, reason: reason}, drained); err != nil {
			return err
		}
		changes := audit.Changes{"drained": {From: !drained, To: drained}}
		if reason != "" {
			changes["reason"] = audit.Change{To: reason}
		}
		return c.Audit.Record(ctx, tx, audit.Operators, by, "egress/"+name, changes)
	})
}

// SetBanner says something to all customers. An empty text takes the banner away.
func (c *Control) SetBanner(ctx context.Context, by audit.By, b Banner) (State, error) {
	return c.change(ctx, func(tx postgres.Tx, now State) error {
		before := Banner{}
		if now.Banner != nil {
			before = *now.Banner
		}
		if b.Text == "" && now.Banner == nil {
			return nil
		}
		value, err := encodeBanner(b)
		if err != nil {
			return err
		}
		if err := c.set(ctx, tx, by, row{kind: kindBanner, value: value}, b.Text != ""); err != nil {
			return err
		}
		changes := audit.Changes{}
		changes.Note("text", before.Text, b.Text)
		changes.Note("level", before.Level, b.Level)
		changes.Note("url", before.URL, b.URL)
		return c.Audit.Record(ctx, tx, audit.Operators, by, "banner", changes)
	})
}

// change changes rows, one change after the other.
func (c *Control) change(ctx context.Context, do func(tx postgres.Tx, now State) error) (State, error) {
	err := c.DB.Tx(ctx, func(tx postgres.Tx) error {
		if err := serialize(ctx, tx); err != nil {
			return err
		}
		now, err := read(ctx, tx)
		if err != nil {
			return err
		}
		return do(tx, now)
	})
	if err != nil {
		return State{}, err
	}
	return c.told(ctx)
}

func (c *Control) set(ctx context.Context, tx postgres.Tx, by audit.By, r row, there bool) error {
	if !there {
		return remove(ctx, tx, r)
	}
	r.Decision = Decision{Reason: r.reason, By: by.Label, At: c.Now().Truncate(time.Microsecond)}
	return put(ctx, tx, r)
}
