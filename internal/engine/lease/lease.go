// Package lease assigns slots of work to the live nodes, so that at most one node works on a slot.
//
// A node renews one row per kind of work every few seconds (run.go), and decides without I/O what follows from it
// (assignment.go). Rendezvous hashing over the live nodes decides which node should have a slot (place.go): a node
// releases slots that belong to another node, and takes its own as soon as they are free. Only the database's clock decides whether a node is live. A node that cannot renew its row
// stops, by its own monotonic clock, before the database gives its slots to others, or Config.Grace later. After an
// outage of the database, no node takes the slots of others until they have had the time to renew their rows.
//
// A lease alone does not stop a process that was frozen and continues for a moment after its lease expired. Therefore
// the epoch of a slot grows whenever it changes hands, and writers for a slot must check, in the same transaction as
// their write, that no higher epoch has written. That check (fencing) is the caller's.
//
// A generation of the database ends when the database is restored, recovered or failed over (migrations,
// 0038_generation.sql). All leases of a generation end with it: its epochs may have been lost, and their holders remember
// what is no longer stored. A node notices at its next beat, begins the next generation, and takes its slots again with
// epochs that are higher than all before. Until then the epoch of an old lease must not pass the caller's fence either.
//
// Start with Leases.Run.
package lease

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
)

// Config sets how fast a dead node is noticed.
type Config struct {
	// TTL is how long a node keeps its slots after its last renewal. Default: 6 s.
	TTL time.Duration
	// Beat is the time between renewals. Default: 2 s.
	Beat time.Duration
	// Grace is how long holds continue after the lease could not be renewed in time, unless another node has taken their
	// slots by then. It is for work that may overlap because all its writes are fenced, and that is expensive to restart.
	// Default: 0.
	Grace time.Duration
	// Patience is how long a hold may take to return. After that its slot is given to another node, although the hold is
	// still running: fencing keeps it from writing. Default: 1 min.
	Patience time.Duration
}

const (
	defaultTTL  = 6 * time.Second
	defaultBeat = 2 * time.Second

	defaultPatience = time.Minute
	// marginDivisor sets the safety margin: a node that cannot renew stops its work TTL/marginDivisor before others may
	// take over. With the default TTL it stops after 5 s and loses its slots after 6 s.
	marginDivisor = 6
)

func (c Config) withDefaults() Config {
	if c.TTL <= 0 {
		c.TTL = defaultTTL
	}
	if c.Beat <= 0 {
		c.Beat = defaultBeat
	}
	if c.Patience <= 0 {
		c.Patience = defaultPatience
	}
	return c
}

// Deps holds the dependencies and settings of Leases.
type Deps struct {
	DB *postgres.DB
	// Kind names the work. Its slots are numbered from 0 to Slots-1. All nodes must agree on Slots.
	Kind  string
	Slots int
	// Node identifies this process. It must be unique, also over restarts: a new process must not inherit the slots of
	// an old one that may still be running.
	Node   string
	Config Config
	// Bus may be nil. Other nodes then notice a free slot at their next beat instead of immediately.
	Bus *pubsub.Bus
	// Registry registers the metrics. If it is nil, they are not registered.
	Registry prometheus.Registerer
	Log      *slog.Logger
	Now      func() time.Time
}

// Held is a slot that this node holds.
type Held struct {
	Slot int
	// Epoch is higher than the epoch of every earlier holder of the slot.
	Epoch int64
}

// generationShift is the number of bits below the generation in an epoch.
const generationShift = 24

// Generation returns the generation of the database that an epoch belongs to. Later generations have higher numbers.
func Generation(epoch int64) int64 { return epoch >> generationShift }

// Causes of the context of a hold (context.Cause).
var (
	// ErrMoved means that the slot now belongs to another live node, which waits until this one releases it.
	ErrMoved = errors.New("the slot belongs to another node now")
	// ErrLapsed means that the lease could not be renewed in time, that another node already has the slot, or that the
	// database was restored or failed over.
	ErrLapsed = errors.New("the lease has expired")
)

// Leases manages the slots of one kind on this node.
type Leases struct {
	deps   Deps
	held   prometheus.Gauge
	beat   prometheus.Gauge
	lapses prometheus.Counter
	stuck  prometheus.Counter
}

// New makes the Leases of a kind. Run starts them.
func New(d Deps) *Leases {
	d.Config = d.Config.withDefaults()
	kind := prometheus.Labels{"kind": d.Kind}
	register := promauto.With(d.Registry)
	return &Leases{
		deps: d,
		held: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_lease_slots_held", Help: "Slots of work that this node has.", ConstLabels: kind,
		}),
		beat: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_lease_beat_seconds", Help: "When this node last renewed its leases, as a Unix time.", ConstLabels: kind,
		}),
		lapses: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_lease_lapses_total", Help: "How often this node had to stop because it could not renew its leases.", ConstLabels: kind,
		}),
		stuck: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_lease_stuck_total", Help: "Slots that were given away although their work did not end.", ConstLabels: kind,
		}),
	}
}

// Run acquires slots until ctx ends, and calls hold in a new goroutine for each slot that this node gets. The context
// of hold ends when the slot must be released, with the reason as its cause. The slot stays assigned to this node
// until hold returns, unless the lease expires first. If hold returns early, the node acquires the slot again, with a
// higher epoch, at a later beat. Run returns after all holds have returned. Its error is always nil.
func (l *Leases) Run(ctx context.Context, hold func(ctx context.Context, h Held)) error {
	r := &run{Leases: l, hold: hold, ended: make(chan *heldSlot), assignment: assignment{
		config: l.deps.Config, kind: l.deps.Kind, slots: l.deps.Slots, node: l.deps.Node, held: map[int]*heldSlot{},
	}}
	wakeUps, unsubscribe := l.subscribe(ctx)
	defer unsubscribe()
	r.loop(ctx, wakeUps)
	return nil
}

func (l *Leases) subject() string { return "ctl.lease." + l.deps.Kind }

// subscribe receives a wake-up whenever another node joins, leaves or releases slots. Several messages may be merged
// into one wake-up. Without a bus, the channel is nil and never ready.
func (l *Leases) subscribe(ctx context.Context) (wakeUps <-chan struct{}, stop func()) {
	if l.deps.Bus == nil {
		return nil, func() {}
	}
	received, done := make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		err := l.deps.Bus.Subscribe(ctx, l.subject(), func(_ string, payload []byte) {
			if string(payload) == l.deps.Node {
				return // sent by this node
			}
			select {
			case received <- struct{}{}:
			default:
			}
		})
		if err != nil {
			l.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot subscribe to lease changes", slog.String(logkey.Kind, l.deps.Kind), slog.Any(logkey.Error, err))
		}
	}()
	return received, func() {
		cancel()
		<-done
	}
}

// wakeOthers makes the other nodes beat immediately. If it fails, they notice at their next beat.
func (l *Leases) wakeOthers(ctx context.Context) {
	if l.deps.Bus == nil {
		return
	}
	if err := l.deps.Bus.Publish(l.subject(), []byte(l.deps.Node)); err != nil {
		l.deps.Log.LogAttrs(ctx, slog.LevelDebug, "cannot publish lease change", slog.String(logkey.Kind, l.deps.Kind), slog.Any(logkey.Error, err))
	}
}
