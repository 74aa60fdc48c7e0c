package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/server/api/sdk"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// echo replaces the platform and records the requests that would be sent.
type echo struct{ sent []catalog.Request }

func (*echo) Enter(context.Context, *invoke.Call, *org.Limits) (func(), error) {
	return func() {}, nil
}

func (e *echo) Do(_ context.Context, c invoke.Call) (invoke.Answer, error) {
	e.sent = append(e.sent, c.Args.Request())
	return invoke.Answer{Whole: []byte("{\"result\":null}\n"), State: account.Active}, nil
}

func (*echo) Get(context.Context, id.Org, id.Account) (account.Account, error) {
	return account.Account{State: account.Active}, nil
}

func (*echo) PlatformOf(context.Context, id.Org, id.Account) (string, error) { return "sandbox", nil }

func (*echo) Refusal(account.Account) error { return nil }

func (*echo) Authenticate(context.Context, string) (endpoint.Identity, error) {
	p := &apikey.Principal{Scopes: scope.Everyday(), Org: org.Org{ID: id.New[id.Org](), Environment: environment.Sandbox}}
	return endpoint.Identity{Principal: p, Scopes: p.Scopes, Kind: audit.ActorKey}, nil
}

func (*echo) Refresh(context.Context, endpoint.Identity) (endpoint.Identity, error) {
	return endpoint.Identity{}, errors.New("unexpected refresh")
}

func newTable(t testing.TB, e *echo) *endpoint.Table {
	t.Helper()
	sandbox, err := catalog.Sandbox()
	must.OK(t, err)
	table := endpoint.New(endpoint.Deps{
		Config: endpoint.Config{Title: "T", Version: "1", PublicURL: "https://x.test", ProblemsURL: "https://x.test/problems"}, Auth: e,
		Draining: func() bool { return false }, Source: endpoint.SourceOf(nil), HashIP: func(s string) string { return s },
		Metrics: endpoint.NewMetrics(nil, "test"), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	sdk.Routes(table, sdk.Deps{Invoke: e, Accounts: e, PublicURL: "https://x.test", Platforms: registry.Of(registry.Platform{Catalog: sandbox, IsSandbox: true})})
	return table
}

// Whatever a caller puts into path, query and body, the response is JSON of a known kind, no argument escapes its place
// in the platform's path, and a GET never changes something.
func FuzzCall(f *testing.F) {
	for _, seed := range []struct{ verb, path, query, body string }{
		{"POST", "users/get", "", `{"userId":"1"}`}, {"POST", "users/get", "", `{"args":["1"]}`}, {"GET", "users/get", "userId=1", ""},
		{"GET", "users/list", "userIds=1,2&userIds=3", ""}, {"GET", "users/get", `args=["1"]`, ""}, {"POST", "messages/send", "", `{"chatId":"1","text":"é😀"}`},
		{"POST", "users/get", "", `{"userId":"../../control/seed"}`}, {"GET", "users/get", "userId=..%2F..%2Fx", ""}, {"GET", "chats/markAllRead", "", ""},
		{"POST", "webhook/test", "", ""}, {"POST", "..%2F..%2Fme", "", ""}, {"POST", "users%2Fget/x", "", ""}, {"POST", "users/get", "", strings.Repeat("[", 100)},
		{"POST", "users/get", "", `{"userId":"` + strings.Repeat("1", 70_000) + `"}`}, {"GET", "fans/list", "limit=1e9&cursor=%00", ""}, {"POST", "posts/create", "", `{"text":"a","text":"b"}`},
	} {
		f.Add(seed.verb, seed.path, seed.query, seed.body)
	}
	e := &echo{}
	table := newTable(f, e)
	at := string(id.New[id.Account]())
	f.Fuzz(func(t *testing.T, verb, path, query, body string) {
		if verb != http.MethodGet {
			verb = http.MethodPost
		}
		u, err := url.Parse("http://x.test/v1/accounts/" + at + "/" + path)
		if err != nil || strings.ContainsAny(path, "?#") {
			return
		}
		u.RawQuery = query
		r := (&http.Request{Method: verb, URL: u, Host: "x.test", RemoteAddr: "192.0.2.1:1", Header: http.Header{}, ContentLength: int64(len(body)), Proto: "HTTP/1.1"}).WithContext(t.Context())
		r.Header.Set("Authorization", "Bearer x")
		r.Header.Set("Content-Type", "application/json")
		r.Body = http.NoBody
		if body != "" && verb == http.MethodPost {
			r.Body = readAll{strings.NewReader(body)}
		}
		e.sent = nil
		w := httptest.NewRecorder()
		table.ServeHTTP(w, r)
		checkResponse(t, verb, w, e.sent)
	})
}

type readAll struct{ *strings.Reader }

func (readAll) Close() error { return nil }

func checkResponse(t *testing.T, verb string, w *httptest.ResponseRecorder, sent []catalog.Request) {
	t.Helper()
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%d is not JSON: %q", w.Code, w.Body)
	}
	if w.Code != http.StatusOK {
		if k, ok := problem.Lookup(answer["code"].(string)); !ok || k.Status != w.Code || w.Code >= 500 || len(sent) > 0 {
			t.Fatalf("%d %s, and %d requests were sent", w.Code, w.Body, len(sent))
		}
		return
	}
	if len(sent) > 1 {
		t.Fatalf("%d requests were sent", len(sent))
	}
	for _, one := range sent {
		if verb == http.MethodGet && one.Method != http.MethodGet && one.Method != http.MethodPost {
			t.Errorf("a GET became a %s", one.Method)
		}
		if !strings.HasPrefix(one.Path, "/api/v2/") || strings.Contains(one.Path, "..") || strings.ContainsAny(one.Path, "?#\\ ") {
			t.Errorf("the path is %q", one.Path)
		}
	}
}
