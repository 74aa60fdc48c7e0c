package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/idempotency"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// keyedFixture accepts Idempotency-Keys. Its operations call behave; runs counts them.
type keyedFixture struct {
	*fixture
	db     *postgres.DB
	runs   atomic.Int64
	behave func(ctx context.Context) error
}

type keyedInput struct {
	ID   string `path:"id"`
	Body struct {
		Text string `json:"text" minLength:"1"`
	}
}

type keyedOutput struct {
	Location string `header:"Location"`
	Body     struct {
		Run  int64  `json:"run"`
		Text string `json:"text"`
	}
}

func newKeyedFixture(t *testing.T) *keyedFixture {
	t.Helper()
	f := &keyedFixture{db: testenv.Postgres(t), behave: func(context.Context) error { return nil }}
	sealer := sealtest.New(t, f.db, nil)
	keys := idempotency.New(idempotency.Deps{DB: f.db, Seal: sealer})
	f.fixture = newFixture(t, func(d *endpoint.Deps) { d.Idempotency = keys })
	_, err := f.db.Pool().Exec(t.Context(), `INSERT INTO org (id, name, plan, environment, contact_email, created_at, updated_at)
		VALUES ($1, 'T', 'starter', 'live', 'a@b.test', now(), now())`, f.customer.principal.Org.ID)
	must.OK(t, err)
	must.OK(t, sealer.Prepare(t.Context(), f.customer.principal.Org.ID, string(knownAccount)))
	for _, repeatable := range []bool{false, true} {
		name := fmt.Sprint("typed-", repeatable)
		endpoint.Typed(f.Table, endpoint.Operation{
			ID: name, Method: http.MethodPost, Path: "/" + name + "/{id}", Tag: "T", Summary: "S", Status: http.StatusCreated, Audit: "x",
			Quota: admission.Write, Account: "id", Example: map[string]any{"text": "x"}, Repeatable: repeatable,
		}, func(ctx context.Context, in *keyedInput) (*keyedOutput, error) {
			out := &keyedOutput{Location: "/typed/1"}
			out.Body.Run, out.Body.Text = f.runs.Add(1), in.Body.Text
			return out, f.behave(ctx)
		})
	}
	endpoint.Plain(f.Table, endpoint.Operation{
		ID: "plain", Method: http.MethodPut, Path: "/plain", Tag: "T", Summary: "S", Status: http.StatusOK, Audit: "x",
		Body: struct{ Text string }{}, Example: map[string]any{"text": "x"},
	}, func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusAccepted)
		n := f.runs.Add(1)
		if err := f.behave(r.Context()); err != nil {
			return err
		}
		if r.URL.RawQuery == "large" {
			for range 1100 {
				_, _ = w.Write(make([]byte, 1024))
			}
		}
		fmt.Fprintf(w, "run %d", n)
		return nil
	})
	endpoint.Plain(f.Table, endpoint.Operation{
		ID: "stream", Method: http.MethodPost, Path: "/stream", Tag: "T", Summary: "S", Status: http.StatusOK, Unaudited: "x", Streams: true,
	}, func(w http.ResponseWriter, _ *http.Request) error {
		fmt.Fprintf(w, "run %d", f.runs.Add(1))
		return nil
	})
	return f
}

// send sends a request with an Idempotency-Key; without one if key is empty.
func (f *keyedFixture) send(t *testing.T, method, target, key, body string) *httptest.ResponseRecorder {
	t.Helper()
	return f.sendIn(t.Context(), method, target, key, body)
}

func (f *keyedFixture) sendIn(ctx context.Context, method, target, key, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer x")
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// knownAccount has a data key.
var knownAccount = id.New[id.Account]()

var accountPath = "/typed-false/" + string(knownAccount)

const hello = `{"text":"<hello & bye>"}`

// A retry with the same key runs nothing and gets the same bytes, typed or plain.
func TestRetriesGetTheFirstResponse(t *testing.T) {
	t.Parallel()
	f := newKeyedFixture(t)
	for _, c := range [][2]string{{http.MethodPost, accountPath}, {http.MethodPut, "/plain?x=1"}} {
		first, again := f.send(t, c[0], c[1], "k 1!", hello), f.send(t, c[0], c[1], "k 1!", hello)
		if first.Code >= 300 || first.Code != again.Code || first.Body.String() != again.Body.String() || first.Body.Len() == 0 {
			t.Errorf("%s: %d %s, then %d %s", c[1], first.Code, first.Body, again.Code, again.Body)
		}
		for _, name := range []string{"Content-Type", "Location"} {
			if first.Header().Get(name) != again.Header().Get(name) {
				t.Errorf("%s: %s differs: %v", c[1], name, again.Header())
			}
		}
		if first.Header().Get("Idempotency-Replayed") != "" || again.Header().Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: %v %v", c[1], first.Header(), again.Header())
		}
		if w := f.send(t, c[0], c[1], "k 1!", `{"text":"other"}`); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "idempotency-mismatch") {
			t.Errorf("another body: %d %s", w.Code, w.Body)
		}
	}
	if f.runs.Load() != 2 {
		t.Errorf("%d runs", f.runs.Load())
	}
	f.send(t, http.MethodPost, accountPath, "", hello)
	f.send(t, http.MethodPost, accountPath, "", hello)
	f.send(t, http.MethodPost, "/stream", "k", "")
	f.send(t, http.MethodPost, "/stream", "k", "")
	if f.runs.Load() != 6 {
		t.Errorf("%d runs after two requests without a key and two streams", f.runs.Load())
	}
}

// A replay uses none of the account's limits, because nothing is done to the account.
func TestReplaysUseNoAccountLimits(t *testing.T) {
	t.Parallel()
	f := newKeyedFixture(t)
	f.send(t, http.MethodPost, accountPath, "k", hello)
	f.send(t, http.MethodPost, accountPath, "k", hello)
	f.send(t, http.MethodPost, accountPath, "l", hello)
	var got []admission.Quota
	for _, c := range f.admission.calls() {
		got = append(got, c.Quota)
	}
	if !slices.Equal(got, []admission.Quota{admission.Write, admission.Plain, admission.Write}) {
		t.Errorf("admitted as %v", got)
	}
}

// Final responses are stored, including refusals. A response that is retryable is not stored, and a retry runs again.
func TestOnlyFinalResponsesAreStored(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		err    error
		status int
		kept   bool
	}{
		"a refusal":       {problem.PlanRequired.New("no"), 402, true},
		"not allowed":     {problem.ScopeEscalation.New("no"), 403, true},
		"not found":       {problem.AccountNotFound.New("no"), 404, true},
		"a limit":         {problem.QuotaExceeded.New("no").After(3), 429, false},
		"unavailable":     {problem.UpstreamUnavailable.New("no"), 503, false},
		"unknown commit":  {errors.Join(postgres.ErrOutcomeUnknown, errors.New("x")), 500, true},
		"a fault":         {errors.New("x"), 500, true},
		"unknown outcome": {problem.UpstreamTimeout.New("no").After(3).InDoubt(), 504, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newKeyedFixture(t)
			f.behave = func(context.Context) error { return c.err }
			for _, target := range [][2]string{{http.MethodPost, accountPath}, {http.MethodPut, "/plain"}} {
				f.runs.Store(0)
				first, again := f.send(t, target[0], target[1], "k", hello), f.send(t, target[0], target[1], "k", hello)
				if first.Code != c.status || again.Code != c.status {
					t.Fatalf("%s: %d %s, then %d %s", target[1], first.Code, first.Body, again.Code, again.Body)
				}
				if kept := f.runs.Load() == 1; kept != c.kept || kept != (again.Header().Get("Idempotency-Replayed") == "true") {
					t.Errorf("%s: %d runs, %v", target[1], f.runs.Load(), again.Header())
				}
				if c.kept && (first.Body.String() != again.Body.String() || again.Header().Get("Content-Type") != problem.ContentType || again.Header().Get("Link") == "") {
					t.Errorf("%s: %s then %s with %v", target[1], first.Body, again.Body, again.Header())
				}
			}
		})
	}
}

// A request that is refused before it runs does not use up its key.
func TestRefusedRequestsDoNotUseTheKey(t *testing.T) {
	t.Parallel()
	f := newKeyedFixture(t)
	if w := f.send(t, http.MethodPost, accountPath, "k", `{"text":""}`); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f.admission.decide = func(admission.Call) admission.Decision {
		return admission.Decision{Denied: &admission.Denial{Reason: admission.OrgPerMinute, Wait: 1}}
	}
	if w := f.send(t, http.MethodPost, accountPath, "k", hello); w.Code != http.StatusTooManyRequests {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	f.admission.decide = nil
	if w := f.send(t, http.MethodPost, accountPath, "k", hello); w.Code != http.StatusCreated || w.Header().Get("Idempotency-Replayed") != "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A request continues after its caller disconnected, and a later retry gets its response. A retry while it runs gets
// 409.
func TestARetryFindsTheResponseAfterADisconnect(t *testing.T) {
	t.Parallel()
	f := newKeyedFixture(t)
	started, gone := make(chan struct{}), make(chan struct{})
	f.behave = func(ctx context.Context) error {
		close(started)
		<-gone
		return ctx.Err()
	}
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan *httptest.ResponseRecorder)
	go func() { first <- f.sendIn(ctx, http.MethodPost, accountPath, "k", hello) }()
	<-started
	w := f.send(t, http.MethodPost, accountPath, "k", hello)
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "idempotency-in-progress") || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	leave()
	close(gone)
	<-first
	if w := f.send(t, http.MethodPost, accountPath, "k", hello); w.Code != http.StatusCreated || w.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A run that panicked is not repeated, unless the operation is repeatable.
func TestOnlyRepeatableOperationsRunAgainAfterAPanic(t *testing.T) {
	t.Parallel()
	f := newKeyedFixture(t)
	f.behave = func(context.Context) error { panic("broken") }
	repeatable := strings.Replace(accountPath, "false", "true", 1)
	for _, path := range []string{accountPath, repeatable} {
		if w := f.send(t, http.MethodPost, path, "k", hello); w.Code != http.StatusInternalServerError {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	f.behave = func(context.Context) error { return nil }
	w := f.send(t, http.MethodPost, accountPath, "k", hello)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), `"outcome":"unknown"`) || !strings.Contains(w.Body.String(), `"retryable":false`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := f.send(t, http.MethodPost, repeatable, "k", hello); w.Code != http.StatusCreated {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if f.runs.Load() != 3 {
		t.Errorf("%d runs", f.runs.Load())
	}
}

// A response that is too large to be stored reaches its caller complete. A retry learns only that the request was done.
func TestLargeResponsesAreNotReplayed(t *testing.T) {
	t.Parallel()
	f := newKeyedFixture(t)
	w := f.send(t, http.MethodPut, "/plain?large", "k", hello)
	if w.Code != http.StatusAccepted || w.Body.Len() != 1100*1024+len("run 1") {
		t.Errorf("%d with %d bytes", w.Code, w.Body.Len())
	}
	w = f.send(t, http.MethodPut, "/plain?large", "k", hello)
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), `"outcome":"done"`) || f.runs.Load() != 1 {
		t.Errorf("%d %.300s, %d runs", w.Code, w.Body, f.runs.Load())
	}
}

// A key is 1 to 255 printable ASCII characters, sent once.
func TestMalformedKeysAreRejected(t *testing.T) {
	t.Parallel()
	f := newKeyedFixture(t)
	for _, c := range []struct {
		keys []string
		want int
	}{
		{[]string{strings.Repeat("x", 255)}, http.StatusCreated}, {[]string{"a b~!"}, http.StatusCreated},
		{[]string{""}, http.StatusBadRequest}, {[]string{strings.Repeat("x", 256)}, http.StatusBadRequest},
		{[]string{"ä"}, http.StatusBadRequest}, {[]string{"a\x7f"}, http.StatusBadRequest}, {[]string{"a", "b"}, http.StatusBadRequest},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, accountPath, strings.NewReader(hello))
		r.Header = http.Header{"Authorization": {"Bearer x"}, "Content-Type": {"application/json"}, "Idempotency-Key": c.keys}
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%.20q: %d %s", c.keys, w.Code, w.Body)
		}
	}
}

// The OpenAPI document describes the header for every operation that accepts it.
func TestTheDocumentDescribesIdempotencyKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(d *endpoint.Deps) { d.Idempotency = idempotency.New(idempotency.Deps{DB: nil, Seal: nil}) })
	endpoint.Plain(f.Table, endpoint.Operation{
		ID: "plain", Method: http.MethodPut, Path: "/plain/{id}", Tag: "T", Summary: "S", Status: http.StatusOK, Audit: "x",
		Body: struct{ Text string }{}, Example: map[string]any{"text": "x"},
	}, func(http.ResponseWriter, *http.Request) error { return nil })
	doc, err := f.OpenAPI()
	for _, want := range []string{`"name":"Idempotency-Key"`, `"idempotency-mismatch"`, `"name":"id"`, `"requestBody"`, `"example":{"text":"x"}`} {
		if err != nil || !strings.Contains(string(doc), want) {
			t.Errorf("%v: no %s in %s", err, want, doc)
		}
	}
}

// A call without a key costs no allocation more on a server that accepts keys.
//
//nolint:paralleltest // it counts the allocations of the whole process
func TestNoKeyCostsNothing(t *testing.T) {
	measure := func(change func(*endpoint.Deps)) float64 {
		f := newFixture(t, change)
		endpoint.Plain(f.Table, endpoint.Operation{
			ID: "x", Method: http.MethodPost, Path: "/x", Tag: "T", Summary: "S", Status: http.StatusOK, Unaudited: "x", Quota: admission.Free,
		}, func(http.ResponseWriter, *http.Request) error { return nil })
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", nil)
		r.Header.Set("Authorization", "Bearer x")
		least := math.Inf(1)
		for range 5 { // The runtime itself allocates now and then.
			least = min(least, testing.AllocsPerRun(100, func() { f.ServeHTTP(httptest.NewRecorder(), r) }))
		}
		return least
	}
	without := measure(nil)
	with := measure(func(d *endpoint.Deps) { d.Idempotency = idempotency.New(idempotency.Deps{DB: nil, Seal: nil}) })
	if with > without {
		t.Errorf("%v allocations instead of %v", with, without)
	}
}
