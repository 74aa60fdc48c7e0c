package bucket_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/delivery/bucket"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/delivery/stream/streamtest"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/lease"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/ingest"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// usage counts nothing.
type usage struct{}

func (usage) Received(id.Org, int64)                        {}
func (usage) Delivered(id.Org, int64, int64, time.Duration) {}

// fixture is a node that stores and delivers the events of an account, once it is started.
type fixture struct {
	*testing.T
	*accounttest.Fixture
	db      *postgres.DB
	store   *event.Store
	log     eventlog.Log
	outbox  *outbox.Outbox
	account account.Account

	mu sync.Mutex
	// seen has the ids of events by observer, in the order in which they arrived.
	seen map[string][]string
}

// see records an event that an observer got.
func (f *fixture) see(observer string, body []byte) {
	var e struct{ ID string }
	if err := json.Unmarshal(body, &e); err != nil {
		f.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[observer] = append(f.seen[observer], e.ID)
}

// publish writes the account's frames from one number to another to the log, as a listener does.
func (f *fixture) publish(from, to int) {
	f.Helper()
	for n := from; n <= to; n++ {
		r := event.Record{
			Org: f.account.Org, Source: string(f.account.ID), Kind: "message", UpstreamID: fmt.Sprint("u", n), Epoch: 1,
			Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
		}
		text := r.Append(nil)
		must.OK(f, f.log.Publish(f.Context(), event.Bucket(r.Source), fmt.Sprint(n), append(binary.AppendUvarint(nil, uint64(len(text))), text...)))
	}
}

// stored lists the account's events.
func (f *fixture) stored() (list []event.Stored) {
	list, err := f.store.After(f.Context(), f.account.Org, string(f.account.ID), 0, clock.Now().Add(-time.Hour), 1000)
	if err != nil {
		return nil // the database is failing over
	}
	return list
}

// awaitDelivery waits until every event of the store has reached every observer, and there are at least n.
func (f *fixture) awaitDelivery(n int) {
	f.Helper()
	var missing string
	defer func() {
		if f.Failed() {
			f.Log(missing)
		}
	}()
	testenv.Await(f, fmt.Sprintf("%d events have reached all observers", n), func() bool {
		list := f.stored()
		f.mu.Lock()
		defer f.mu.Unlock()
		missing = fmt.Sprintf("%d events are stored", len(list))
		for _, observer := range []string{"webhook", "account", "org"} {
			for i := range list {
				if !slices.Contains(f.seen[observer], string(list[i].ID)) {
					missing = fmt.Sprintf("%s has not got event %d of %d: %s", observer, list[i].Seq, len(list), list[i].Body)
					return false
				}
			}
		}
		return len(list) >= n
	})
}

// watch reads a stream until the test ends.
func (f *fixture) watch(h *stream.Streams, observer string, w stream.Want) {
	f.Helper()
	r, _, err := h.Watch(f.Context(), w)
	must.OK(f, err)
	go func() {
		defer r.Close()
		for f.Context().Err() == nil {
			list, more, err := r.Read(f.Context(), nil, 10)
			if err != nil { // the database is failing over
				clock.Pause(f.Context(), 10*time.Millisecond)
				continue
			}
			for _, e := range list {
				f.see(observer, e.Body)
			}
			if len(list) > 0 {
				continue
			}
			select {
			case <-more:
			case <-f.Context().Done():
			}
		}
	}()
}

// newNode returns a node on a database, with a webhook and with streams that stay open, and the function that starts it.
func newNode(t *testing.T, db *postgres.DB) (f *fixture, start func()) {
	t.Helper()
	f = &fixture{T: t, db: db, seen: map[string][]string{}}
	f.Fixture = accounttest.New(t, accounttest.Engines{DB: f.db}, nil)
	quiet := slog.New(slog.DiscardHandler)
	f.store = event.New(event.Deps{DB: f.db, Sealer: sealtest.NewMemory(), Seals: sealtest.Always, Log: quiet, Now: clock.Now})
	must.OK(t, f.store.Upkeep(t.Context()))
	log, err := eventlog.Open(eventlog.Config{URL: testenv.PrivateJetStream(t).URL, Name: "test"})
	must.OK(t, err)
	t.Cleanup(log.Close)
	f.log = log
	public := egress.NewPublic(egress.PublicConfig{Loopback: true, Now: clock.Now})
	t.Cleanup(public.Close)
	config := webhook.Defaults()
	config.FlushEvery = 20 * time.Millisecond
	f.outbox = outbox.New(f.db, clock.Now)
	hooks := webhook.New(webhook.Deps{
		Config: config, DB: f.db, Events: f.store, Kinds: event.NewKinds(f.Catalog), Orgs: f.Orgs, Accounts: f.Accounts, Seal: f.Seal,
		Audit: audit.New(f.db, sealtest.NewMemory(), clock.Now), Outbox: f.outbox, Public: public, Bus: f.Bus, Usage: usage{}, Log: quiet, Now: clock.Now,
	})
	writer := ingest.New(ingest.Deps{
		Store: f.store, Events: log, Outbox: f.outbox, Bus: f.Bus, Meter: usage{}, Orgs: f.Orgs, Committed: hooks.Committed, Log: quiet, Now: clock.Now,
	})
	leases := lease.New(lease.Deps{
		DB: f.db, Kind: "ingest", Slots: event.Buckets, Node: "node", Config: lease.Config{Beat: 200 * time.Millisecond}, Log: quiet, Now: clock.Now,
	})
	streams := stream.New(stream.Deps{Store: f.store, Wire: f.Bus, Redis: streamtest.NoRedis{}, Log: quiet, Now: clock.Now})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = streams.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })

	f.account = f.Connect(f.Connected(f.Org(), "1001"))
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			f.see("webhook", body)
		}
	}))
	t.Cleanup(receiver.Close)
	_, err = hooks.Put(t.Context(), accounttest.By("webhook.put"), f.account.Org, f.account.ID, webhook.Change{URL: receiver.URL})
	must.OK(t, err)
	f.watch(streams, "account", stream.Want{Org: f.account.Org, Account: f.account.ID, Days: 7, After: "0"})
	f.watch(streams, "org", stream.Want{Org: f.account.Org, Days: 7, After: "0"})
	return f, func() {
		running.Go(func() { _ = bucket.Run(ctx, bucket.Deps{Leases: leases, Ingest: writer, Webhooks: hooks}) })
	}
}

// A node that runs while the database fails over to a replica that lags stores what was lost again from the log, if the
// platform cannot list it again, numbers it without holes, and delivers everything that is then stored, also under numbers that it had delivered
// before: to webhooks, and to streams that stay open.
func TestFailoverToAReplicaThatLags(t *testing.T) {
	t.Parallel()
	primary := testenv.PrivatePostgres(t, io.Discard)
	database := testenv.NewSwitch(t, primary)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: database.URL, MaxConns: 16, Name: "test"})
	must.OK(t, err)
	t.Cleanup(db.Close)
	f, start := newNode(t, db)
	start()
	f.publish(1, 10)
	f.awaitDelivery(10)
	replica := testenv.NewReplica(t, primary)
	replica.Lag()
	// An event of the service is lost for good, so the numbers after it go to other events.
	must.OK(t, f.db.Tx(t.Context(), func(tx postgres.Tx) error {
		return f.Outbox.Add(t.Context(), tx, outbox.Event{Org: f.account.Org, Account: f.account.ID, Data: contract.AccountPaused{}})
	}))
	f.awaitDelivery(11)
	f.publish(11, 20)
	f.awaitDelivery(21)
	before := f.stored()

	database.Cut()
	primary.Kill()
	replica.Promote()
	database.To(replica.Store)
	f.awaitDelivery(20)
	f.publish(21, 30)
	f.awaitDelivery(30)

	after := f.stored()
	var got []int
	for i := range after {
		var e struct{ Data struct{ N int } }
		must.OK(t, json.Unmarshal(after[i].Body, &e))
		if got = append(got, e.Data.N); after[i].Seq != int64(i+1) {
			t.Errorf("event %d has the number %d", i+1, after[i].Seq)
		}
	}
	var want []int
	for n := range 30 {
		want = append(want, n+1)
	}
	if !slices.Equal(got, want) {
		t.Errorf("stored frames %v", got)
	}
	if after[9].ID != before[9].ID || after[10].ID == before[10].ID {
		t.Error("the replica did not lose exactly what was stored while it lagged")
	}
}
