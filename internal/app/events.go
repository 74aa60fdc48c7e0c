package app

import (
	"context"
	"strings"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/ingest"
	"github.com/stagedoor/stagedoor/internal/events/listen"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/server/api/events"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// eventing is the path of events through a node: listeners, the log, the store, streams and webhooks.
type eventing struct {
	kinds    *event.Kinds
	events   *event.Store
	streams  *stream.Streams
	webhooks *webhook.Webhooks
	// customers connects to the receivers of webhooks.
	customers *egress.Public

	// The fields below are nil unless the node is a worker or a listener.
	log      eventlog.Log
	closeLog func()
	batcher  *eventlog.Batcher
	buckets  *lease.Leases
	ingest   *ingest.Ingest
	listen   *listen.Listeners
}

// ingestKind is the kind of the leases of buckets.
const ingestKind = "ingest"

// buildEvents builds the event path. It needs the flows.
func (n *Node) buildEvents(process string, orgs *org.Orgs, auditLog *audit.Log) error {
	deny, err := n.cfg.WebhookDenied()
	if err != nil {
		return err
	}
	n.customers = egress.NewPublic(egress.PublicConfig{Loopback: n.cfg.Dev, Deny: deny, Registry: n.registry, Now: clock.Now})
	n.kinds = event.NewKinds(n.flows.catalogs)
	n.streams = stream.New(stream.Deps{
		Config: stream.Config{}, Store: n.events, Wire: n.bus, Redis: n.redis, DB: n.db, Keys: n.keys, Registry: n.registry, Log: n.log, Now: clock.Now,
	})
	n.bus.OnConnect(n.streams.Missed)
	n.bus.OnLoss(n.streams.Missed)
	n.webhooks = webhook.New(webhook.Deps{
		Config: webhook.Defaults(), DB: n.db, Events: n.events, Kinds: n.kinds, Orgs: orgs, Accounts: n.accounts, Seal: n.sealer, Audit: auditLog,
		Outbox: n.outbox, Public: n.customers, Bus: n.bus, Usage: n.usage, Switches: n.control, Permits: n.suspensions, Registry: n.registry, Log: n.log, Now: clock.Now,
	})
	n.accounts.OnDisconnect(func(ctx context.Context, tx postgres.Tx, of id.Org, at id.Account) error {
		if err := n.connects.Leave(ctx, tx, of, at); err != nil {
			return err
		}
		return n.webhooks.Leave(ctx, tx, of, at)
	})
	n.accounts.OnPurge([]string{"events", "deliveries"}, func(ctx context.Context, a account.Account, most int) (bool, error) {
		events, err := n.events.Purge(ctx, a.Org, a.ID, a.Environment == org.EnvSandbox, most)
		if err != nil {
			return false, err
		}
		deliveries, err := n.webhooks.Purge(ctx, a.Org, a.ID, most)
		return events && deliveries, err
	})
	if !n.hasRole("worker") && !n.hasRole("listener") {
		return nil
	}
	if err := n.openLog(); err != nil {
		return err
	}
	newLeases := func(kind string, slots int) *lease.Leases {
		return lease.New(lease.Deps{
			DB: n.db, Kind: kind, Slots: slots, Node: process, Config: lease.Config{}, Bus: n.bus,
			Registry: n.registry, Log: n.log, Now: clock.Now,
		})
	}
	if n.hasRole("worker") {
		n.buckets = newLeases(ingestKind, event.Buckets)
		n.ingest = ingest.New(ingest.Deps{
			Store: n.events, Events: n.eventing.log, Outbox: n.outbox, Bus: n.bus, Meter: n.usage,
			Sandbox: func(ctx context.Context, of id.Org) (bool, error) {
				o, err := orgs.Get(ctx, of)
				return o.Environment == org.EnvSandbox, err
			},
			Committed: n.webhooks.Committed, Registry: n.registry, Log: n.log, Now: clock.Now,
		})
	}
	if n.hasRole("listener") {
		n.batcher = eventlog.NewBatcher(n.eventing.log)
		settling := &ingest.Settling{Store: n.events, Events: n.eventing.log}
		n.listen = listen.New(listen.Deps{
			Config: listen.Config{}, Accounts: n.accounts, Health: n.health, Orgs: orgs, Store: n.events, Events: n.batcher, LogEpoch: n.logEpoch,
			Settled: settling.Settled, Leases: newLeases(listen.Kind, listen.Slots), Bus: n.bus, Drivers: n.drivers, Registry: n.registry, Log: n.log, Now: clock.Now,
		})
	}
	return nil
}

// openLog opens the event log of the settings.
func (n *Node) openLog() error {
	c := eventlog.Config{
		URL: n.cfg.NATS, Name: "stagedoord " + n.cfg.Node + " events", Buckets: event.Buckets, Streams: n.cfg.EventLogStreams,
		Replicas: n.cfg.EventLogReplicas, MaxBytes: n.cfg.EventLogBytes, Log: n.log,
	}
	if n.cfg.EventLog == "postgres" {
		n.eventing.log, n.closeLog = eventlog.NewPostgres(n.db, c), func() {}
		return nil
	}
	js, err := eventlog.Open(c)
	if err != nil {
		return err
	}
	n.eventing.log, n.closeLog = js, js.Close
	return nil
}

// logEpoch identifies the log by the epochs of all its streams.
func (n *Node) logEpoch(ctx context.Context) (string, error) {
	if n.cfg.EventLog == "postgres" {
		return "", nil // It is lost only together with the store.
	}
	var epochs []string
	for i := range max(n.cfg.EventLogStreams, 1) {
		state, err := n.eventing.log.State(ctx, i)
		if err != nil {
			return "", err
		}
		epochs = append(epochs, state.Epoch)
	}
	return strings.Join(epochs, " "), nil
}

// eventDeps returns the dependencies of the event operations.
func (n *Node) eventDeps() events.Deps {
	return events.Deps{Streams: n.streams, Permit: n.suspensions.Permit, Store: n.events, Kinds: n.kinds, Accounts: n.accounts, Meter: n.usage, Now: clock.Now}
}
