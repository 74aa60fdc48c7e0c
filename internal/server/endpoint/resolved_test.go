package endpoint_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
)

// fakeLog records the entries of the request log.
type fakeLog struct{ entries []requestlog.Entry }

func (d *fakeLog) Add(e requestlog.Entry) { d.entries = append(d.entries, e) }

// resolvedFixture has one operation with terms of its own and records its steps.
type resolvedFixture struct {
	*fixture
	log   *fakeLog
	steps []string
	// resolve, gate and handle fail with these if they are set.
	resolveErr, gateErr, handleErr error
	terms                          endpoint.Terms
}

func newResolvedFixture(t *testing.T) *resolvedFixture {
	t.Helper()
	f := &resolvedFixture{log: &fakeLog{}, terms: endpoint.Terms{Name: "messages.send", Quota: admission.Write, Changes: true}}
	f.fixture = newFixture(t, func(d *endpoint.Deps) { d.Journal = f.log })
	f.admission.decide = func(admission.Call) admission.Decision {
		f.steps = append(f.steps, "admit")
		return admission.Decision{}
	}
	endpoint.Resolved(f.Table, endpoint.Operation{
		ID: "callMethod", Method: http.MethodPost, Path: "/v1/accounts/{id}/{resource}/{method}", Tag: "T", Status: http.StatusOK, Summary: "Call",
		Scope: scope.SDKCall, Quota: admission.Plain, Account: "id", Unaudited: "the request log has it", Body: map[string]any{}, Example: map[string]any{},
	}, func(_ *http.Request, body []byte) (string, endpoint.Terms, error) {
		f.steps = append(f.steps, "resolve")
		terms := f.terms
		terms.Gate = func(context.Context) (func(), error) {
			f.steps = append(f.steps, "gate")
			return func() { f.steps = append(f.steps, "leave") }, f.gateErr
		}
		return string(body), terms, f.resolveErr
	}, func(w http.ResponseWriter, _ *http.Request, body string) error {
		f.steps = append(f.steps, "handle")
		if f.handleErr == nil {
			_, _ = w.Write([]byte(body))
		}
		return f.handleErr
	})
	return f
}

func (f *resolvedFixture) send(t *testing.T, account, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/accounts/"+account+"/messages/send", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer x")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// A request that resolve or its gate refuses is not admitted, and so not billed. The gate is always left.
func TestAResolvedCallIsAdmittedLast(t *testing.T) {
	t.Parallel()
	wrong := problem.ValidationFailed.New("wrong")
	for name, c := range map[string]struct {
		set    func(*resolvedFixture)
		status int
		steps  string
	}{
		"good":        {func(*resolvedFixture) {}, 200, "resolve gate admit handle leave"},
		"wrong":       {func(f *resolvedFixture) { f.resolveErr = wrong }, 422, "resolve"},
		"gate full":   {func(f *resolvedFixture) { f.gateErr = problem.ServiceUnavailable.New("full").After(1) }, 503, "resolve gate"},
		"it fails":    {func(f *resolvedFixture) { f.handleErr = problem.UpstreamNotFound.New("no") }, 404, "resolve gate admit handle leave"},
		"not allowed": {func(f *resolvedFixture) { f.customer.principal.Scopes = scope.Of(scope.MeRead) }, 403, ""},
	} {
		f := newResolvedFixture(t)
		c.set(f)
		w := f.send(t, string(id.New[id.Account]()), `{"a": 1, "a": 2}`) // Only the operation checks its body.
		if got := strings.Join(f.steps, " "); w.Code != c.status || got != c.steps {
			t.Errorf("%s: %d after %q, want %d after %q: %s", name, w.Code, got, c.status, c.steps, w.Body)
		}
	}
}

// Usage and the request log record a call under the name in its terms, and the terms decide which limits it uses.
func TestAResolvedCallIsRecordedUnderItsName(t *testing.T) {
	t.Parallel()
	f := newResolvedFixture(t)
	at := id.New[id.Account]()
	w := f.send(t, string(at), `{}`)
	asked, counted, logged := f.admission.calls(), f.counted.calls, f.log.entries
	if w.Code != http.StatusOK || len(asked) != 1 || asked[0].Quota != admission.Write || asked[0].Account != at {
		t.Fatalf("%d, admitted as %+v", w.Code, asked)
	}
	if len(counted) != 1 || counted[0].Operation != "messages.send" || counted[0].Access != "write" {
		t.Errorf("counted %+v", counted)
	}
	if e := logged[0]; e.Operation != "messages.send" || e.Account != at || e.Status != 200 || e.Verb != "POST" || e.In != 2 || e.Out != 2 || string(e.Request) != w.Header().Get("X-Request-Id") {
		t.Errorf("logged %+v", e)
	}
}

// Usage counts a call that its gate or a pause of the platform refused neither as a read nor as a write: nothing
// happened to the account.
func TestRefusedCallsAreNotCountedAsWrites(t *testing.T) {
	t.Parallel()
	full := newResolvedFixture(t)
	full.gateErr = problem.ServiceUnavailable.New("full").After(1)
	full.send(t, string(id.New[id.Account]()), `{}`)
	if c := full.counted.calls; len(c) != 1 || c[0].Access != "plain" || c[0].Outcome != "failed" {
		t.Errorf("gate full: counted %+v", c)
	}
	paused := newResolvedFixture(t)
	paused.admission.decide = func(admission.Call) admission.Decision {
		return admission.Decision{Denied: &admission.Denial{CoolDown: true, Wait: time.Second}}
	}
	if w := paused.send(t, string(id.New[id.Account]()), `{}`); w.Code != http.StatusTooManyRequests {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if c := paused.counted.calls; len(c) != 1 || c[0].Outcome != "rate_limited" {
		t.Errorf("a pause: counted %+v", c)
	}
}

// A fault in a call that changes something leaves the outcome unknown, so the problem is not retryable.
func TestAFaultInAWriteIsNotRetryable(t *testing.T) {
	t.Parallel()
	for changes, want := range map[bool]string{true: `"outcome":"unknown"`, false: `"retryable":true`} {
		for status, err := range map[int]error{
			http.StatusInternalServerError: errors.New("internal fault"),
			http.StatusRequestTimeout:      fmt.Errorf("call the platform: %w", context.Canceled),
		} {
			f := newResolvedFixture(t)
			f.terms.Changes, f.handleErr = changes, err
			if w := f.send(t, string(id.New[id.Account]()), `{}`); w.Code != status || !strings.Contains(w.Body.String(), want) {
				t.Errorf("changes %v: %d %s", changes, w.Code, w.Body)
			}
		}
	}
}

// A problem has the address of its log entry, except for a caller that is not authenticated.
func TestProblemsLinkToTheirLogEntry(t *testing.T) {
	t.Parallel()
	f := newResolvedFixture(t)
	f.handleErr = problem.UpstreamNotFound.New("no")
	w := f.send(t, string(id.New[id.Account]()), `{}`)
	if want := `"logUrl":"https://x.test/v1/logs/` + w.Header().Get("X-Request-Id") + `"`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s lacks %s", w.Body, want)
	}
	if w := f.do(t, http.MethodPost, "/v1/nowhere", nil); strings.Contains(w.Body.String(), "logUrl") {
		t.Errorf("an unmatched request has a log entry: %s", w.Body)
	}
}
