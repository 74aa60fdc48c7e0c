package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/engine/redis"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/server/api/events"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// serveStreams serves streams, and collects garbage on demand.
func serveStreams(address string, streams http.Handler) error {
	mux := http.NewServeMux()
	mux.Handle("/", streams)
	mux.HandleFunc("/gc", func(http.ResponseWriter, *http.Request) {
		runtime.GC()
		debug.FreeOSMemory()
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	return server.ListenAndServe()
}

// anybody accepts every request as the same key of one org, which has every account.
type anybody struct{ *apikey.Principal }

func (a anybody) Authenticate(context.Context, string) (endpoint.Identity, error) {
	return endpoint.Identity{Principal: a.Principal, Scopes: a.Scopes, Kind: audit.ActorKey}, nil
}

func (a anybody) Refresh(context.Context, endpoint.Identity) (endpoint.Identity, error) {
	return endpoint.Identity{}, errors.New("nothing is stale")
}

func (anybody) Get(context.Context, id.Org, id.Account) (account.Account, error) {
	return account.Account{}, nil
}

func (anybody) Streamed(id.Org, int64) {}

func (a anybody) Holder(context.Context, id.Org, id.Key) (*apikey.Principal, error) {
	return a.Principal, nil
}

func (anybody) Guess(string) error { return nil }

func (anybody) Missed(string) {}

// ourStreams runs the product's path from pubsub and the store to a stream: everything except keys, limits and the list
// of accounts.
func ourStreams(t *testing.T) http.Handler {
	t.Helper()
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	db, err := postgres.Open(t.Context(), postgres.Config{URL: secret.New(os.Getenv("BENCH_DATABASE")), MaxConns: 4, Name: "bench"})
	must.OK(t, err)
	client, err := redis.Open(redis.Config{URL: secret.New(os.Getenv("BENCH_REDIS")), Name: "bench"})
	must.OK(t, err)
	wire, err := pubsub.Open(pubsub.Config{URL: secret.New(os.Getenv("BENCH_NATS")), Name: "bench"})
	must.OK(t, err)
	who := anybody{&apikey.Principal{
		Scopes: scope.Everyday(), Key: apikey.Key{ID: id.New[id.Key]()},
		Org: org.Org{ID: id.Org(os.Getenv("BENCH_ORG")), Environment: environment.Sandbox, Limits: org.Limits{MaxStreamsPerAccount: -1, EventRetentionDays: 7}},
	}}
	store := event.New(event.Deps{DB: db, Sealer: sealtest.NewMemory(), Seals: sealtest.Always, Log: log, Now: time.Now})
	streams := stream.New(stream.Deps{Store: store, Wire: wire, Redis: client, DB: db, Keys: who, Log: log, Now: time.Now})
	wire.OnConnect(streams.Missed)
	wire.OnLoss(streams.Missed)
	go func() { _ = streams.Run(t.Context()) }()
	table := endpoint.New(endpoint.Deps{
		Config: endpoint.Config{Title: "T", Version: "1", PublicURL: "https://x.test", ProblemsURL: "https://x.test/problems", MaxStreams: 1 << 20}, Auth: who,
		Draining: func() bool { return false }, Source: endpoint.SourceOf(nil), HashIP: func(s string) string { return s },
		Metrics: endpoint.NewMetrics(nil, "bench"), Log: log, Now: time.Now,
	})
	events.Routes(table, events.Deps{
		Streams: streams, Store: store, Kinds: event.NewKinds(nil), Accounts: who, Meter: who, Now: time.Now,
		Permit: func(context.Context, id.Org) error { return nil },
	})
	return table
}

// bareStreams is a minimal server of streams: a subscription per connection, with every message written to its stream. It
// does not resume, checks nothing and drops what it could not send.
func bareStreams(t *testing.T) http.Handler {
	t.Helper()
	conn, err := nats.Connect(os.Getenv("BENCH_NATS"))
	must.OK(t, err)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		source := strings.Split(r.URL.Path, "/")[3]
		inbox := make(chan *nats.Msg, 64)
		sub, err := conn.ChanSubscribe(event.LiveSubject(id.Org(os.Getenv("BENCH_ORG")), source), inbox)
		if err != nil {
			http.Error(w, "cannot subscribe", http.StatusInternalServerError)
			return
		}
		defer func() { _ = sub.Unsubscribe() }()
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		fmt.Fprint(w, "retry: 3000\n\nevent: ready\ndata: {}\n\n")
		_ = flush.Flush()
		beat := time.NewTicker(15 * time.Second)
		defer beat.Stop()
		var buf bytes.Buffer
		for {
			select {
			case <-r.Context().Done():
				return
			case <-beat.C:
				fmt.Fprint(w, "event: heartbeat\ndata: {}\n\n")
			case m := <-inbox:
				for s, err := range event.ReadLive(m.Data) {
					if err != nil {
						return
					}
					buf.Reset()
					fmt.Fprintf(&buf, "id: %014d\nevent: %s\ndata: %s\n\n", s.Seq, s.Kind, s.Body)
					_, _ = w.Write(buf.Bytes())
				}
			}
			if flush.Flush() != nil {
				return
			}
		}
	})
}
