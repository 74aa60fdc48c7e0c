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

// diary remembers what was noted.
type diary struct{ entries []requestlog.Entry }

func (d *diary) Add(e requestlog.Entry) { d.entries = append(d.entries, e) }

// things is a face with one judged operation, whose steps it writes down.
type things struct {
	*face
	diary *diary
	steps []string
	// judge, gate and handle fail with these if they are set.
	judgeErr, gateErr, handleErr error
	terms                        endpoint.Terms
}

func newThings(t *testing.T) *things {
	t.Helper()
	f := &things{diary: &diary{}, terms: endpoint.Terms{Name: "messages.send", Quota: admission.Write, Changes: true}}
	f.face = newFace(t, func(d *endpoint.Deps) { d.Journal = f.diary })
	f.door.decide = func(admission.Call) admission.Decision {
		f.steps = append(f.steps, "admit")
		return admission.Decision{}
	}
	endpoint.Judged(f.Table, endpoint.Operation{
		ID: "callMethod", Method: http.MethodPost, Path: "/v1/accounts/{id}/{resource}/{method}", Tag: "T", Status: http.StatusOK, Summary: "Call",
		Scope: scope.SDKCall, Quota: admission.Plain, Account: "id", Unaudited: "the request log has it", Body: map[string]any{}, Example: map[string]any{},
	}, func(_ *http.Request, body []byte) (string, endpoint.Terms, error) {
		f.steps = append(f.steps, "judge")
		terms := f.terms
		terms.Gate = func(context.Context) (func(), error) {
			f.steps = append(f.steps, "gate")
			return func() { f.steps = append(f.steps, "leave") }, f.gateErr
		}
		return string(body), terms, f.judgeErr
	}, func(w http.ResponseWriter, _ *http.Request, body string) error {
		f.steps = append(f.steps, "handle")
		if f.handleErr == nil {
			_, _ = w.Write([]byte(body))
		}
		return f.handleErr
	})
	return f
}

func (f *things) send(t *testing.T, account, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/accounts/"+account+"/messages/send", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer x")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w
}

// What is judged wrong, and who finds no place, is not admitted, and so not billed. A place is always given back.
func TestAJudgedCallIsAdmittedLast(t *testing.T) {
	t.Parallel()
	wrong := problem.ValidationFailed.New("wrong")
	for name, c := range map[string]struct {
		set    func(*things)
		status int
		steps  string
	}{
		"good":        {func(*things) {}, 200, "judge gate admit handle leave"},
		"wrong":       {func(f *things) { f.judgeErr = wrong }, 422, "judge"},
		"no place":    {func(f *things) { f.gateErr = problem.ServiceUnavailable.New("full").After(1) }, 503, "judge gate"},
		"it fails":    {func(f *things) { f.handleErr = problem.UpstreamNotFound.New("no") }, 404, "judge gate admit handle leave"},
		"not allowed": {func(f *things) { f.customer.principal.Scopes = scope.Of(scope.MeRead) }, 403, ""},
	} {
		f := newThings(t)
		c.set(f)
		w := f.send(t, string(id.New[id.Account]()), `{"a": 1, "a": 2}`) // its form is the operation's to judge
		if got := strings.Join(f.steps, " "); w.Code != c.status || got != c.steps {
			t.Errorf("%s: %d after %q, want %d after %q: %s", name, w.Code, got, c.status, c.steps, w.Body)
		}
	}
}

// Usage and the journal know a call by what it is, not by its route, and its terms say which limits it uses.
func TestAJudgedCallIsKnownByItsName(t *testing.T) {
	t.Parallel()
	f := newThings(t)
	at := id.New[id.Account]()
	w := f.send(t, string(at), `{}`)
	asked, counted, noted := f.door.calls(), f.counted.calls, f.diary.entries
	if w.Code != http.StatusOK || len(asked) != 1 || asked[0].Quota != admission.Write || asked[0].Account != at {
		t.Fatalf("%d, admitted as %+v", w.Code, asked)
	}
	if len(counted) != 1 || counted[0].Operation != "messages.send" || counted[0].Access != "write" {
		t.Errorf("counted %+v", counted)
	}
	if e := noted[0]; e.Operation != "messages.send" || e.Account != at || e.Status != 200 || e.Verb != "POST" || e.In != 2 || e.Out != 2 || string(e.Request) != w.Header().Get("X-Request-Id") {
		t.Errorf("noted %+v", e)
	}
}

// A call that found no place, or met a pause of the platform's, is in usage neither a read nor a write: nothing happened to the account.
func TestWhatDidNotHappenIsNotCountedAsAWrite(t *testing.T) {
	t.Parallel()
	full := newThings(t)
	full.gateErr = problem.ServiceUnavailable.New("full").After(1)
	full.send(t, string(id.New[id.Account]()), `{}`)
	if c := full.counted.calls; len(c) != 1 || c[0].Access != "plain" || c[0].Outcome != "failed" {
		t.Errorf("no place: counted %+v", c)
	}
	paused := newThings(t)
	paused.door.decide = func(admission.Call) admission.Decision {
		return admission.Decision{Denied: &admission.Denial{CoolDown: true, Wait: time.Second}}
	}
	if w := paused.send(t, string(id.New[id.Account]()), `{}`); w.Code != http.StatusTooManyRequests {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if c := paused.counted.calls; len(c) != 1 || c[0].Outcome != "rate_limited" {
		t.Errorf("a pause: counted %+v", c)
	}
}

// A fault in the middle of something that changes leaves the outcome open, and is not said to be safe to repeat.
func TestAFaultInAWriteIsNotRetryable(t *testing.T) {
	t.Parallel()
	for changes, want := range map[bool]string{true: `"outcome":"unknown"`, false: `"retryable":true`} {
		for status, err := range map[int]error{
			http.StatusInternalServerError: errors.New("a fault of ours"),
			http.StatusRequestTimeout:      fmt.Errorf("call the platform: %w", context.Canceled),
		} {
			f := newThings(t)
			f.terms.Changes, f.handleErr = changes, err
			if w := f.send(t, string(id.New[id.Account]()), `{}`); w.Code != status || !strings.Contains(w.Body.String(), want) {
				t.Errorf("changes %v: %d %s", changes, w.Code, w.Body)
			}
		}
	}
}

// A problem tells where its log is, to who may know; somebody unknown is told nothing.
func TestProblemsTellTheirLog(t *testing.T) {
	t.Parallel()
	f := newThings(t)
	f.handleErr = problem.UpstreamNotFound.New("no")
	w := f.send(t, string(id.New[id.Account]()), `{}`)
	if want := `"logUrl":"https://x.test/v1/logs/` + w.Header().Get("X-Request-Id") + `"`; !strings.Contains(w.Body.String(), want) {
		t.Errorf("%s lacks %s", w.Body, want)
	}
	if w := f.do(t, http.MethodPost, "/v1/nowhere", nil); strings.Contains(w.Body.String(), "logUrl") {
		t.Errorf("nobody asked, and is told %s", w.Body)
	}
}
