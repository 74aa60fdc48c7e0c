package ingest_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/outbox"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/events/ingest"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// rig is a database with a log in it, on which nodes take turns.
type rig struct {
	t      *testing.T
	db     *postgres.DB
	org    id.Org
	log    eventlog.Log
	store  *event.Store
	outbox *outbox.Outbox

	mu        sync.Mutex
	live      map[string]int
	committed []event.Stored
	news      chan struct{}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	db := testenv.Postgres(t)
	return newRigOn(t, db, eventlog.NewPostgres(db, eventlog.Config{}))
}

func newRigOn(t *testing.T, db *postgres.DB, log eventlog.Log) *rig {
	t.Helper()
	r := &rig{
		t: t, db: db, org: id.New[id.Org](), live: map[string]int{}, news: make(chan struct{}, 1), log: log,
		store: event.New(event.Deps{DB: db, Log: quiet(), Now: now}), outbox: outbox.New(db, now),
	}
	_, err := db.Pool().Exec(t.Context(), `INSERT INTO org (id, name, plan, environment, contact_email, created_at, updated_at)
		VALUES ($1, 'x', 'scale', 'sandbox', 'a@b.test', now(), now())`, string(r.org))
	r.must(err)
	r.must(r.store.Upkeep(t.Context()))
	return r
}

func now() time.Time      { return time.Now().UTC() }
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// Poke counts live messages.
func (r *rig) Poke(subject string, payload []byte) error {
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

func (r *rig) Received(id.Org, int64) {}

func (r *rig) took(list []event.Stored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed = append(r.committed, list...)
	select {
	case r.news <- struct{}{}:
	default:
	}
}

// node runs an ingest that holds buckets under an epoch, until it is stopped.
func (r *rig) node(epoch int64, buckets ...int) (stop func()) {
	g := ingest.New(ingest.Deps{
		Store: r.store, Events: r.log, Outbox: r.outbox, Bus: r, Meter: r, Committed: r.took, Log: quiet(), Now: now,
		Sandbox: func(_ context.Context, o id.Org) (bool, error) { return o == r.org, nil },
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	loop, end := context.WithCancel(context.WithoutCancel(ctx))
	var holds, run sync.WaitGroup
	run.Go(func() { _ = g.Run(loop) })
	for _, b := range buckets {
		holds.Go(func() { g.Hold(ctx, b, epoch) })
	}
	return sync.OnceFunc(func() {
		cancel()
		holds.Wait()
		end()
		run.Wait()
	})
}

func (r *rig) record(source string, n int) *event.Record {
	return &event.Record{
		Org: r.org, Source: source, Kind: "message", UpstreamID: fmt.Sprint("u", n), OfUserID: "7", Watermark: fmt.Sprint("u", n-1), Epoch: 1,
		Data: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
	}
}

func (r *rig) publish(entry string, records ...*event.Record) {
	r.t.Helper()
	var batch []byte // as a Batcher writes it
	for _, one := range records {
		text := one.Append(nil)
		batch = append(binary.AppendUvarint(batch, uint64(len(text))), text...)
	}
	r.must(r.log.Publish(r.t.Context(), event.Bucket(records[0].Source), entry, batch))
}

// await waits until a source has so many events, and lists them.
func (r *rig) await(source string, n int) []event.Stored {
	r.t.Helper()
	for {
		list, err := r.store.After(r.t.Context(), r.org, source, 0, now().Add(-time.Hour), 100_000)
		r.must(err)
		if len(list) >= n {
			return list
		}
		select {
		case <-r.news:
		case <-r.t.Context().Done():
			r.t.Fatalf("%s has %d events of %d", source, len(list), n)
		case <-time.After(2 * time.Minute):
			r.t.Fatalf("%s has %d events of %d", source, len(list), n)
		}
	}
}

// contiguous says that a source's events are numbered from 1 without holes, and are these, in this order.
func contiguous(t *testing.T, list []event.Stored, want []int) {
	t.Helper()
	if len(list) != len(want) {
		t.Fatalf("%d events, wanted %d", len(list), len(want))
	}
	for i, e := range list {
		var body struct {
			Data struct{ N int }
			Meta struct{ Seq int64 }
		}
		if err := json.Unmarshal(e.Body, &body); err != nil {
			t.Fatal(err)
		}
		if e.Seq != int64(i+1) || body.Meta.Seq != e.Seq || body.Data.N != want[i] {
			t.Fatalf("event %d has the number %d and the content %d, wanted %d", i, e.Seq, body.Data.N, want[i])
		}
	}
}

func count(from, to int) (list []int) {
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

// Records become events with a contiguous sequence, and everybody is told once they are committed.
func TestRecordsBecomeEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, b := string(id.New[id.Account]()), string(id.New[id.Account]())
	stop := r.node(1, event.Bucket(a), event.Bucket(b))
	defer stop()
	r.publish("1", r.record(a, 1), r.record(a, 2), r.record(a, 3))
	r.publish("2", r.record(b, 1))
	r.publish("3", r.record(a, 4))
	contiguous(t, r.await(a, 4), count(1, 4))
	contiguous(t, r.await(b, 1), count(1, 1))
	stop()
	head, err := r.store.Head(t.Context(), r.org, a)
	r.must(err)
	if head.Watermark != "u3" || head.LastSeq != 4 {
		t.Fatalf("%+v", head)
	}
	if got := r.live[event.LiveSubject(r.org, a)]; got != 4 {
		t.Fatalf("%d events told live, wanted 4", got)
	}
	if len(r.committed) != 5 {
		t.Fatalf("%d events handed on, wanted 5", len(r.committed))
	}
}

// What the platform or a listener says twice is stored once, also by a node that has just taken over; a listener that was taken over from
// comes too late.
func TestRepeatsAreDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := string(id.New[id.Account]())
	stop := r.node(1, event.Bucket(a))
	r.publish("1", r.record(a, 1), r.record(a, 2), r.record(a, 2))
	r.await(a, 2)
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
	contiguous(t, r.await(a, 5), []int{1, 2, 3, 5, 6})
}

// late is a log whose entries are read only when something else has been done.
type late struct {
	eventlog.Log
	first func()
}

func (l *late) Read(ctx context.Context, after map[int]uint64) (eventlog.Reader, error) {
	reader, err := l.Log.Read(ctx, after)
	return &lateReader{reader, l.first}, err
}

type lateReader struct {
	eventlog.Reader
	first func()
}

func (l *lateReader) Next(ctx context.Context) ([]eventlog.Entry, error) {
	entries, err := l.Reader.Next(ctx)
	if len(entries) > 0 {
		l.first()
	}
	return entries, err
}

// Whatever is read first, an account's first event is that it was connected; also when its listener has told where it begins.
func TestAnAccountBeginsWithItsConnection(t *testing.T) {
	t.Parallel()
	for name, watermark := range map[string]string{"listened to from the first frame": "", "listened to from a later frame": "w0"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := testenv.Postgres(t)
			log := &late{Log: eventlog.NewPostgres(db, eventlog.Config{})}
			r := newRigOn(t, db, log)
			a := id.New[id.Account]()
			if watermark != "" {
				if err := r.store.SetWatermark(t.Context(), r.org, string(a), watermark); err != nil {
					t.Fatal(err)
				}
			}
			log.first = sync.OnceFunc(func() {
				err := r.db.Tx(t.Context(), func(tx postgres.Tx) error {
					return r.outbox.Add(t.Context(), tx, outbox.Event{Org: r.org, Account: a, Kind: "account.connected", Data: map[string]int{"n": 1}})
				})
				if err != nil {
					t.Error(err)
				}
			})
			defer r.node(1, event.Bucket(string(a)))()
			r.publish("1", r.record(string(a), 2), r.record(string(a), 3))
			contiguous(t, r.await(string(a), 3), count(1, 3))
		})
	}
}

// Events of our own are taken out of the outbox in the transaction that stores them, and nothing follows account.disconnected.
func TestOwnEventsAreStoredOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := id.New[id.Account]()
	add := func(account id.Account, kind string, n int) {
		t.Helper()
		r.must(r.db.Tx(t.Context(), func(tx postgres.Tx) error {
			return r.outbox.Add(t.Context(), tx, outbox.Event{Org: r.org, Account: account, Kind: kind, Data: map[string]int{"n": n}})
		}))
	}
	add(a, "account.connected", 1)
	add("", "key.created", 1)
	stop := r.node(1, event.Bucket(string(a)), event.Bucket(string(r.org)))
	defer stop()
	contiguous(t, r.await(string(a), 1), count(1, 1))
	own := r.await(string(r.org), 1)
	contiguous(t, own, count(1, 1))
	var body struct {
		AccountID *string `json:"accountId"`
	}
	r.must(json.Unmarshal(own[0].Body, &body))
	if body.AccountID != nil {
		t.Fatalf("an event of the org names the account %s", *body.AccountID)
	}
	add(a, event.KindDisconnected, 2)
	r.await(string(a), 2)
	r.publish("late", r.record(string(a), 3))
	add(a, "account.updated", 4)
	add("", "key.created", 2)
	contiguous(t, r.await(string(r.org), 2), count(1, 2))
	stop()
	contiguous(t, r.await(string(a), 2), count(1, 2))
	left, err := r.outbox.After(t.Context(), r.org, 0, 10)
	r.must(err)
	if len(left) != 0 {
		t.Fatalf("%d events are left in the outbox", len(left))
	}
}

// However often the buckets change hands, and whoever dies in the middle, every record is stored once and in order.
func TestTakeOversLoseNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
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
		// The one before is not asked to let go: it finds out.
		stops = append(stops, r.node(epoch, buckets...))
		for range random.IntN(3) {
			select {
			case <-r.news:
			case <-written:
			}
		}
	}
	<-written
	for _, source := range sources {
		contiguous(t, r.await(source, each), count(1, each))
	}
	for _, stop := range stops {
		stop()
	}
}

// away is a log that fails now and then.
type away struct {
	eventlog.Log
	random *rand.Rand
}

func (a *away) Read(ctx context.Context, after map[int]uint64) (eventlog.Reader, error) {
	if a.random.IntN(2) == 0 {
		return nil, errors.New("away")
	}
	reader, err := a.Log.Read(ctx, after)
	return &breaking{reader, a.random}, err
}

type breaking struct {
	eventlog.Reader
	random *rand.Rand
}

func (b *breaking) Next(ctx context.Context) ([]eventlog.Entry, error) {
	if b.random.IntN(4) == 0 {
		return nil, eventlog.ErrLost
	}
	return b.Reader.Next(ctx)
}

// A log that comes and goes is read on from where the store has it.
func TestALogThatBreaksIsReadOn(t *testing.T) {
	t.Parallel()
	db := testenv.Postgres(t)
	r := newRigOn(t, db, &away{eventlog.NewPostgres(db, eventlog.Config{}), rand.New(rand.NewPCG(1, 2))})
	a := string(id.New[id.Account]())
	stop := r.node(1, event.Bucket(a))
	defer stop()
	for n := 1; n <= 40; n++ {
		r.publish(fmt.Sprint(n), r.record(a, n))
		if n%10 == 0 {
			r.await(a, n)
		}
	}
	contiguous(t, r.await(a, 40), count(1, 40))
}
