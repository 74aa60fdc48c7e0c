// Package switches owns what operators decide for all nodes while the service runs: what is switched off, which proxies
// are drained, and the banner. It does not carry the decisions out; the packages concerned call Refuse, or are notified
// through Watch.
//
// Every node has all decisions in memory (State), so reading them costs nothing. A change is a row, an entry in the
// operators' audit log and a wake-up message to all nodes. A node that misses the message reads the rows within two
// seconds. A node that cannot read them keeps its last state.
package switches

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/operate/switches/internal/db"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
)

// Switch names something that operators can switch off.
type Switch string

// The switches. There is also one for each region.
const (
	// Signups stops people from creating an org when they sign in.
	Signups Switch = "signups"
	// Connects stops new attempts to connect an account.
	Connects Switch = "connects"
	// Writes stops methods that change something on a platform, and uploads.
	Writes Switch = "writes"
	// Webhooks stops deliveries. Events wait in the store until they resume.
	Webhooks Switch = "webhooks"
)

const regionPrefix = "region/"

// Region returns the switch of an egress region.
func Region(name string) Switch { return Switch(regionPrefix + name) }

// Region returns the region of a switch that Region made; empty for other switches.
func (s Switch) Region() string {
	name, ok := strings.CutPrefix(string(s), regionPrefix)
	if !ok {
		return ""
	}
	return name
}

// Decision records which operator decided something, when and why.
type Decision struct {
	Reason, By string
	At         time.Time
}

// Banner is a message to all customers in the dashboard.
type Banner struct {
	Text string `json:"text"`
	// Level is info, warning or critical.
	Level string `json:"level"`
	// URL links to more information; empty for none.
	URL string `json:"url,omitempty"`
	// Until is when the banner expires; nil for never.
	Until    *time.Time `json:"until,omitempty"`
	Decision `json:"-"`
}

// State is a snapshot of all decisions in force. It is empty in normal operation. Its maps are shared and must not be
// modified.
type State struct {
	Off map[Switch]Decision
	// Drained has the drained proxies by region and fingerprint, such as us/9f3c….
	Drained map[string]Decision
	// Banner is nil if there is none. It may have expired; Control.Banner checks that.
	Banner *Banner
}

// messageBus exchanges messages with other nodes. *pubsub.Bus implements it.
type messageBus interface {
	Publish(subject string, payload []byte) error
	Subscribe(ctx context.Context, pattern string, heard func(last string, payload []byte)) error
}

// Deps are the dependencies of a Control.
type Deps struct {
	DB    *postgres.DB
	Audit *audit.Log
	Bus   messageBus
	Log   *slog.Logger
	Now   func() time.Time
}

// Control reads and changes the decisions. Its methods are safe for concurrent use, except Watch. Refuse and Banner
// also work on a nil Control, on which nothing is switched off.
type Control struct {
	deps     Deps
	state    atomic.Pointer[State]
	watchers []func(State)
	wake     chan struct{}
	// reading serialises reads, so that watchers are never called concurrently.
	reading sync.Mutex
}

// New returns a Control whose state is empty until the first Read.
func New(d Deps) *Control {
	c := &Control{deps: d, wake: make(chan struct{}, 1)}
	c.state.Store(&State{Off: map[Switch]Decision{}, Drained: map[string]Decision{}})
	return c
}

// Watch registers a function that is called with every new state. It must not be called after Run or Read. Calls of do
// are never concurrent.
func (c *Control) Watch(do func(State)) { c.watchers = append(c.watchers, do) }

// State returns the decisions that this node applies.
func (c *Control) State() State { return *c.state.Load() }

// retryAfter is the Retry-After of a refusal, in seconds. It is a guess: nothing says when an operator switches it on.
const retryAfter = 60

// Refuse returns nil if s is on, and the problem service-unavailable if it is switched off. The problem does not
// contain the operator's reason.
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
	return problem.ServiceUnavailable.Newf("%s by the operators of this service.", refusalText(s)).
		After(retryAfter).With("switch", string(s))
}

func refusalText(s Switch) string {
	switch s {
	case Signups:
		return "Signing up is temporarily switched off"
	case Connects:
		return "Connecting accounts is temporarily switched off"
	case Writes:
		return "Calls that change something on a platform are temporarily switched off"
	case Webhooks:
		return "Webhook deliveries are temporarily switched off"
	}
	return "The region " + s.Region() + " is temporarily switched off"
}

// Banner returns the banner to show now, nil if there is none or it has expired.
func (c *Control) Banner() *Banner {
	if c == nil {
		return nil
	}
	b := c.state.Load().Banner
	if b == nil || b.Until != nil && !c.deps.Now().Before(*b.Until) {
		return nil
	}
	return b
}

// subject is the NATS subject of the wake-up message after a change.
const subject = "ctl.control"

const (
	pollInterval = 2 * time.Second
	readTimeout  = 2 * time.Second
	// firstReadRetry is the pause after a failed read while this node has no state yet.
	firstReadRetry = 250 * time.Millisecond
)

// Run reads the rows every pollInterval and after every wake-up message, until ctx ends.
func (c *Control) Run(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- c.deps.Bus.Subscribe(ctx, subject, func(string, []byte) { c.Wake() }) }()
	wait := pollInterval
	loaded := false
	for {
		err := c.Read(ctx)
		switch {
		case err == nil:
			wait, loaded = pollInterval, true
		case ctx.Err() == nil:
			c.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot read operators' decisions", slog.Any(logkey.Error, err))
			if !loaded {
				wait = firstReadRetry
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

// Wake makes Run read the rows immediately. It does not block.
func (c *Control) Wake() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Read reads the rows and calls the watchers if the state has changed. Run calls it; a process can also call it once
// before it starts to serve.
func (c *Control) Read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	c.reading.Lock()
	defer c.reading.Unlock()
	next, err := readState(ctx, c.deps.DB)
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

// applyCommitted makes a committed change take effect on this node, and wakes the other nodes. It ignores the caller's
// cancellation, because the change is already committed.
func (c *Control) applyCommitted(ctx context.Context) (State, error) {
	ctx = context.WithoutCancel(ctx)
	if err := c.deps.Bus.Publish(subject, nil); err != nil {
		c.deps.Log.LogAttrs(ctx, slog.LevelDebug, "cannot publish operators' decision", slog.Any(logkey.Error, err))
	}
	err := c.Read(ctx)
	return c.State(), err
}

// Turn is one change of a switch, for Control.Turn.
type Turn struct {
	Switch Switch
	On     bool
	Reason string
}

// Turn switches things on and off in one transaction and returns the new state. It ignores a turn to the position that
// a switch already has. The change takes effect on this node before Turn returns.
func (c *Control) Turn(ctx context.Context, by audit.By, turns []Turn) (State, error) {
	return c.changeState(ctx, func(tx postgres.Tx, now State) error {
		changes := audit.Changes{}
		for _, t := range turns {
			_, off := now.Off[t.Switch]
			if off != t.On {
				continue
			}
			changes.Note(string(t.Switch), onOff(!off), onOff(t.On))
			if t.Reason != "" {
				changes["reason"] = audit.Change{To: t.Reason}
			}
			if err := c.setRow(ctx, tx, by, db.PutParams{Kind: kindSwitch, Name: string(t.Switch), Reason: t.Reason}, !t.On); err != nil {
				return err
			}
		}
		if len(changes) == 0 {
			return nil
		}
		return c.deps.Audit.Record(ctx, tx, audit.Operators, by, "switches", changes)
	})
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Drain takes a proxy out of use, or puts it back. proxy is its key in State.Drained, and name its name for people,
// such as us/0. It does nothing if the proxy already is in that state.
func (c *Control) Drain(ctx context.Context, by audit.By, proxy, name, reason string, drained bool) (State, error) {
	return c.changeState(ctx, func(tx postgres.Tx, now State) error {
		if _, is := now.Drained[proxy]; is == drained {
			return nil
		}
		if err := c.setRow(ctx, tx, by, db.PutParams{Kind: kindDrain, Name: proxy, Reason: reason}, drained); err != nil {
			return err
		}
		changes := audit.Changes{"drained": {From: !drained, To: drained}}
		if reason != "" {
			changes["reason"] = audit.Change{To: reason}
		}
		return c.deps.Audit.Record(ctx, tx, audit.Operators, by, "egress/"+name, changes)
	})
}

// SetBanner replaces the banner. An empty text removes it.
func (c *Control) SetBanner(ctx context.Context, by audit.By, b Banner) (State, error) {
	return c.changeState(ctx, func(tx postgres.Tx, now State) error {
		before := Banner{}
		if now.Banner != nil {
			before = *now.Banner
		}
		if b.Text == "" && now.Banner == nil {
			return nil
		}
		value, err := json.Marshal(b)
		if err != nil {
			return fmt.Errorf("encode banner: %w", err)
		}
		if err := c.setRow(ctx, tx, by, db.PutParams{Kind: kindBanner, Value: value}, b.Text != ""); err != nil {
			return err
		}
		changes := audit.Changes{}
		changes.Note("text", before.Text, b.Text)
		changes.Note("level", before.Level, b.Level)
		changes.Note("url", before.URL, b.URL)
		return c.deps.Audit.Record(ctx, tx, audit.Operators, by, "banner", changes)
	})
}

// changeState runs do with the current state, in a transaction that excludes other changes, and then applies the
// result.
func (c *Control) changeState(ctx context.Context, do func(tx postgres.Tx, now State) error) (State, error) {
	err := c.deps.DB.Tx(ctx, func(tx postgres.Tx) error {
		if err := db.New(tx).Serialize(ctx); err != nil {
			return err
		}
		now, err := readState(ctx, tx)
		if err != nil {
			return err
		}
		return do(tx, now)
	})
	if err != nil {
		return State{}, err
	}
	return c.applyCommitted(ctx)
}

// setRow writes a row, or deletes it if there is false.
func (c *Control) setRow(ctx context.Context, tx postgres.Tx, by audit.By, r db.PutParams, there bool) error {
	if !there {
		return db.New(tx).Remove(ctx, db.RemoveParams{Kind: r.Kind, Name: r.Name})
	}
	if r.Value == nil {
		r.Value = json.RawMessage("{}")
	}
	r.ChangedBy, r.ChangedAt = by.Label, c.deps.Now().Truncate(time.Microsecond)
	return db.New(tx).Put(ctx, r)
}
