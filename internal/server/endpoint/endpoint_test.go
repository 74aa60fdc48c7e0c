package endpoint_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// allowAll accepts every token.
type allowAll struct{}

func (allowAll) Authenticate(context.Context, string) (endpoint.Identity, error) {
	return endpoint.Identity{Scopes: scope.Everyday(), Kind: audit.ActorSystem, ID: "x"}, nil
}

func (allowAll) Refresh(_ context.Context, id endpoint.Identity) (endpoint.Identity, error) {
	return id, nil
}

type loginInput struct {
	Page  int    `query:"page" minimum:"1"`
	Trace string `header:"X-Trace" maxLength:"4"`
	Body  struct {
		Email    string        `json:"email" format:"email"`
		Password secret.String `json:"password" minLength:"3" maxLength:"12"`
		Curl     string        `json:"curl,omitempty" pattern:"^curl "`
		Cookies  []string      `json:"cookies,omitempty" maxItems:"2"`
		Country  string        `json:"country,omitempty" enum:"us,uk"`
	}
}

type nothing struct {
	Body struct {
		OK bool `json:"ok"`
	}
}

// rejectAll rejects every token, but returns an identity with the error.
type rejectAll struct{ allowAll }

func (rejectAll) Authenticate(context.Context, string) (endpoint.Identity, error) {
	return endpoint.Identity{Principal: &apikey.Principal{}}, problem.KeyInvalid.New("unknown")
}

type counts struct{ calls []usage.Call }

func (c *counts) Count(call usage.Call) { c.calls = append(c.calls, call) }

// A call whose key is rejected is not counted in usage: there may be no org to count it for.
func TestCallsWithRejectedKeysAreNotCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(d *endpoint.Deps) { d.Auth = rejectAll{} })
	addLogin(f.Table, nil)
	if rec, _ := send(t, f, "/login", `{}`, nil); rec.Code != http.StatusUnauthorized || len(f.counted.calls) != 0 {
		t.Errorf("%d, counted %v", rec.Code, f.counted.calls)
	}
}

// A caller that disconnects does not cause an error in the log.
func TestDisconnectedCallersAreNoFault(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	table := newTable(t, &log, func(ctx context.Context, _ *loginInput) error { return fmt.Errorf("read: %w", context.Canceled) })
	send(t, table, "/login?page=1", `{"email":"a@b.test","password":"okay"}`, nil)
	if strings.Contains(log.String(), `"level":"ERROR"`) {
		t.Error(log.String())
	}
}

// A change whose commit was not confirmed may have happened. The response says so: repeating it could do it twice.
func TestUnknownOutcomesAreNotRetryable(t *testing.T) {
	t.Parallel()
	table := newTable(t, io.Discard, func(context.Context, *loginInput) error {
		return errors.Join(postgres.ErrOutcomeUnknown, io.ErrUnexpectedEOF)
	})
	rec, doc := send(t, table, "/login?page=1", `{"email":"a@b.test","password":"okay"}`, nil)
	if rec.Code != http.StatusServiceUnavailable || doc["retryable"] != false || doc["outcome"] != "unknown" {
		t.Errorf("%s", rec.Body)
	}
}

// newTable serves one operation that does what behave does.
func newTable(t *testing.T, log io.Writer, behave func(context.Context, *loginInput) error) *endpoint.Table {
	t.Helper()
	table := endpoint.New(endpoint.Deps{
		Config: endpoint.Config{Title: "T", Version: "1", PublicURL: "https://x.test", ProblemsURL: "https://x.test/problems"},
		Auth:   allowAll{}, Draining: func() bool { return false }, Source: endpoint.SourceOf(nil), HashIP: func(s string) string { return s },
		Metrics: endpoint.NewMetrics(nil, "test"), Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})), Now: time.Now,
	})
	addLogin(table, behave)
	return table
}

// addLogin adds an operation that behaves as given.
func addLogin(table *endpoint.Table, behave func(context.Context, *loginInput) error) {
	endpoint.Typed(table, endpoint.Operation{
		ID: "login", Method: http.MethodPost, Path: "/login", Tag: "T", Summary: "Log in", Status: http.StatusOK, Audit: "login",
		Example: map[string]any{"email": "a@b.test"},
	}, func(ctx context.Context, in *loginInput) (*nothing, error) { return &nothing{}, behave(ctx, in) })
}

func send(t *testing.T, table http.Handler, target, body string, header http.Header) (*httptest.ResponseRecorder, map[string]any) {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer x")
	maps.Copy(req.Header, header)
	rec := httptest.NewRecorder()
	table.ServeHTTP(rec, req)
	var doc map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatalf("%v in %s", err, rec.Body)
	}
	return rec, doc
}

// Whatever is wrong with a request, none of its values is sent back or logged: no password, cookie or cURL command.
func TestRejectedValuesAreNeverEchoed(t *testing.T) {
	t.Parallel()
	const canary = "CANARY7f3a"
	var log bytes.Buffer
	table := newTable(t, &log, func(context.Context, *loginInput) error { return nil })
	for _, c := range []struct{ target, body, code string }{
		{"/login", `{"email":"CANARY7f3a","password":"ok-long"}`, "validation-failed"},
		{"/login", `{"email":"a@b.test, CANARY7f3a <x","password":"ok-long"}`, "validation-failed"},
		{"/login", `{"email":"a@b.test","password":"CANARY7f3a-CANARY7f3a"}`, "validation-failed"},
		{"/login", `{"email":"a@b.test","password":["CANARY7f3a"]}`, "validation-failed"},
		{"/login", `{"email":"a@b.test","password":{"x":"CANARY7f3a"}}`, "validation-failed"},
		{"/login", `{"email":"a@b.test","password":"okay","curl":"wget CANARY7f3a"}`, "validation-failed"},
		{"/login", `{"email":"a@b.test","password":"okay","cookies":["CANARY7f3a","b","c"]}`, "validation-failed"},
		{"/login", `{"email":"a@b.test","password":"okay","cookies":"CANARY7f3a"}`, "validation-failed"},
		{"/login", `{"email":"a@b.test","password":"okay","country":"CANARY7f3a"}`, "validation-failed"},
		{"/login", `{"email":"a@b.test","password":"okay","unknown":"CANARY7f3a"}`, "validation-failed"},
		{"/login", `["CANARY7f3a"]`, "validation-failed"},
		{"/login", `"CANARY7f3a"`, "validation-failed"},
		{"/login", `{"email":"a@b.test","password":"CANARY7f3a`, "malformed-json"},
		{"/login", `{"email":"a@b.test","password":"okay"} CANARY7f3a`, "malformed-json"},
		{"/login?page=CANARY7f3a", `{"email":"a@b.test","password":"okay"}`, "invalid-request"},
		{"/login?page=0&filter=CANARY7f3a", `{"email":"a@b.test","password":"okay"}`, "invalid-request"},
	} {
		rec, doc := send(t, table, c.target, c.body, nil)
		if doc["code"] != c.code {
			t.Errorf("%s %s: %s", c.target, c.body, rec.Body)
		}
		if strings.Contains(rec.Body.String(), canary) {
			t.Errorf("%s %s is echoed: %s", c.target, c.body, rec.Body)
		}
	}
	rec, _ := send(t, table, "/login", `{"email":"a@b.test","password":"okay"}`, http.Header{"X-Trace": {canary}})
	if rec.Code != http.StatusBadRequest || strings.Contains(rec.Body.String(), canary) {
		t.Errorf("a header is echoed: %s", rec.Body)
	}
	if strings.Contains(log.String(), canary) {
		t.Errorf("a value is logged: %s", log.String())
	}
}

// Errors point at the field, with a code that a program can use.
func TestErrorsPointAtTheField(t *testing.T) {
	t.Parallel()
	table := newTable(t, io.Discard, func(context.Context, *loginInput) error { return nil })
	for body, want := range map[string]problem.Field{
		`{"email":"a@b.test"}`:                                           {Pointer: "/password", Code: "required"},
		`{"email":7,"password":"okay"}`:                                  {Pointer: "/email", Code: "type"},
		`{"email":"x","password":"okay"}`:                                {Pointer: "/email", Code: "format"},
		`{"email":"a@b.test","password":"ab"}`:                           {Pointer: "/password", Code: "length"},
		`{"email":"a@b.test","password":"okay","country":"fr"}`:          {Pointer: "/country", Code: "enum"},
		`{"email":"a@b.test","password":"okay","cookies":["a",3]}`:       {Pointer: "/cookies/1", Code: "type"},
		`{"email":"a@b.test","password":"okay","cookies":["a","b","c"]}`: {Pointer: "/cookies", Code: "items"},
		`{"email":"a@b.test","password":"okay","colour":"red"}`:          {Pointer: "/colour", Code: "unknown"},
	} {
		rec, _ := send(t, table, "/login", body, nil)
		var doc struct{ Errors []problem.Field }
		if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil || len(doc.Errors) != 1 {
			t.Errorf("%s: %s", body, rec.Body)
			continue
		}
		if got := doc.Errors[0]; got.Pointer != want.Pointer || got.Code != want.Code || got.Detail == "" {
			t.Errorf("%s: %+v, want %+v", body, got, want)
		}
	}
}

// A panic becomes a problem that does not reveal its cause, and the next request is served.
func TestPanicIsAProblem(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	table := newTable(t, &log, func(_ context.Context, in *loginInput) error {
		panic("secret " + in.Body.Password.Reveal())
	})
	rec, doc := send(t, table, "/login?page=1", `{"email":"a@b.test","password":"hunter2"}`, nil)
	if rec.Code != http.StatusInternalServerError || doc["code"] != "internal" || doc["retryable"] != false || doc["outcome"] != "unknown" {
		t.Errorf("%s", rec.Body)
	}
	if strings.Contains(rec.Body.String()+log.String(), "hunter2") {
		t.Error("the response or the log contains the value of the panic")
	}
	if rec.Header().Get("X-Request-Id") == "" || rec.Header().Get("Content-Type") != problem.ContentType {
		t.Errorf("%v", rec.Header())
	}
}

// The text of an error that is not a problem goes to the log and not to the caller.
func TestUnexpectedErrorsStayInTheLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	table := newTable(t, &log, func(context.Context, *loginInput) error { return errors.New("table audit_entry does not exist") })
	rec, doc := send(t, table, "/login?page=1", `{"email":"a@b.test","password":"hunter2"}`, nil)
	if doc["code"] != "internal" || strings.Contains(rec.Body.String(), "audit_entry") || !strings.Contains(log.String(), "audit_entry") {
		t.Errorf("%s\n%s", rec.Body, log.String())
	}
	table = newTable(t, io.Discard, func(context.Context, *loginInput) error { return context.DeadlineExceeded })
	if rec, doc := send(t, table, "/login?page=1", `{"email":"a@b.test","password":"hunter2"}`, nil); rec.Code != http.StatusServiceUnavailable || doc["retryable"] != true || rec.Header().Get("Retry-After") == "" {
		t.Errorf("slow database: %s", rec.Body)
	}
}

// An incomplete operation cannot be served.
func TestIncompleteRowsStopTheStart(t *testing.T) {
	t.Parallel()
	whole := endpoint.Operation{ID: "x", Method: http.MethodPost, Path: "/x", Tag: "T", Summary: "X", Status: http.StatusOK, Audit: "x"}
	for what, spoil := range map[string]func(*endpoint.Operation){
		"no id":               func(o *endpoint.Operation) { o.ID = "" },
		"no summary":          func(o *endpoint.Operation) { o.Summary = "" },
		"no status":           func(o *endpoint.Operation) { o.Status = 0 },
		"no audit action":     func(o *endpoint.Operation) { o.Audit = "" },
		"both":                func(o *endpoint.Operation) { o.Unaudited = "because" },
		"a read that changes": func(o *endpoint.Operation) { o.Method = http.MethodGet },
	} {
		op := whole
		spoil(&op)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: served", what)
				}
			}()
			endpoint.Typed(newTable(t, io.Discard, nil), op, func(context.Context, *struct{}) (*nothing, error) { return &nothing{}, nil })
		}()
	}
}

type bareAnswer struct {
	Rows []struct {
		At *time.Time `json:"at"`
	} `json:"rows"`
}

type stampedAnswer struct {
	Rows []struct {
		At *stamp.Time `json:"at"`
	} `json:"rows"`
}

// A time.Time in a response stops the start, however the response is declared: it would be encoded with as many
// decimals as it has.
func TestResponsesWithABareTimeStopTheStart(t *testing.T) {
	t.Parallel()
	op := endpoint.Operation{ID: "x", Method: http.MethodGet, Path: "/x", Tag: "T", Summary: "X", Status: http.StatusOK}
	plain := func(answer any) func(*endpoint.Table) {
		return func(table *endpoint.Table) {
			op := op
			op.Answer = answer
			endpoint.Plain(table, op, func(http.ResponseWriter, *http.Request) error { return nil })
		}
	}
	other := func(table *endpoint.Table) {
		op := op
		op.OtherAnswers = map[int]any{http.StatusAccepted: bareAnswer{}}
		endpoint.Plain(table, op, func(http.ResponseWriter, *http.Request) error { return nil })
	}
	for what, c := range map[string]struct {
		declare func(*endpoint.Table)
		starts  bool
	}{
		"typed": {func(table *endpoint.Table) {
			endpoint.Typed(table, op, func(context.Context, *struct{}) (*struct{ Body bareAnswer }, error) {
				return &struct{ Body bareAnswer }{}, nil
			})
		}, false},
		"typed with a stamp": {func(table *endpoint.Table) {
			endpoint.Typed(table, op, func(context.Context, *struct{}) (*struct{ Body stampedAnswer }, error) {
				return &struct{ Body stampedAnswer }{}, nil
			})
		}, true},
		"plain": {plain(bareAnswer{}), false}, "plain with a stamp": {plain(stampedAnswer{}), true}, "another status": {other, false},
	} {
		func() {
			defer func() {
				if starts := recover() == nil; starts != c.starts {
					t.Errorf("%s: starts %v, want %v", what, starts, c.starts)
				}
			}()
			c.declare(newTable(t, io.Discard, nil))
		}()
	}
}

// The source of a request is the last address that is not a trusted proxy.
func TestSourceBelievesTrustedProxiesOnly(t *testing.T) {
	t.Parallel()
	source := endpoint.SourceOf([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")})
	for _, c := range []struct {
		remote  string
		forward []string
		want    string
	}{
		{"192.0.2.7:1", nil, "192.0.2.7"},
		{"192.0.2.7:1", []string{"198.51.100.1"}, "192.0.2.7"},
		{"10.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"6.6.6.6, 198.51.100.1, 10.0.0.9"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"6.6.6.6", "198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"garbage"}, "10.0.0.1"},
		{"[2001:db8:1:2:3::4]:1", nil, "2001:db8:1:2::/64"},
		{"[fd00::1]:1", []string{"2001:db8:9:9::1"}, "2001:db8:9:9::/64"},
		{"[::ffff:10.0.0.1]:1", []string{"198.51.100.1"}, "198.51.100.1"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.RemoteAddr = c.remote
		for _, f := range c.forward {
			r.Header.Add("X-Forwarded-For", f)
		}
		if got := source(r); got != c.want {
			t.Errorf("%s via %v: %s, want %s", c.remote, c.forward, got, c.want)
		}
	}
}

// Every response has headers that keep a browser from using it for anything else, whether it succeeds or not.
func TestResponsesHaveSecurityHeaders(t *testing.T) {
	t.Parallel()
	table := newTable(t, io.Discard, func(context.Context, *loginInput) error { return nil })
	for target, want := range map[string]int{"/login?page=1": http.StatusOK, "/login?page=x": http.StatusBadRequest, "/none": http.StatusNotFound} {
		rec, _ := send(t, table, target, `{"email":"a@b.test","password":"okay"}`, nil)
		if rec.Code != want {
			t.Errorf("%s: %d, want %d", target, rec.Code, want)
		}
		for name, value := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Strict-Transport-Security":    "max-age=63072000; includeSubDomains; preload",
			"Access-Control-Allow-Origin":  "",
		} {
			if got := rec.Header().Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", target, name, got, value)
			}
		}
	}
}
