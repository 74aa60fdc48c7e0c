package invoke_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/base/environment"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/calls/invoke"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/platform/driver"
	"github.com/stagedoor/stagedoor/internal/platform/registry"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// fixture is an Invoker and all of its dependencies, with a platform that a test controls.
type fixture struct {
	driver.Driver // only Call is used
	t             *testing.T
	*invoke.Invoker
	// answer is the platform's response to the n-th request, from 1.
	answer func(ctx context.Context, n int, m *catalog.Method) (driver.Answer, error)
	alive  bool
	// starved is set before the first call.
	starved bool

	mu       sync.Mutex
	sent     int
	learnt   []error
	confirms int
	stored   [][]string
	pauses   []time.Duration
	bytes    int64
}

// newFixture returns a fixture. Call it outside of a synctest bubble, because its cache starts a background goroutine.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	r := &fixture{t: t, alive: true}
	r.answer = func(context.Context, int, *catalog.Method) (driver.Answer, error) {
		return driver.Answer{Result: []byte(`{"ok":true}`), Sent: 1, Received: 10, Took: time.Millisecond}, nil
	}
	r.Invoker = invoke.New(invoke.Deps{
		Accounts: r, Health: r, Limits: r, Meter: r, Starved: func() bool { return r.starved }, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Platforms: registry.Of(registry.Platform{ID: "sandbox", Driver: r}).Get,
	})
	return r
}

func (r *fixture) Call(ctx context.Context, _ driver.Via, _ driver.Session, m *catalog.Method, _ catalog.Args) (driver.Answer, error) {
	r.mu.Lock()
	r.sent++
	n := r.sent
	r.mu.Unlock()
	return r.answer(ctx, n, m)
}

func (r *fixture) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent
}

func (r *fixture) Ready(_ context.Context, owner id.Org, at id.Account, _ admission.Decision) (account.Account, driver.Session, error) {
	a, _ := r.Remembered(owner, at)
	return a, driver.Session{}, nil
}

func (r *fixture) Remembered(owner id.Org, at id.Account) (account.Account, bool) {
	return account.Account{Org: owner, ID: at, Environment: environment.Sandbox, Place: driver.Place{Platform: "sandbox"}, Region: "us", State: account.Active}, true
}

func (r *fixture) Rotate(_ context.Context, a account.Account, names []string, _ driver.Session) (account.Account, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stored = append(r.stored, names)
	a.SessionVersion++
	return a, nil
}

func (r *fixture) Learn(_ context.Context, _ account.Account, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learnt = append(r.learnt, err)
}

func (r *fixture) Confirm(context.Context, account.Account) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.confirms++
	return r.alive, nil
}

func (r *fixture) Gone(context.Context, id.Org, id.Account) error { return errGone }

func (r *fixture) Cool(_ context.Context, _ id.Org, _ id.Account, pause time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pauses = append(r.pauses, pause)
	return nil
}

func (r *fixture) Carried(_ id.Org, _ string, sent, received int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bytes += sent + received
}

var errGone = fmt.Errorf("the session is gone")

// method returns a method of the sandbox with parsed arguments.
func method(t *testing.T, name string, args string) (*catalog.Method, catalog.Args) {
	t.Helper()
	c, err := catalog.Sandbox()
	must.OK(t, err)
	for _, m := range c.Methods() {
		if m.ID() != name {
			continue
		}
		given, err := m.Parse([]byte(args), false)
		must.OK(t, err)
		return m, given
	}
	t.Fatalf("no method %s", name)
	return nil, catalog.Args{}
}

// admitted returns an admission for an account without writes.
func admitted() admission.Decision { return admission.Decision{At: time.Now(), SessionVersion: 1} }

// call returns a call of a method on a new account.
func call(t *testing.T, name, args string) invoke.Call {
	t.Helper()
	m, given := method(t, name, args)
	return invoke.Call{Org: id.New[id.Org](), Account: id.New[id.Account](), Admission: admitted(), Method: m, Args: given}
}

// do calls Enter and Do, as the API does.
func (r *fixture) do(ctx context.Context, c invoke.Call) (invoke.Answer, error) {
	leave, err := r.Enter(ctx, &c, &org.Limits{CallsPerMinute: 100_000})
	if err != nil {
		return invoke.Answer{}, err
	}
	defer leave()
	return r.Do(ctx, c)
}

func refused(kind catalog.RefusalKind, status int, after time.Duration) error {
	return &driver.Refused{Refusal: catalog.Refusal{Kind: kind, Code: "7", Message: "no", RetryAfter: after}, Status: status}
}
