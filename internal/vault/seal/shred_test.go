package seal_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// Shred takes effect immediately on its node, even if the key was cached, and returns what it deleted.
func TestShredTakesEffectImmediately(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	node := s.node()
	at := prepared(t, node)
	text := sealed(t, node, at, plain)
	expectOpens(t, node, at, text, plain)
	gone, err := node.Shred(t.Context(), at.Org, at.Holder)
	if err != nil || gone.DataKey == "" || gone.Generations != 1 || gone.At.IsZero() {
		t.Fatalf("%+v, %v", gone, err)
	}
	for _, n := range []*seal.Sealer{node, s.node()} {
		expectError(t, n, at, text, seal.ErrShredded)
		if _, err := n.Seal(t.Context(), at, secret.New(plain)); !errors.Is(err, seal.ErrShredded) {
			t.Errorf("seal: %v", err)
		}
		if err := n.Prepare(t.Context(), at.Org, at.Holder); !errors.Is(err, seal.ErrShredded) {
			t.Errorf("prepare: %v", err)
		}
		if err := n.Renew(t.Context(), at.Org, at.Holder); !errors.Is(err, seal.ErrShredded) {
			t.Errorf("renew: %v", err)
		}
		if again, err := n.Shred(t.Context(), at.Org, at.Holder); err != nil || again != gone {
			t.Errorf("second time: %+v, %v; first time %+v", again, err, gone)
		}
	}
	var left int
	if err := s.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM keyring.data_key WHERE holder = $1", at.Holder).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d data keys remain, %v", left, err)
	}
	never, err := node.Shred(t.Context(), at.Org, newAccount())
	if err != nil || never.DataKey != "" || never.Generations != 0 {
		t.Errorf("holder without a key: %+v, %v", never, err)
	}
}

// Whatever the order of concurrent calls of Prepare, Renew and Shred, no data key remains.
func TestARaceOfPrepareAndShredLeavesNoKey(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	org := prepared(t, s.node()).Org
	for range 40 {
		holder := newAccount()
		one, other := s.node(), s.node()
		var group sync.WaitGroup
		group.Go(func() {
			if err := one.Prepare(t.Context(), org, holder); err != nil && !errors.Is(err, seal.ErrShredded) {
				t.Error(err)
			}
			if err := one.Renew(t.Context(), org, holder); err != nil && !errors.Is(err, seal.ErrShredded) {
				t.Error(err)
			}
		})
		group.Go(func() {
			if _, err := other.Shred(t.Context(), org, holder); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		var left int
		if err := s.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM keyring.data_key WHERE holder = $1", holder).Scan(&left); err != nil || left != 0 {
			t.Fatalf("%d data keys remain, %v", left, err)
		}
	}
}

func connect(t testing.TB, url secret.String) *pubsub.Bus {
	t.Helper()
	b, err := pubsub.Open(pubsub.Config{URL: url, Name: "test"})
	must.OK(t, err)
	t.Cleanup(b.Close)
	return b
}

// observedBus reports every message after it was handled.
type observedBus struct {
	seal.Bus
	handled chan string
	ready   chan struct{}
}

func (o observedBus) Subscribe(ctx context.Context, pattern string, handle func(string, []byte)) error {
	close(o.ready)
	return o.Bus.Subscribe(ctx, pattern, func(last string, payload []byte) {
		handle(last, payload)
		o.handled <- string(payload)
	})
}

// A node that has cached the key drops it when it is notified of the shredding.
func TestEveryNodeIsNotifiedOfAShredding(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	observed := observedBus{connect(t, testenv.NATS(t)), make(chan string, 16), make(chan struct{})}
	one := s.node(func(d *seal.Deps) { d.Bus = connect(t, testenv.NATS(t)) })
	other := s.node(func(d *seal.Deps) { d.Bus = observed })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- other.Run(ctx) }()
	<-observed.ready
	at := prepared(t, one)
	text := sealed(t, one, at, plain)
	expectOpens(t, other, at, text, plain)
	began := time.Now()
	for notified := false; !notified; {
		// The subscription may not be active yet. Shredding again publishes again.
		if _, err := one.Shred(t.Context(), at.Org, at.Holder); err != nil {
			t.Fatal(err)
		}
		select {
		case holder := <-observed.handled:
			notified = holder == at.Holder
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Logf("notified after %s", time.Since(began))
	expectError(t, other, at, text, seal.ErrShredded)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// gate delays the next read of data keys, after the database has answered.
type gate struct {
	closed         atomic.Bool
	reached, opens chan struct{}
}

func (*gate) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return ctx
}

func (*gate) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*gate) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery sees single queries, because each is sent together with its organisation.
func (g *gate) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	if strings.Contains(q.SQL, "name: DataKeys ") && g.closed.CompareAndSwap(true, false) {
		g.reached <- struct{}{}
		<-g.opens
	}
}

func (*gate) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// syncBus is a bus that delivers synchronously.
type syncBus struct{ handle func(string, []byte) }

func (b *syncBus) Publish(subject string, payload []byte) error {
	b.handle(subject[strings.LastIndexByte(subject, '.')+1:], payload)
	return nil
}

func (*syncBus) Subscribe(context.Context, string, func(string, []byte)) error { return nil }

// A read that is in progress during a shredding does not bring the key back, and later callers do not get its result.
func TestAShreddingOverridesAReadInProgress(t *testing.T) {
	t.Parallel()
	url := testenv.DatabaseURL(t)
	g := &gate{reached: make(chan struct{}), opens: make(chan struct{})}
	open := func(tracer pgx.QueryTracer) *postgres.DB {
		db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 4, Name: "test", Tracer: tracer})
		must.OK(t, err)
		t.Cleanup(db.Close)
		return db
	}
	s := fixture{open(nil), sealtest.Local(t)}
	sealtest.Migrate(t, s.db)
	slow := s.node(func(d *seal.Deps) { d.DB = open(g) })
	one := s.node(func(d *seal.Deps) { d.Bus = &syncBus{handle: slow.HandleShred} })
	at := prepared(t, one)
	text := sealed(t, one, at, plain)
	g.closed.Store(true)
	early := make(chan error, 1)
	go func() {
		_, err := slow.Open(t.Context(), at, text)
		early <- err
	}()
	<-g.reached
	if _, err := one.Shred(t.Context(), at.Org, at.Holder); err != nil {
		t.Fatal(err)
	}
	expectError(t, slow, at, text, seal.ErrShredded) // without waiting for the read
	g.opens <- struct{}{}
	if err := <-early; err != nil {
		t.Errorf("Open that started before the shredding: %v", err)
	}
	expectError(t, slow, at, text, seal.ErrShredded)
}

// Without notifications, a cached key works for at most a minute, however often it is used.
func TestWithoutNotificationsAKeyWorksAMinuteAtMost(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var m testClock
	one, other := s.node(), s.node(m.set)
	at := prepared(t, one)
	text := sealed(t, one, at, plain)
	expectOpens(t, other, at, text, plain)
	if _, err := one.Shred(t.Context(), at.Org, at.Holder); err != nil {
		t.Fatal(err)
	}
	m.add(30 * time.Second)
	expectOpens(t, other, at, text, plain)
	m.add(30 * time.Second)
	expectError(t, other, at, text, seal.ErrShredded)
	// A node that has lost its connection reads the keys again immediately.
	at = prepared(t, one)
	text = sealed(t, one, at, plain)
	expectOpens(t, other, at, text, plain)
	if _, err := one.Shred(t.Context(), at.Org, at.Holder); err != nil {
		t.Fatal(err)
	}
	other.Distrust()
	expectError(t, other, at, text, seal.ErrShredded)
}

// A node that runs keeps keys for longer than a minute, and finds a shredding of which no notification has arrived.
func TestARunningNodeFindsShreddings(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var m testClock
	one, other := s.node(), s.node(m.set)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- other.Run(ctx) }()
	at, kept := prepared(t, one), prepared(t, one)
	text, keptText := sealed(t, one, at, plain), sealed(t, one, kept, plain)
	expectOpens(t, other, at, text, plain)
	expectOpens(t, other, kept, keptText, plain)
	loads := other.Loads()
	m.add(50 * time.Minute)
	testenv.Await(t, "the node watches", other.Watches)
	expectOpens(t, other, kept, keptText, plain)
	if got := other.Loads(); got != loads {
		t.Errorf("%v reads of keys after 50 minutes, want %v", got, loads)
	}
	if _, err := one.Shred(t.Context(), at.Org, at.Holder); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the key is dropped", func() bool {
		_, err := other.Open(t.Context(), at, text)
		return errors.Is(err, seal.ErrShredded)
	})
	expectOpens(t, other, kept, keptText, plain)
	stop()
	must.OK(t, <-ended)
	m.add(2 * time.Minute)
	expectOpens(t, other, kept, keptText, plain)
	if got := other.Loads(); got == loads {
		t.Error("two minutes without watching, a key was used from memory")
	}
}

// ShredOrg leaves nothing of an organisation in the keyring, and everything of others. It takes effect immediately, and
// can be repeated.
func TestShredOrgLeavesNothingOfTheOrg(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	node := s.node()
	gone, kept := prepared(t, node), prepared(t, node)
	must.OK(t, node.Prepare(t.Context(), gone.Org, string(gone.Org)))
	_, err := node.Shred(t.Context(), gone.Org, newAccount())
	must.OK(t, err)
	lost, left := sealed(t, node, gone, plain), sealed(t, node, kept, plain)
	for range 2 {
		must.OK(t, node.ShredOrg(t.Context(), gone.Org))
	}
	for _, n := range []*seal.Sealer{node, s.node()} {
		expectError(t, n, gone, lost, seal.ErrShredded)
		expectOpens(t, n, kept, left, plain)
	}
	for _, table := range []string{"org_key", "key_holder", "data_key"} {
		var ofGone, ofKept int
		must.OK(t, s.db.Pool().QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE org_id = $1), count(*) FILTER (WHERE org_id = $2)
			FROM keyring.`+table, gone.Org, kept.Org).Scan(&ofGone, &ofKept))
		if ofGone != 0 || ofKept != 1 {
			t.Errorf("%s has %d rows of the org and %d of another", table, ofGone, ofKept)
		}
	}
}
