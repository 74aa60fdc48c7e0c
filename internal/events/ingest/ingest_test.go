package ingest_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/base/contract"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/ingest"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// fixture is a database with an event log, used by several nodes in turn.
type fixture struct {
	t      *testing.T
	db     *postgres.DB
	org    id.Org
	log    eventlog.Log
	store  *event.Store
	outbox *outbox.Outbox
	// metrics are those of the last node.
	metrics *prometheus.Registry

	// ahead is how far the clock of nodes is ahead.
	ahead atomic.Int64

	mu        sync.Mutex
	deletion  *org.Deletion
	live      map[string]int
	committed []event.Stored
	changed   chan struct{}
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db := testenv.Postgres(t)
	return newFixtureOn(t, db, eventlog.NewPostgres(db, eventlog.Config{}))
}

func newFixtureOn(t *testing.T, db *postgres.DB, log eventlog.Log) *fixture {
	t.Helper()
	r := &fixture{
		t: t, db: db, org: id.New[id.Org](), live: map[string]int{}, changed: make(chan struct{}, 1), log: log,
		store: event.New(event.Deps{DB: db, Sealer: sealtest.NewMemory(), Seals: sealtest.Always, Log: quiet(), Now: now}), outbox: outbox.New(db, now),
	}
	testenv.InsertOrg(t, db, r.org)
	r.must(r.store.Upkeep(t.Context()))
	return r
}

func now() time.Time      { return time.Now().UTC() }
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (r *fixture) must(err error) {
	r.t.Helper()
	must.OK(r.t, err)
}

// PublishTraced counts live messages.
func (r *fixture) PublishTraced(subject string, payload []byte, _ []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range event.ReadLive(payload) {
		if err != nil {
			return err
		}
		r.live[subject]++
	}
	return nil
}

func (r *fixture) Received(id.Org, int64) {}

// Get returns the fixture's org in the sandbox and all others in the live environment.
func (r *fixture) Get(_ context.Context, of id.Org) (org.Org, error) {
	if of == r.org {
		r.mu.Lock()
		defer r.mu.Unlock()
		return org.Org{ID: of, Environment: environment.Sandbox, Deletion: r.deletion}, nil
	}
	return org.Org{ID: of, Environment: environment.Live}, nil
}

func (r *fixture) recordCommitted(list []event.Stored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed = append(r.committed, list...)
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// node runs an Ingest that holds buckets under an epoch until stop is called.
func (r *fixture) node(epoch int64, buckets ...int) (stop func()) {
	r.metrics = prometheus.NewRegistry()
	g := ingest.New(ingest.Deps{
		Store: r.store, Events: r.log, Outbox: r.outbox, Bus: r, Meter: r, Committed: r.recordCommitted, Log: quiet(),
		Now: func() time.Time { return now().Add(time.Duration(r.ahead.Load())) }, Orgs: r, Registry: r.metrics,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	loop, end := context.WithCancel(context.WithoutCancel(ctx))
	var holds, run sync.WaitGroup
	run.Go(func() { _ = g.Run(loop) })
	for _, b := range buckets {
		holds.Go(func() { g.Hold(ctx, b, epoch, func() {}) })
	}
	return sync.OnceFunc(func() {
		cancel()
		holds.Wait()
		end()
		run.Wait()
	})
}

func (r *fixture) record(source string, n int) *event.Record {
	return &event.Record{
		Org: r.org, Source: source, Kind: "message", UpstreamID: fmt.Sprint("u", n), OfUserID: "7", Watermark: fmt.Sprint("u", n-1), Epoch: 1,
		Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
	}
}

func (r *fixture) publish(entry string, records ...*event.Record) {
	r.t.Helper()
	var batch []byte // as a Batcher writes it
	for _, one := range records {
		text := one.Append(nil)
		batch = append(binary.AppendUvarint(batch, uint64(len(text))), text...)
	}
	r.must(r.log.Publish(r.t.Context(), event.Bucket(records[0].Source), entry, batch))
}

// waitForEvents waits until a source has at least n events and lists them.
func (r *fixture) waitForEvents(source string, n int) []event.Stored {
	r.t.Helper()
	for {
		list, err := r.store.After(r.t.Context(), r.org, source, 0, now().Add(-time.Hour), 100_000)
		r.must(err)
		if len(list) >= n {
			return list
		}
		select {
		case <-r.changed:
		case <-r.t.Context().Done():
			r.t.Fatalf("%s has %d events of %d", source, len(list), n)
		case <-time.After(2 * time.Minute):
			r.t.Fatalf("%s has %d events of %d", source, len(list), n)
		}
	}
}

// wantContiguous fails unless the events are numbered from 1 without holes and have these contents, in this order.
func wantContiguous(t *testing.T, list []event.Stored, want []int) {
	t.Helper()
	if len(list) != len(want) {
		t.Fatalf("%d events, want %d", len(list), len(want))
	}
	for i, e := range list {
		var body struct {
			Data struct{ N int }
			Meta struct{ Seq int64 }
		}
		must.OK(t, json.Unmarshal(e.Body, &body))
		if e.Seq != int64(i+1) || body.Meta.Seq != e.Seq || body.Data.N != want[i] {
			t.Fatalf("event %d has the number %d and the content %d, want %d", i, e.Seq, body.Data.N, want[i])
		}
	}
}

func numbers(from, to int) (list []int) {
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

// Records become events with contiguous sequence numbers, which are published after the commit.
func TestRecordsBecomeEvents(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a, b := string(id.New[id.Account]()), string(id.New[id.Account]())
	stop := r.node(1, event.Bucket(a), event.Bucket(b))
	defer stop()
	timed := r.record(a, 3)
	timed.UpstreamAt = now().Add(-time.Minute)
	r.publish("1", r.record(a, 1), r.record(a, 2), timed)
	r.publish("2", r.record(b, 1))
	r.publish("3", r.record(a, 4))
	wantContiguous(t, r.waitForEvents(a, 4), numbers(1, 4))
	wantContiguous(t, r.waitForEvents(b, 1), numbers(1, 1))
	stop()
	head, err := r.store.Head(t.Context(), r.org, a)
	r.must(err)
	if head.Watermark != "u3" || head.LastSeq != 4 {
		t.Fatalf("%+v", head)
	}
	if got := r.live[event.LiveSubject(r.org, a)]; got != 4 {
		t.Fatalf("%d events published, want 4", got)
	}
	if len(r.committed) != 5 {
		t.Fatalf("%d events passed to Committed, want 5", len(r.committed))
	}
	if n := metric.Value(t, r.metrics, "stagedoor_event_store_seconds"); n != 1 {
		t.Errorf("the delay of %v events was measured; one has a time of its platform", n)
	}
}

// A frame that the platform or a listener sends twice is stored once, also by a node that has just taken over.
// Records of a listener that has been replaced are dropped.
func TestRepeatsAreDropped(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := string(id.New[id.Account]())
	stop := r.node(1, event.Bucket(a))
	r.publish("1", r.record(a, 1), r.record(a, 2), r.record(a, 2))
	r.waitForEvents(a, 2)
	stop()
	stop = r.node(2, event.Bucket(a))
	defer stop()
	newer := r.record(a, 3)
	newer.Epoch = 2
	r.publish("2", r.record(a, 1), r.record(a, 2), newer)
	r.publish("3", r.record(a, 4)) // by the old listener
	newest := r.record(a, 5)
	newest.Epoch = 2
	unnamed := r.record(a, 6)
	unnamed.UpstreamID, unnamed.Epoch = "", 2
	r.publish("4", newest, unnamed, unnamed)
	wantContiguous(t, r.waitForEvents(a, 5), []int{1, 2, 3, 5, 6})
}

// A frame is stored once, however many frames follow before it comes again, be it from the platform, from another
// listener or on another node.
func TestAFrameIsStoredOnceWithinRetention(t *testing.T) {
	t.Parallel()
	const frames = 2*event.MaxDedupKeys + 100
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		at   func(n int) time.Time
	}{
		{"in order", func(n int) time.Time { return noon.Add(time.Duration(n) * time.Millisecond) }},
		{"within one second", func(int) time.Time { return noon }},
		{"without a time", func(int) time.Time { return time.Time{} }},
		{"in reverse order", func(n int) time.Time { return noon.Add(-time.Duration(n) * time.Millisecond) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			a := string(id.New[id.Account]())
			send := func(entry string, epoch int64, numbers []int) {
				list := make([]*event.Record, len(numbers))
				for i, n := range numbers {
					list[i] = r.record(a, n)
					list[i].UpstreamAt, list[i].Epoch = c.at(n), epoch
				}
				r.publish(entry, list...)
			}
			stop := r.node(1, event.Bucket(a))
			send("first", 1, numbers(1, frames))
			r.waitForEvents(a, frames) // what follows is in another batch
			send("by the platform", 1, []int{1})
			send("by another listener", 2, numbers(1, frames+1))
			r.waitForEvents(a, frames+1)
			stop()
			stop = r.node(2, event.Bucket(a))
			defer stop()
			send("on another node", 3, append([]int{frames / 2}, numbers(1, frames+2)...))
			r.waitForEvents(a, frames+2)
			send("once more", 3, []int{2, frames + 3})
			wantContiguous(t, r.waitForEvents(a, frames+3), numbers(1, frames+3))
		})
	}
}

// Records of a listener that has not noticed a loss are dropped, because records before them may be missing: the
// listener fetches them again. Those that it cannot fetch again are stored.
func TestRecordsFromBeforeALossAreDropped(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// lose makes epochs and logs of the past; it returns the epoch of the lease afterwards.
		lose func(r *fixture) int64
		// stray and current change a record to one that was published before and after the loss.
		stray, current func(record *event.Record, epoch int64, log string)
	}{
		"of the log": {
			lose:    func(*fixture) int64 { return 7 },
			stray:   func(record *event.Record, epoch int64, _ string) { record.Epoch, record.LogEpoch = epoch, "another" },
			current: func(record *event.Record, epoch int64, log string) { record.Epoch, record.LogEpoch = epoch, "and "+log },
		},
		"of the database's last transactions": {
			lose: func(r *fixture) (epoch int64) {
				r.exec("UPDATE database_generation SET cluster = ''")
				r.must(r.db.Pool().QueryRow(t.Context(), "SELECT begin_generation()").Scan(&epoch))
				return epoch
			},
			stray:   func(record *event.Record, _ int64, log string) { record.Epoch, record.LogEpoch = 7, log },
			current: func(record *event.Record, epoch int64, log string) { record.Epoch, record.LogEpoch = epoch, log },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t)
			epoch := c.lose(r)
			a := string(id.New[id.Account]())
			state, err := r.log.State(t.Context(), event.Bucket(a))
			r.must(err)
			numbered := func(n int, change func(*event.Record, int64, string)) *event.Record {
				record := r.record(a, n)
				change(record, epoch, state.Epoch)
				return record
			}
			unlisted := numbered(2, c.stray)
			unlisted.Watermark = ""
			r.publish("1", numbered(1, c.stray), unlisted, numbered(3, c.current), numbered(4, c.stray), numbered(5, c.current))
			stop := r.node(epoch, event.Bucket(a))
			defer stop()
			wantContiguous(t, r.waitForEvents(a, 3), []int{2, 3, 5})
		})
	}
}

// delayedLog is a log that calls first before it returns entries.
type delayedLog struct {
	eventlog.Log
	first func()
}

func (l *delayedLog) Read(ctx context.Context, after map[int]uint64) (eventlog.Reader, error) {
	reader, err := l.Log.Read(ctx, after)
	return &delayedReader{reader, l.first}, err
}

type delayedReader struct {
	eventlog.Reader
	first func()
}

func (l *delayedReader) Next(ctx context.Context) ([]eventlog.Entry, error) {
	entries, err := l.Reader.Next(ctx)
	if len(entries) > 0 {
		l.first()
	}
	return entries, err
}

// The first event of an account is account.connected, whatever is read first, with and without a watermark.
func TestFirstEventOfAnAccountIsConnected(t *testing.T) {
	t.Parallel()
	for name, watermark := range map[string]string{"listened to from the first frame": "", "listened to from a later frame": "w0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testenv.Postgres(t)
			log := &delayedLog{Log: eventlog.NewPostgres(db, eventlog.Config{})}
			r := newFixtureOn(t, db, log)
			a := id.New[id.Account]()
			if watermark != "" {
				must.OK(t, r.store.SetWatermark(t.Context(), r.org, string(a), watermark))
			}
			log.first = sync.OnceFunc(func() {
				err := r.db.Tx(t.Context(), func(tx postgres.Tx) error {
					return r.outbox.Add(t.Context(), tx, outbox.Event{Org: r.org, Account: a, Data: connected()})
				})
				if err != nil {
					t.Error(err)
				}
			})
			defer r.node(1, event.Bucket(string(a)))()
			r.publish("1", r.record(string(a), 2), r.record(string(a), 3))
			list := r.waitForEvents(string(a), 3)
			wantContiguous(t, list, []int{0, 2, 3}) // the service's own event has no number
			if list[0].Kind != connected().Kind() {
				t.Fatalf("the first event is %s", list[0].Kind)
			}
		})
	}
}

// connected returns an event that is valid, with no more than that needs.
func connected() contract.AccountConnected {
	return contract.AccountConnected{Account: contract.Account{
		State: "active", Credentials: "session", Metadata: map[string]string{}, Listener: contract.ListenerView{State: "off"},
	}}
}

// Events of the outbox are removed in the transaction that stores them, and no event follows account.disconnected.
func TestOwnEventsAreStoredOnce(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	a := id.New[id.Account]()
	add := func(account id.Account, data contract.Event) {
		t.Helper()
		r.must(r.db.Tx(t.Context(), func(tx postgres.Tx) error {
			return r.outbox.Add(t.Context(), tx, outbox.Event{Org: r.org, Account: account, Data: data})
		}))
	}
	wantKinds := func(source string, want ...string) {
		t.Helper()
		var kinds []string
		for i, e := range r.waitForEvents(source, len(want)) {
			if kinds = append(kinds, e.Kind); e.Seq != int64(i+1) {
				t.Fatalf("event %d has the number %d", i, e.Seq)
			}
		}
		if !slices.Equal(kinds, want) {
			t.Fatalf("events %v, want %v", kinds, want)
		}
	}
	add(a, connected())
	add("", contract.KeyCreated{})
	stop := r.node(1, event.Bucket(string(a)), event.Bucket(string(r.org)))
	defer stop()
	wantKinds(string(a), "account.connected")
	wantKinds(string(r.org), "key.created")
	own := r.waitForEvents(string(r.org), 1)
	var body struct {
		AccountID *string `json:"accountId"`
	}
	r.must(json.Unmarshal(own[0].Body, &body))
	if body.AccountID != nil {
		t.Fatalf("an event of the org names the account %s", *body.AccountID)
	}
	add(a, contract.AccountDisconnected{ID: a})
	r.waitForEvents(string(a), 2)
	r.publish("late", r.record(string(a), 3))
	add(a, contract.AccountUpdated{Changes: []string{"label"}})
	add("", contract.KeyRevoked{})
	wantKinds(string(r.org), "key.created", "key.revoked")
	stop()
	wantKinds(string(a), "account.connected", "account.disconnected")
	left, err := r.outbox.After(t.Context(), r.org, 0, 10)
	r.must(err)
	if len(left) != 0 {
		t.Fatalf("%d events remain in the outbox", len(left))
	}
}

// However often other nodes take over the buckets, every record is stored once and in order.
func TestTakeoversLoseNothing(t *testing.T) {
	t.Parallel()
	r := newFixture(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	const accounts, each = 5, 200
	var (
		sources []string
		buckets []int
		writers sync.WaitGroup
	)
	for range accounts {
		source := string(id.New[id.Account]())
		sources, buckets = append(sources, source), append(buckets, event.Bucket(source))
		writers.Go(func() {
			for n := 1; n <= each; n += 2 {
				r.publish(fmt.Sprint(source, n), r.record(source, n), r.record(source, n+1))
			}
		})
	}
	written := make(chan struct{})
	go func() { writers.Wait(); close(written) }()
	var stops []func()
	for epoch := int64(1); epoch <= 8; epoch++ {
		// The previous node is not stopped: it must notice that it is fenced off.
		stops = append(stops, r.node(epoch, buckets...))
		for range random.IntN(3) {
			select {
			case <-r.changed:
			case <-written:
			}
		}
	}
	<-written
	for _, source := range sources {
		wantContiguous(t, r.waitForEvents(source, each), numbers(1, each))
	}
	for _, stop := range stops {
		stop()
	}
}

// failingLog is a log that fails at random.
type failingLog struct {
	eventlog.Log
	random *rand.Rand
}

func (a *failingLog) Read(ctx context.Context, after map[int]uint64) (eventlog.Reader, error) {
	if a.random.IntN(2) == 0 {
		return nil, errors.New("unavailable")
	}
	reader, err := a.Log.Read(ctx, after)
	return &failingReader{reader, a.random}, err
}

type failingReader struct {
	eventlog.Reader
	random *rand.Rand
}

func (b *failingReader) Next(ctx context.Context) ([]eventlog.Entry, error) {
	if b.random.IntN(4) == 0 {
		return nil, eventlog.ErrLost
	}
	return b.Reader.Next(ctx)
}

// After a failure of the log, reading continues from the position in the store.
func TestReadingContinuesAfterTheLogFailed(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	r := newFixtureOn(t, db, &failingLog{eventlog.NewPostgres(db, eventlog.Config{}), rand.New(rand.NewPCG(1, 2))})
	a := string(id.New[id.Account]())
	stop := r.node(1, event.Bucket(a))
	defer stop()
	for n := 1; n <= 40; n++ {
		r.publish(fmt.Sprint(n), r.record(a, n))
		if n%10 == 0 {
			r.waitForEvents(a, n)
		}
	}
	wantContiguous(t, r.waitForEvents(a, 40), numbers(1, 40))
}
