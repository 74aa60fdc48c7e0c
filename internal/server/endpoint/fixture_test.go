package endpoint_test

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// customer authenticates every token as one key of one org, until it is revoked.
type customer struct {
	principal *apikey.Principal
	revoked   atomic.Pointer[error]
}

func newCustomer() *customer {
	return &customer{principal: &apikey.Principal{
		Key: apikey.Key{ID: id.New[id.Key]()}, Scopes: scope.Everyday(), Org: org.Org{ID: id.New[id.Org]()},
	}}
}

func (c *customer) Authenticate(context.Context, string) (endpoint.Identity, error) {
	return endpoint.Identity{Principal: c.principal, Scopes: c.principal.Scopes, Kind: audit.ActorKey, ID: string(c.principal.Key.ID)}, nil
}

func (c *customer) Refresh(ctx context.Context, _ endpoint.Identity) (endpoint.Identity, error) {
	if err := c.revoked.Load(); err != nil {
		return endpoint.Identity{}, *err
	}
	return c.Authenticate(ctx, "")
}

// fakeAdmission admits calls as decide says and records them. It reports the identity of a revoked customer as stale.
type fakeAdmission struct {
	customer *customer
	mu       sync.Mutex
	asked    []admission.Call
	decide   func(admission.Call) admission.Decision
}

func (d *fakeAdmission) Admit(_ context.Context, c admission.Call) (admission.Decision, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, c)
	if d.customer.revoked.Load() != nil {
		return admission.Decision{Stale: true}, nil
	}
	if d.decide != nil {
		return d.decide(c), nil
	}
	return admission.Decision{}, nil
}

func (d *fakeAdmission) calls() []admission.Call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked
}

// fixture is an empty table with fake dependencies.
type fixture struct {
	*endpoint.Table
	customer  *customer
	admission *fakeAdmission
	counted   *counts
	draining  atomic.Bool
}

func newFixture(t *testing.T, change func(*endpoint.Deps)) *fixture {
	t.Helper()
	f := &fixture{customer: newCustomer(), counted: &counts{}}
	f.admission = &fakeAdmission{customer: f.customer}
	deps := endpoint.Deps{
		Config: endpoint.Config{Title: "T", Version: "1", PublicURL: "https://x.test", ProblemsURL: "https://x.test/problems"},
		Auth:   f.customer, Admit: f.admission, Count: f.counted, Draining: f.draining.Load,
		Source: endpoint.SourceOf(nil), HashIP: func(s string) string { return s },
		Metrics: endpoint.NewMetrics(nil, "test"), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	if change != nil {
		change(&deps)
	}
	f.Table = endpoint.New(deps)
	return f
}

// do sends a request without a body.
func (f *fixture) do(t *testing.T, method, target string, header http.Header) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	r.Header.Set("Authorization", "Bearer x")
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}
