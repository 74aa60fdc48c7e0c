package events_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
	"github.com/stagedoor/stagedoor/internal/delivery/stream/streamtest"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/server/api/events"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// fixture serves only the event operations, for two orgs: mine and theirs.
type fixture struct {
	*endpoint.Table
	*streamtest.Memory
	streams *stream.Streams
	url     string

	keys     map[string]*apikey.Principal // By token.
	accounts map[id.Account]id.Org
	mine     id.Account
	theirs   id.Account

	// permit replaces the default, which permits everything.
	permit atomic.Pointer[func(context.Context, id.Org) error]

	mu       sync.Mutex
	streamed int64
}

func (r *fixture) Authenticate(_ context.Context, token string) (endpoint.Identity, error) {
	p := r.keys[token]
	if p == nil {
		return endpoint.Identity{}, problem.KeyInvalid.New("unknown key")
	}
	return endpoint.Identity{Principal: p, Scopes: p.Scopes, Kind: audit.ActorKey}, nil
}

func (r *fixture) Refresh(_ context.Context, who endpoint.Identity) (endpoint.Identity, error) {
	return who, nil
}

func (r *fixture) Get(_ context.Context, owner id.Org, at id.Account) (account.Account, error) {
	if r.accounts[at] != owner {
		return account.Account{}, problem.AccountNotFound.New("The organisation has no account with this id.")
	}
	return account.Account{}, nil
}

func (r *fixture) Streamed(_ id.Org, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streamed += n
}

func (r *fixture) Holder(_ context.Context, owner id.Org, key id.Key) (*apikey.Principal, error) {
	for _, p := range r.keys {
		if p.Org.ID == owner && p.Key.ID == key {
			return p, nil
		}
	}
	return nil, problem.KeyRevoked.New("revoked")
}

func (*fixture) Guess(string) error { return nil }

func (*fixture) Missed(string) {}

// newFixture starts the server; change may alter the dependencies of streams.
func newFixture(t testing.TB, change func(*fixture, *stream.Deps)) *fixture {
	t.Helper()
	sandbox, err := catalog.Sandbox()
	must.OK(t, err)
	r := &fixture{Memory: streamtest.New(time.Now), keys: map[string]*apikey.Principal{}, accounts: map[id.Account]id.Org{}, mine: id.New[id.Account](), theirs: id.New[id.Account]()}
	for key, at := range map[string]id.Account{"mine": r.mine, "theirs": r.theirs} {
		o := org.Org{ID: id.New[id.Org](), Environment: environment.Sandbox, Limits: org.Limits{MaxStreamsPerAccount: 3, EventRetentionDays: 7}}
		r.keys[key] = &apikey.Principal{Scopes: scope.Everyday(), Org: o, Key: apikey.Key{ID: id.New[id.Key]()}}
		r.accounts[at] = o.ID
	}
	limited := *r.keys["mine"]
	limited.Key = apikey.Key{ID: id.New[id.Key](), Allow: apikey.Allow{Accounts: []id.Account{r.mine}}}
	r.keys["limited"] = &limited
	deps := stream.Deps{Store: r.Memory, Wire: r.Memory, Redis: streamtest.NoRedis{}, DB: nil, Keys: r, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	if change != nil {
		change(r, &deps)
	}
	r.streams = stream.New(deps)
	r.Table = endpoint.New(endpoint.Deps{
		Config: endpoint.Config{Title: "T", Version: "1", PublicURL: "https://x.test", ProblemsURL: "https://x.test/problems"}, Auth: r,
		Draining: func() bool { return false }, Source: endpoint.SourceOf(nil), HashIP: func(s string) string { return s },
		Metrics: endpoint.NewMetrics(nil, "test"), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	events.Routes(r.Table, events.Deps{
		Streams: r.streams, Store: r.Memory, Accounts: r, Meter: r, Now: time.Now,
		Permit: func(ctx context.Context, of id.Org) error {
			if permit := r.permit.Load(); permit != nil {
				return (*permit)(ctx, of)
			}
			return nil
		},
		Kinds: event.NewKinds(sandbox),
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.streams.Run(ctx)
	}()
	server := httptest.NewServer(r.Table)
	r.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		stop()
		<-done
	})
	return r
}

func path(at id.Account) string { return "/v1/accounts/" + string(at) + "/events" }

func (r *fixture) org(key string) id.Org { return r.keys[key].Org.ID }

type reply struct {
	status int
	header http.Header
	body   string
}

// send sends a request with headers, and with a key if it is not empty.
func (r *fixture) send(t testing.TB, method, target, key string, headers ...string) (*http.Response, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, method, r.url+target, nil)
	must.OK(t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	must.OK(t, err)
	return res, cancel
}

// call sends a request and reads the whole response.
func (r *fixture) call(t testing.TB, method, target, key string, headers ...string) reply {
	t.Helper()
	res, cancel := r.send(t, method, target, key, headers...)
	defer cancel()
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	must.OK(t, err)
	return reply{res.StatusCode, res.Header, string(text)}
}

func (r *fixture) pull(t testing.TB, target, key string) (page struct {
	Events     []struct{ ID, Event string }
	NextCursor string
	Gap        bool
},
) {
	t.Helper()
	got := r.call(t, http.MethodGet, target, key, "Accept", "application/json")
	if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v: %+v", err, got)
	}
	return page
}

// seen is one event of a stream.
type seen struct{ id, name, data string }

// source is an open stream.
type source struct {
	*http.Response
	events chan seen
	close  context.CancelFunc
}

// open opens a stream and waits for the first event.
func (r *fixture) open(t testing.TB, target, key string, headers ...string) (*source, seen) {
	t.Helper()
	res, cancel := r.send(t, http.MethodGet, target, key, headers...) //nolint:bodyclose // ended by cancel
	s := &source{res, make(chan seen, 1000), cancel}
	t.Cleanup(cancel)
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	go func() {
		defer close(s.events)
		var one seen
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch {
			case field == "id":
				one.id = value
			case field == "event":
				one.name = value
			case field == "data":
				one.data = value
			case field == "" && one.name != "":
				s.events <- one
				one = seen{}
			}
		}
	}()
	return s, s.next(t)
}

// next returns the next event; the zero value at the end of the stream.
func (s *source) next(t testing.TB) seen {
	t.Helper()
	select {
	case one := <-s.events:
		return one
	case <-time.After(time.Minute):
		t.Fatal("no event arrived")
	}
	return seen{}
}

// names returns the names of the next n events.
func (s *source) names(t testing.TB, n int) (list []string) {
	t.Helper()
	for range n {
		list = append(list, s.next(t).name)
	}
	return list
}

func same(got []string, want ...string) bool { return slices.Equal(got, want) }
