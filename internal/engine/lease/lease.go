// Package lease spreads slots of work over the nodes that live, so that each slot is worked on by one of them.
//
// A node renews one row per kind of work, every few seconds (run.go). Rendezvous hashing over the live nodes says whose a slot should
// be (place.go): a node gives up what belongs to another, and takes what is its own as soon as nobody has it. Whether a node lives is
// judged by the database's clock alone; a node that cannot renew its row stops by its own monotonic clock before the database lets
// others have its slots.
//
// A lease alone cannot keep a node that was frozen from going on for a moment. Every time a slot changes hands its epoch grows, and
// whoever writes on behalf of a slot does so only if no higher epoch has written.
package lease

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
)

// Config is how fast a dead node is noticed.
type Config struct {
	// TTL is how long a node holds its slots after it last renewed its row; 6 s if zero.
	TTL time.Duration
	// Beat is how often it does so; 2 s if zero.
	Beat time.Duration
}

const (
	defaultTTL  = 6 * time.Second
	defaultBeat = 2 * time.Second
	// margins is which part of its time a node leaves unused: it stops that much before the others may take over.
	margins = 6
)

func (c Config) withDefaults() Config {
	if c.TTL <= 0 {
		c.TTL = defaultTTL
	}
	if c.Beat <= 0 {
		c.Beat = defaultBeat
	}
	return c
}

// poker tells other nodes that something has changed; *pubsub.Bus has it.
type poker interface {
	Poke(subject string, payload []byte) error
	Listen(ctx context.Context, pattern string, heard func(last string, payload []byte)) error
}

// Deps is what the leases need.
type Deps struct {
	DB *postgres.DB
	// Kind names the work. It has Slots slots, from 0.
	Kind  string
	Slots int
	// Node is this process, and no other one before or after it.
	Node   string
	Config Config
	// Bus may be nil: then a slot that was given up is noticed with the next beat.
	Bus poker
	Log *slog.Logger
	Now func() time.Time
}

// Held is a slot that this node has.
type Held struct {
	Slot int
	// Epoch is higher than that of everybody who had it before.
	Epoch int64
}

// Why a slot has to be given up: the cause of its context.
var (
	// ErrMoved means that it belongs to another node now, which waits for it.
	ErrMoved = errors.New("the slot belongs to another node now")
	// ErrLapsed means that the lease could not be renewed, or that it is known to be another node's already.
	ErrLapsed = errors.New("the lease has run out")
)

// Leases are the slots of one kind.
type Leases struct {
	Deps
	held   prometheus.Gauge
	beat   prometheus.Gauge
	lapses prometheus.Counter
}

// New makes the leases of a kind.
func New(d Deps) *Leases {
	d.Config = d.Config.withDefaults()
	kind := prometheus.Labels{"kind": d.Kind}
	return &Leases{
		Deps: d,
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_lease_slots_held", Help: "Slots of work that this node has.", ConstLabels: kind,
		}),
		beat: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_lease_beat_seconds", Help: "When this node last renewed its leases, as a Unix time.", ConstLabels: kind,
		}),
		lapses: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_lease_lapses_total", Help: "How often this node had to stop because it could not renew its leases.", ConstLabels: kind,
		}),
	}
}

// Collectors are to be registered.
func (l *Leases) Collectors() []prometheus.Collector {
	return []prometheus.Collector{l.held, l.beat, l.lapses}
}

// Run calls hold, each time in a goroutine of its own, for every slot that this node gets, until the context ends. The context of a
// hold ends when the slot must be given up; the slot is free for others when hold has returned. A hold that returns early gets its
// slot again with a later beat. Run returns when all holds have.
func (l *Leases) Run(ctx context.Context, hold func(ctx context.Context, h Held)) error {
	r := &run{Leases: l, hold: hold, held: map[int]*holding{}, returned: make(chan *holding)}
	pokes, stopListening := l.listen(ctx)
	defer stopListening()
	r.loop(ctx, pokes)
	return nil
}

func (l *Leases) subject() string { return "ctl.lease." + l.Kind }

// listen hears of what other nodes have given up.
func (l *Leases) listen(ctx context.Context) (pokes <-chan struct{}, stop func()) {
	if l.Bus == nil {
		return nil, func() {}
	}
	heard, done := make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		err := l.Bus.Listen(ctx, l.subject(), func(_ string, payload []byte) {
			if string(payload) == l.Node {
				return
			}
			select {
			case heard <- struct{}{}:
			default:
			}
		})
		if err != nil {
			l.Log.LogAttrs(ctx, slog.LevelWarn, "leases are not listened for on the bus", slog.String("kind", l.Kind), slog.Any("error", err))
		}
	}()
	return heard, func() {
		cancel()
		<-done
	}
}

// poke has the other nodes look.
func (l *Leases) poke(ctx context.Context) {
	if l.Bus == nil {
		return
	}
	if err := l.Bus.Poke(l.subject(), []byte(l.Node)); err != nil {
		l.Log.LogAttrs(ctx, slog.LevelDebug, "nobody was told of leases", slog.String("kind", l.Kind), slog.Any("error", err))
	}
}
