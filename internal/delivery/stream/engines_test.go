package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/proof"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// engines are real engines, shared by the nodes of a test.
type engines struct {
	db    *postgres.DB
	redis *redis.Client
	store *event.Store
	bus   *pubsub.Bus
	nats  secret.String
	seqs  map[string]int64
}

func newEngines(t *testing.T, nats, redisURL secret.String) *engines {
	t.Helper()
	e := &engines{db: testenv.Postgres(t), nats: nats, seqs: map[string]int64{}}
	var err error
	e.redis, err = redis.Open(redis.Config{URL: redisURL, Name: "test"})
	must.OK(t, err)
	t.Cleanup(e.redis.Close)
	e.bus = e.open(t)
	e.store = event.New(event.Deps{DB: e.db, Sealer: sealtest.NewMemory(), Seals: sealtest.Always, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	return e
}

func (e *engines) open(t *testing.T) *pubsub.Bus {
	t.Helper()
	b, err := pubsub.Open(pubsub.Config{URL: e.nats, Name: "test"})
	must.OK(t, err)
	t.Cleanup(b.Close)
	return b
}

func (e *engines) node(t *testing.T) *stream.Streams {
	t.Helper()
	b := e.open(t)
	h := stream.New(stream.Deps{Store: e.store, Wire: b, Redis: e.redis, DB: e.db, Keys: &holders{}, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	b.OnConnect(h.Missed)
	b.OnLoss(h.Missed)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done })
	return h
}

func (e *engines) org(t *testing.T) id.Org {
	t.Helper()
	return testenv.AddOrg(t, e.db)
}

// commit stores events of a source and publishes them, as ingest does.
func (e *engines) commit(t *testing.T, of id.Org, source string, n int) {
	t.Helper()
	b := event.Batch{}
	for range n {
		e.seqs[source]++
		s := event.Stored{Org: of, Source: source, Seq: e.seqs[source], At: time.Now().UTC(), ID: id.New[id.Event](), Kind: "account.updated"}
		s.Body = event.AppendEnvelope(nil, &event.Envelope{ID: s.ID, Kind: s.Kind, Account: source, At: s.At, Seq: s.Seq})
		b.Events = append(b.Events, event.NewEvent{Stored: s})
	}
	b.Heads = []event.HeadRow{{Org: of, Source: source, Head: event.Head{LastSeq: e.seqs[source], LastAt: time.Now()}}}
	tx, err := e.store.Commit(t.Context(), &b)
	must.OK(t, err)
	var payload []byte
	for i := range b.Events {
		b.Events[i].Tx = tx
		payload = event.AppendLive(payload, &b.Events[i].Stored)
	}
	_ = e.bus.Publish(event.LiveSubject(of, source), payload) // best effort
}

// Readers of an account and of its org, on two nodes, see every event once and in order, also when they switch
// between the nodes.
func TestEventsArriveOnEveryNode(t *testing.T) {
	t.Parallel()
	e := newEngines(t, testenv.NATS(t), testenv.Redis(t))
	nodes := []*stream.Streams{e.node(t), e.node(t)}
	owner, account := e.org(t), id.New[id.Account]()
	const total = 300
	var readers sync.WaitGroup
	defer readers.Wait()
	for i := range 4 {
		readers.Go(func() {
			w := stream.Want{Org: owner, Days: 7, After: "0"}
			if i%2 == 0 {
				w.Account = account
			}
			var seen []string
			for hop := i / 2; len(seen) < total; hop++ {
				r, _, err := nodes[hop%2].Watch(t.Context(), w)
				if err != nil {
					t.Error(err)
					return
				}
				for range 5 {
					for _, one := range readSome(t, r, min(17, total-len(seen))) {
						seen, w.After = append(seen, one.Kind+string(one.Body)), one.Cursor
					}
				}
				r.Close()
			}
			for n, one := range seen {
				if !strings.Contains(one, fmt.Sprintf(`"seq":%d,`, n+1)) {
					t.Errorf("reader %d: event %d is %s", i, n, one)
					return
				}
			}
		})
	}
	for made := 0; made < total; made += 6 {
		e.commit(t, owner, string(account), 6)
	}
}

// readSome reads up to most events, and at least one unless most is 0.
func readSome(t *testing.T, r *stream.Reader, most int) []stream.Event {
	t.Helper()
	for most > 0 {
		list, more, err := r.Read(t.Context(), nil, most)
		if err != nil {
			t.Error(err)
			return nil
		}
		if len(list) > 0 {
			return list
		}
		if more == nil {
			continue
		}
		select {
		case <-more:
		case <-time.After(time.Minute):
			t.Error("no event arrived")
			return nil
		}
	}
	return nil
}

// An event reaches a reader within milliseconds, and within seconds while NATS is unavailable.
func TestEventsArriveWithoutTheBus(t *testing.T) {
	t.Parallel()
	server, url := testenv.PrivateNATS(t)
	e := newEngines(t, url, testenv.Redis(t))
	h := e.node(t)
	owner, account := e.org(t), id.New[id.Account]()
	r, _, err := h.Watch(t.Context(), stream.Want{Org: owner, Account: account, Days: 7})
	must.OK(t, err)
	defer r.Close()
	within := func(limit time.Duration) {
		t.Helper()
		began := time.Now()
		e.commit(t, owner, string(account), 1)
		if list := readSome(t, r, 1); len(list) != 1 || proof.Running() && time.Since(began) > limit {
			t.Errorf("%d events after %v", len(list), time.Since(began))
		}
	}
	within(10 * time.Second) // without a message the feed would check only after half a minute
	within(10 * time.Second)
	server.Kill()
	within(10 * time.Second)
	within(10 * time.Second)
	server.Start()
	within(10 * time.Second)
}

// The streams of a key on an account are limited over all nodes. A stream that ends frees its slot. While Redis is
// unavailable, each node counts its own.
func TestStreamsAreLimitedOverAllNodes(t *testing.T) {
	t.Parallel()
	server, url := testenv.PrivateRedis(t)
	e := newEngines(t, testenv.NATS(t), url)
	a, b := e.node(t), e.node(t)
	owner, key, account := id.New[id.Org](), id.New[id.Key](), id.New[id.Account]()
	enter := func(h *stream.Streams, at id.Account, ok bool) func() {
		t.Helper()
		leave, err := h.Enter(t.Context(), owner, key, at, 2)
		if (err == nil) != ok {
			t.Fatalf("want success %v, got %v", ok, err)
		}
		if err != nil && (!errors.Is(err, problem.QuotaExceeded.New("")) || problem.Of(err).RetryAfter == 0) {
			t.Fatal(err)
		}
		return leave
	}
	first := enter(a, account, true)
	enter(b, account, true)
	enter(a, account, false)
	enter(b, account, false)
	enter(b, id.New[id.Account](), true)
	enter(a, "", true)
	first()
	enter(b, account, true)
	enter(a, account, false)
	server.Kill()
	enter(a, account, true) // this node has no streams of its own
	enter(a, account, true)
	enter(a, account, false)
	if leave, err := a.Enter(t.Context(), owner, id.New[id.Key](), account, -1); err != nil {
		t.Error(err)
	} else {
		leave()
	}
}

// holders returns the holders of keys, and counts failed guesses.
type holders struct{ guesses atomic.Int64 }

func (*holders) Holder(_ context.Context, of id.Org, key id.Key) (*apikey.Principal, error) {
	return &apikey.Principal{Org: org.Org{ID: of}, Key: apikey.Key{ID: key}, Scopes: scope.Everyday()}, nil
}

func (h *holders) Guess(string) error {
	if h.guesses.Load() > 3 {
		return problem.QuotaExceeded.New("too many")
	}
	return nil
}

func (h *holders) Missed(string) { h.guesses.Add(1) }

// A token opens one stream of its account, within a minute, on any node. Of concurrent uses only one succeeds.
func TestTokenCanBeRedeemedOnce(t *testing.T) {
	t.Parallel()
	e := newEngines(t, testenv.NATS(t), testenv.Redis(t))
	now := time.Now()
	node := func(k *holders) *stream.Streams {
		return stream.New(stream.Deps{Store: e.store, Wire: e.bus, Redis: e.redis, DB: e.db, Keys: k, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }})
	}
	a, k := node(&holders{}), &holders{}
	b := node(k)
	owner, account := e.org(t), id.New[id.Account]()
	p := &apikey.Principal{Org: org.Org{ID: owner}, Key: apikey.Key{ID: id.New[id.Key]()}}
	token, expires, err := a.Token(t.Context(), p, account)
	if err != nil || expires.Sub(now) > time.Minute || expires.Sub(now) < 59*time.Second {
		t.Fatal(expires, err)
	}
	if _, err := b.Redeem(t.Context(), token.Reveal(), id.New[id.Account](), "x"); !errors.Is(err, problem.KeyInvalid.New("")) {
		t.Errorf("for another account: %v", err)
	}
	var (
		at   sync.WaitGroup
		mu   sync.Mutex
		used []*apikey.Principal
	)
	for i := range 8 {
		at.Go(func() {
			h := a
			if i%2 == 0 {
				h = node(&holders{})
			}
			if who, err := h.Redeem(t.Context(), token.Reveal(), account, "x"); err == nil {
				mu.Lock()
				defer mu.Unlock()
				used = append(used, who)
			}
		})
	}
	at.Wait()
	if len(used) != 1 || used[0].Org.ID != owner || used[0].Key.ID != p.Key.ID {
		t.Errorf("used by %d", len(used))
	}
	token, _, err = a.Token(t.Context(), p, account)
	must.OK(t, err)
	now = now.Add(61 * time.Second)
	if _, err := b.Redeem(t.Context(), token.Reveal(), account, "x"); !errors.Is(err, problem.KeyInvalid.New("")) {
		t.Errorf("too late: %v", err)
	}
	for _, text := range []string{"", "sdt_", "sdt_" + strings.Repeat("A", 42), "sdt_" + strings.Repeat("*", 43), strings.Repeat("A", 47)} {
		if _, err := b.Redeem(t.Context(), text, account, "x"); !errors.Is(err, problem.KeyInvalid.New("")) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for range 4 {
		_, err = b.Redeem(t.Context(), "sdt_"+strings.Repeat("A", 43), account, "x")
	}
	if !errors.Is(err, problem.QuotaExceeded.New("")) {
		t.Errorf("guesses are not limited: %v", err)
	}
}
