package app

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/bucket"
	"github.com/stagedoor/stagedoor/internal/delivery/notice"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/ingest"
	"github.com/stagedoor/stagedoor/internal/events/listen"
	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
)

// probeEvery is how often a node checks that it can write to the event log. If none has succeeded for maxUnwritable,
// readyz reports it.
const (
	probeEvery    = 5 * time.Second
	maxUnwritable = 20 * time.Second
)

// writable is whether something accepts writes.
type writable struct {
	mu     sync.Mutex
	lastOK time.Time
	err    error
}

func (w *writable) record(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err = err; err == nil || w.lastOK.IsZero() {
		w.lastOK = time.Now()
	}
}

// check returns the error of the last write if none has succeeded for maxUnwritable.
func (w *writable) check(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil || time.Since(w.lastOK) < maxUnwritable {
		return nil
	}
	return w.err
}

// events are the event store and the log in front of it.
type events struct {
	kinds *event.Kinds
	store *event.Store
	// log is nil unless the node is a worker or a listener. epoch identifies it: a log that was lost gets a new one.
	log   eventlog.Log
	epoch func(context.Context) (string, error)
}

func newEvents(n *Node, eng engines, op operators, t tenants, p platforms) (events, error) {
	ev := events{
		kinds: event.NewKinds(p.registry.Catalogs()...),
		store: event.New(event.Deps{
			DB: eng.db, Sealer: t.sealer, Seals: func() bool { return op.fleet.CanRead(fleet.FormatSealed) }, Log: n.log, Now: n.clock.Now,
		}),
	}
	if !n.hasRole("worker") && !n.hasRole("listener") {
		return ev, nil
	}
	c := eventlog.Config{
		URL: n.cfg.NATS, Name: "stagedoord " + n.cfg.Node + " events", Access: n.cfg.NATSAccess(), Buckets: event.Buckets,
		Streams: n.cfg.EventLogStreams, Replicas: n.cfg.EventLogReplicas, MaxBytes: n.cfg.EventLogBytes,
		KeepStreams: !n.hasRole("worker"), Log: n.log,
	}
	if n.cfg.EventLog == "postgres" {
		ev.log = eventlog.NewPostgres(eng.db, c)
		ev.epoch = func(context.Context) (string, error) { return "", nil } // It is lost only together with the store.
		return ev, nil
	}
	js, err := eventlog.Open(c)
	if err != nil {
		return ev, err
	}
	n.onClose(js.Close)
	n.loop("event log probe", func(ctx context.Context) error {
		for range clock.Every(ctx, probeEvery) {
			n.logWrites.record(js.Probe(ctx))
		}
		return nil
	})
	ev.log = js
	ev.epoch = func(ctx context.Context) (string, error) {
		var epochs []string
		for i := range max(n.cfg.EventLogStreams, 1) {
			state, err := js.State(ctx, i)
			if err != nil {
				return "", err
			}
			epochs = append(epochs, state.Epoch)
		}
		return strings.Join(epochs, " "), nil
	}
	return ev, nil
}

// newLeases returns the leases of one kind of work.
func newLeases(n *Node, eng engines, kind string, slots int, c lease.Config) *lease.Leases {
	return lease.New(lease.Deps{
		DB: eng.db, Kind: kind, Slots: slots, Node: n.process, Config: c, Bus: eng.bus,
		Registry: n.registry, Log: n.log, Now: n.clock.Now,
	})
}

// addListeners adds the sockets to platforms, which write to the log.
func addListeners(n *Node, eng engines, t tenants, p platforms, a accounts, ev events) {
	batcher := eventlog.NewBatcher(ev.log)
	settling := &ingest.Settling{Store: ev.store, Events: ev.log}
	listeners := listen.New(listen.Deps{
		Config: listen.Config{}, Accounts: a.accounts, Health: a.health, Orgs: t.orgs, Store: ev.store, Events: batcher,
		LogEpoch: ev.epoch, Settled: settling.Settled, Leases: newLeases(n, eng, listen.Kind, listen.Slots, lease.Config{Grace: listen.Grace}), Bus: eng.bus,
		Platforms: p.registry.Get, Tracer: eng.tracer(), Registry: n.registry, Log: n.log, Now: n.clock.Now,
	})
	n.loop("listeners", func(ctx context.Context) error {
		err := listeners.Run(ctx)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		return errors.Join(err, batcher.Close(last))
	})
}

// delivery are the services that bring stored events to customers.
type delivery struct {
	streams  *stream.Streams
	webhooks *webhook.Webhooks
	notices  *notice.Notices
}

func newDelivery(n *Node, eng engines, op operators, t tenants, a accounts, ev events) (delivery, error) {
	deny, err := n.cfg.WebhookDenied()
	if err != nil {
		return delivery{}, err
	}
	customers := egress.NewPublic(egress.PublicConfig{
		Loopback: n.cfg.Dev, Deny: deny, Registry: n.registry, Now: n.clock.Now,
	})
	n.onClose(customers.Close)
	streams := stream.New(stream.Deps{
		Config: stream.Config{}, Store: ev.store, Wire: eng.bus, Redis: eng.redis, DB: eng.db, Keys: t.keys,
		Registry: n.registry, Log: n.log, Now: n.clock.Now,
	})
	eng.bus.OnConnect(streams.Missed)
	eng.bus.OnLoss(streams.Missed)
	if n.hasRole("api") {
		n.loop("streams", streams.Run)
	}
	webhooks := webhook.New(webhook.Deps{
		Config: webhook.Defaults(), DB: eng.db, Events: ev.store, Kinds: ev.kinds, Orgs: t.orgs, Accounts: a.accounts, Platforms: a.platforms.names,
		Seal: t.sealer, Audit: t.audit, Outbox: t.outbox, Public: customers, Bus: eng.bus, Usage: t.usage,
		Switches: op.switches, Permits: t.suspensions, Tracer: eng.tracer(), Registry: n.registry, Log: n.log, Now: n.clock.Now,
	})
	op.switches.Watch(func(s switches.State) {
		_, off := s.Off[switches.Webhooks]
		webhooks.Halt(off)
	})
	t.suspensions.Watch(webhooks.Suspend)
	a.accounts.OnDisconnect(func(ctx context.Context, tx postgres.Tx, of id.Org, at id.Account) error {
		if err := errors.Join(a.connects.Leave(ctx, tx, of, at), a.sessions.Leave(ctx, tx, of, at)); err != nil {
			return err
		}
		return webhooks.Leave(ctx, tx, of, at)
	})
	a.accounts.OnPurge(func(ctx context.Context, a account.Account, most int) (bool, error) {
		events, err := ev.store.Purge(ctx, a.Org, a.ID, a.Environment.IsTest(), most)
		if err != nil {
			return false, err
		}
		deliveries, err := webhooks.Purge(ctx, a.Org, a.ID, most)
		return events && deliveries, err
	})
	notices := notice.New(notice.Deps{
		DB: eng.db, Orgs: t.orgs, Members: t.members, Accounts: a.accounts, Keys: t.keys, Webhooks: webhooks, Mail: t.mails, Audit: t.audit,
		Seal: t.sealer, Public: customers, Queue: eng.jobs, PublicURL: n.cfg.PublicURL, Log: n.log,
	})
	t.outbox.Watch(notices.Observe)
	return delivery{streams, webhooks, notices}, nil
}

// addIngest adds what moves events from the log into the store and sends their webhooks.
func addIngest(n *Node, eng engines, t tenants, ev events, d delivery) {
	writer := ingest.New(ingest.Deps{
		Store: ev.store, Events: ev.log, Outbox: t.outbox, Bus: eng.bus, Meter: t.usage,
		Orgs: t.orgs, Committed: d.webhooks.Committed, Tracer: eng.tracer(), Registry: n.registry, Log: n.log, Now: n.clock.Now,
	})
	buckets := bucket.Deps{Leases: newLeases(n, eng, "ingest", event.Buckets, lease.Config{}), Ingest: writer, Webhooks: d.webhooks}
	n.loop("buckets", func(ctx context.Context) error { return bucket.Run(ctx, buckets) })
}
