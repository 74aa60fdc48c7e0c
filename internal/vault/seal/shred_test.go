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
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// Shredding is felt at once where it was done, although the key was in memory, and says what was there.
func TestShreddedMeansShredded(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	node := s.node()
	at := prepared(t, node)
	text := sealed(t, node, at, plain)
	opens(t, node, at, text, plain)
	gone, err := node.Shred(t.Context(), at.Org, at.Holder)
	if err != nil || gone.DataKey == "" || gone.Generations != 1 || gone.At.IsZero() {
		t.Fatalf("%+v, %v", gone, err)
	}
	for _, n := range []*seal.Sealer{node, s.node()} {
		refuses(t, n, at, text, seal.ErrShredded)
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
			t.Errorf("again: %+v, %v; was %+v", again, err, gone)
		}
	}
	var left int
	if err := s.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM keyring.data_key WHERE holder = $1", at.Holder).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d data keys are left, %v", left, err)
	}
	never, err := node.Shred(t.Context(), at.Org, account())
	if err != nil || never.DataKey != "" || never.Generations != 0 {
		t.Errorf("who never had a key: %+v, %v", never, err)
	}
}

// A holder is shredded or prepared, whatever the order, and never ends up with a key that is left behind.
func TestARaceOfPrepareAndShredLeavesNoKey(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	org := prepared(t, s.node()).Org
	for range 40 {
		holder := account()
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
			t.Fatalf("%d data keys are left, %v", left, err)
		}
	}
}

func connect(t testing.TB, url secret.String) *pubsub.Bus {
	t.Helper()
	b, err := pubsub.Open(pubsub.Config{URL: url, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// observed tells of every poke that was taken in.
type observed struct {
	seal.Bus
	heard chan string
	ready chan struct{}
}

func (o observed) Listen(ctx context.Context, pattern string, heard func(string, []byte)) error {
	close(o.ready)
	return o.Bus.Listen(ctx, pattern, func(last string, payload []byte) {
		heard(last, payload)
		o.heard <- string(payload)
	})
}

// A node that has the key in memory drops it when it hears of the shredding.
func TestEveryNodeHearsOfAShredding(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	ears := observed{connect(t, testenv.NATS(t)), make(chan string, 16), make(chan struct{})}
	one := s.node(func(d *seal.Deps) { d.Bus = connect(t, testenv.NATS(t)) })
	other := s.node(func(d *seal.Deps) { d.Bus = ears })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- other.Run(ctx) }()
	<-ears.ready
	at := prepared(t, one)
	text := sealed(t, one, at, plain)
	opens(t, other, at, text, plain)
	began := time.Now()
	for heard := false; !heard; {
		// The subscription may be a moment younger than its caller believes; shredding again pokes again.
		if _, err := one.Shred(t.Context(), at.Org, at.Holder); err != nil {
			t.Fatal(err)
		}
		select {
		case holder := <-ears.heard:
			heard = holder == at.Holder
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Logf("shredded and heard after %s", time.Since(began))
	refuses(t, other, at, text, seal.ErrShredded)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// gate holds up reads of data keys after the database has answered.
type gate struct {
	closed         atomic.Bool
	reached, opens chan struct{}
}

func (*gate) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	return context.WithValue(ctx, gateKey{}, strings.Contains(q.SQL, "name: DataKeys "))
}

func (g *gate) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if ctx.Value(gateKey{}) == true && g.closed.CompareAndSwap(true, false) {
		g.reached <- struct{}{}
		<-g.opens
	}
}

type gateKey struct{}

// wire is a bus that delivers at once.
type wire struct{ heard func(string, []byte) }

func (w *wire) Poke(subject string, payload []byte) error {
	w.heard(subject[strings.LastIndexByte(subject, '.')+1:], payload)
	return nil
}

func (*wire) Listen(context.Context, string, func(string, []byte)) error { return nil }

// A read that was under way when the poke came does not bring the key back, nor does it serve who asks later.
func TestAShreddingBeatsAReadThatIsUnderWay(t *testing.T) {
	t.Parallel()
	url := testenv.DatabaseURL(t)
	g := &gate{reached: make(chan struct{}), opens: make(chan struct{})}
	open := func(tracer pgx.QueryTracer) *postgres.DB {
		db, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 4, Name: "test", Tracer: tracer})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(db.Close)
		return db
	}
	s := stand{open(nil), sealtest.Local(t)}
	sealtest.Migrate(t, s.db)
	slow := s.node(func(d *seal.Deps) { d.DB = open(g) })
	one := s.node(func(d *seal.Deps) { d.Bus = &wire{heard: slow.HeardShred} })
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
	refuses(t, slow, at, text, seal.ErrShredded) // does not wait for the read either
	g.opens <- struct{}{}
	if err := <-early; err != nil {
		t.Errorf("who asked before the shredding: %v", err)
	}
	refuses(t, slow, at, text, seal.ErrShredded)
}

// Without NATS the age of a key in memory bounds how long it works, however often it is used.
func TestWithoutPokesAKeyWorksAMinuteAtMost(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	var m moved
	one, other := s.node(), s.node(m.in)
	at := prepared(t, one)
	text := sealed(t, one, at, plain)
	opens(t, other, at, text, plain)
	if _, err := one.Shred(t.Context(), at.Org, at.Holder); err != nil {
		t.Fatal(err)
	}
	m.add(30 * time.Second)
	opens(t, other, at, text, plain)
	m.add(30 * time.Second)
	refuses(t, other, at, text, seal.ErrShredded)
	// A node whose connection was away asks again at once.
	at = prepared(t, one)
	text = sealed(t, one, at, plain)
	opens(t, other, at, text, plain)
	if _, err := one.Shred(t.Context(), at.Org, at.Holder); err != nil {
		t.Fatal(err)
	}
	other.Distrust()
	refuses(t, other, at, text, seal.ErrShredded)
}
