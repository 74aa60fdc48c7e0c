package lease_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

const slots = 32

// quick beats more often than the default but has the default TTL: a busy machine may stall for longer than a shorter
// one allows.
var quick = lease.Config{TTL: 6 * time.Second, Beat: 800 * time.Millisecond}

// holder is a node that holds a slot.
type holder struct {
	node  string
	epoch int64
	since time.Time
}

// fixture runs the nodes of a test. It fails the test if two nodes hold a slot concurrently, or if an epoch does not
// grow.
type fixture struct {
	t        *testing.T
	database secret.String
	kind     string
	// bus connects the nodes over NATS.
	bus bool
	// grace is the grace of the leases. With it, a node may start a hold before the previous one has ended.
	grace time.Duration
	// patience is how long holds may take to return. Holds of the node stuck wait for unstuck.
	patience time.Duration
	stuck    string
	unstuck  chan struct{}

	mu      sync.Mutex
	now     map[int]holder  // current holder of each slot
	epochs  map[int]int64   // highest epoch of each slot so far
	dead    map[string]bool // killed nodes, whose later reports do not count
	lapsed  map[string]int  // holds of each node that ended with ErrLapsed
	moved   map[string]int  // holds of each node that ended with ErrMoved
	changed chan struct{}   // closed and replaced at every change
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{
		t: t, database: testenv.DatabaseURL(t), kind: "test-" + t.Name(), now: map[int]holder{}, epochs: map[int]int64{}, dead: map[string]bool{},
		lapsed: map[string]int{}, moved: map[string]int{}, changed: make(chan struct{}),
	}
}

// hold returns the hold function of a node: it reports the slot and waits until it must be released.
func (f *fixture) hold(node string) func(ctx context.Context, h lease.Held) {
	return func(ctx context.Context, h lease.Held) {
		f.recordStart(node, h)
		<-ctx.Done()
		if node == f.stuck {
			<-f.unstuck
		}
		f.recordEnd(node, h, context.Cause(ctx))
	}
}

func (f *fixture) recordStart(node string, h lease.Held) {
	f.change(func() {
		if f.dead[node] {
			return
		}
		if other, taken := f.now[h.Slot]; taken && f.grace == 0 && f.stuck == "" {
			f.t.Errorf("%s has slot %d while %s has it", node, h.Slot, other.node)
		}
		if h.Epoch <= f.epochs[h.Slot] {
			f.t.Errorf("slot %d has epoch %d after %d", h.Slot, h.Epoch, f.epochs[h.Slot])
		}
		f.now[h.Slot], f.epochs[h.Slot] = holder{node, h.Epoch, time.Now()}, h.Epoch
	})
}

func (f *fixture) recordEnd(node string, h lease.Held, why error) {
	f.change(func() {
		if f.dead[node] {
			return
		}
		if f.now[h.Slot].epoch == h.Epoch {
			delete(f.now, h.Slot)
		}
		switch {
		case errors.Is(why, lease.ErrLapsed):
			f.lapsed[node]++
		case errors.Is(why, lease.ErrMoved):
			f.moved[node]++
		}
	})
}

// change runs do under the lock and wakes the callers of await.
func (f *fixture) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	close(f.changed)
	f.changed = make(chan struct{})
}

// await waits until a condition holds, and returns how long that took. The condition runs under the lock.
func (f *fixture) await(what string, atMost time.Duration, is func() bool) time.Duration {
	f.t.Helper()
	start, over := time.Now(), time.After(atMost)
	for {
		f.mu.Lock()
		done, changed := is(), f.changed
		f.mu.Unlock()
		if done {
			return time.Since(start)
		}
		select {
		case <-changed:
		case <-over:
			f.mu.Lock()
			defer f.mu.Unlock()
			f.t.Fatalf("timeout after %v: %s; slots per node: %v", atMost, what, f.shares())
		}
	}
}

// shares returns the number of slots that each node holds. The caller must hold the lock.
func (f *fixture) shares() map[string]int {
	shares := map[string]int{}
	for _, h := range f.now {
		shares[h.node]++
	}
	return shares
}

// spread returns a condition: these nodes hold all slots, and each of them holds at least one.
func (f *fixture) spread(nodes ...*node) func() bool {
	return func() bool {
		shares, sum := f.shares(), 0
		for _, n := range nodes {
			if shares[n.name] == 0 {
				return false
			}
			sum += shares[n.name]
		}
		return sum == slots
	}
}

// node is a simulated process. It is also the log handler of its leases, to notice when beats fail.
type node struct {
	f     *fixture
	name  string
	link  *link
	stop  context.CancelFunc
	ended chan struct{}
	// failing receives a value when beats start to fail, renewed when they succeed again.
	failing, renewed chan struct{}
}

// start starts a node with its own link to the database. Its clock is wrong by skew.
func (f *fixture) start(name string, skew time.Duration) *node {
	f.t.Helper()
	n := &node{f: f, name: name, link: newLink(f.t, f.database), ended: make(chan struct{}), failing: make(chan struct{}, 100), renewed: make(chan struct{}, 100)}
	db, err := postgres.Open(f.t.Context(), postgres.Config{URL: n.link.url, MaxConns: 2, Name: name})
	must.OK(f.t, err)
	config := quick
	config.Grace, config.Patience = f.grace, f.patience
	deps := lease.Deps{
		DB: db, Kind: f.kind, Slots: slots, Node: name, Config: config, Log: slog.New(n),
		Now: func() time.Time { return time.Now().Add(skew) },
	}
	if f.bus {
		b, err := pubsub.Open(pubsub.Config{URL: testenv.NATS(f.t), Name: name})
		must.OK(f.t, err)
		f.t.Cleanup(b.Close)
		deps.Bus = b
	}
	ctx, stop := context.WithCancel(f.t.Context())
	n.stop = stop
	go func() {
		defer close(n.ended)
		if err := lease.New(deps).Run(ctx, f.hold(name)); err != nil {
			f.t.Error(err)
		}
	}()
	f.t.Cleanup(func() {
		stop()
		<-n.ended
		n.link.setCut(true)
		db.Close()
	})
	return n
}

// kill makes the node look like a killed process to the others: its link is cut and its slots do not count as held.
func (n *node) kill() {
	n.f.change(func() {
		n.f.dead[n.name] = true
		for slot, h := range n.f.now {
			if h.node == n.name {
				delete(n.f.now, slot)
			}
		}
	})
	n.link.setCut(true)
}

func (n *node) Enabled(context.Context, slog.Level) bool { return true }

// Handle signals when beats start to fail and when they succeed again.
func (n *node) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "cannot renew leases":
		n.failing <- struct{}{}
	case "leases are renewed again":
		n.renewed <- struct{}{}
	}
	return nil
}

func (n *node) WithAttrs([]slog.Attr) slog.Handler { return n }

func (n *node) WithGroup(string) slog.Handler { return n }

// link is a TCP proxy to the database that can be cut.
type link struct {
	url   secret.String
	to    string
	mu    sync.Mutex
	conns map[net.Conn]bool
	cut   bool
}

func newLink(t *testing.T, database secret.String) *link {
	t.Helper()
	address, err := url.Parse(database.Reveal())
	must.OK(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	l := &link{to: address.Host, conns: map[net.Conn]bool{}}
	address.Host = listener.Addr().String()
	l.url = secret.New(address.String())
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go l.serve(near)
		}
	}()
	return l
}

func (l *link) serve(near net.Conn) {
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		_ = near.Close()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		_, _ = near.Close(), far.Close()
		return
	}
	l.conns[near], l.conns[far] = true, true
	for _, pair := range [][2]net.Conn{{near, far}, {far, near}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			_, _ = pair[0].Close(), pair[1].Close()
		}()
	}
}

func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}

func name(i int) string { return fmt.Sprintf("node-%d", i) }
