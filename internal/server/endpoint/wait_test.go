package endpoint_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

type heldOutput struct {
	Body struct {
		Held string `json:"held"`
	}
}

// A caller may ask for a response to be held for up to 25 seconds, in the header or, for a GET, in the query.
func TestWaitReadsWhatTheCallerPrefers(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	held := func(ctx context.Context) (*heldOutput, error) {
		d, err := endpoint.Wait(ctx, 10*time.Second)
		out := &heldOutput{}
		out.Body.Held = d.String()
		return out, err
	}
	endpoint.Typed(f.Table, endpoint.Operation{
		ID: "poll", Method: http.MethodGet, Path: "/poll", Tag: "T", Summary: "Poll", Status: http.StatusOK, Timeout: endpoint.WaitTimeout,
	}, func(ctx context.Context, _ *struct{ endpoint.PreferOrQuery }) (*heldOutput, error) { return held(ctx) })
	endpoint.Typed(f.Table, endpoint.Operation{
		ID: "start", Method: http.MethodPost, Path: "/start", Tag: "T", Summary: "Start", Status: http.StatusOK, Audit: "x", Timeout: endpoint.WaitTimeout,
	}, func(ctx context.Context, _ *struct{ endpoint.Prefer }) (*heldOutput, error) { return held(ctx) })
	for _, c := range []struct {
		method, target string
		prefer         []string
		held, applied  string
	}{
		{http.MethodGet, "/poll", nil, "10s", ""},
		{http.MethodGet, "/poll", []string{"wait=0"}, "0s", "wait=0"},
		{http.MethodGet, "/poll", []string{"wait=25"}, "25s", "wait=25"},
		{http.MethodGet, "/poll", []string{`respond-async, Wait="7"; x=y`}, "7s", "wait=7"},
		{http.MethodGet, "/poll", []string{"return=minimal", "wait=3", "wait=4"}, "3s", "wait=3"},
		{http.MethodGet, "/poll", []string{"return=minimal"}, "10s", ""},
		{http.MethodGet, "/poll?wait=5", []string{"wait=6"}, "5s", ""},
		{http.MethodPost, "/start", []string{"wait=6"}, "6s", "wait=6"},
		{http.MethodPost, "/start", nil, "10s", ""},
		{http.MethodGet, "/poll", []string{"wait=26"}, "", ""},
		{http.MethodGet, "/poll", []string{"wait=-1"}, "", ""},
		{http.MethodGet, "/poll", []string{"wait=soon"}, "", ""},
		{http.MethodGet, "/poll", []string{"wait"}, "", ""},
		{http.MethodGet, "/poll?wait=26", nil, "", ""},
		{http.MethodGet, "/poll?wait=x", nil, "", ""},
	} {
		w := f.do(t, c.method, c.target, http.Header{"Prefer": c.prefer})
		if c.held == "" {
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "invalid-request") {
				t.Errorf("%s %v: %d %s", c.target, c.prefer, w.Code, w.Body)
			}
			continue
		}
		if !strings.Contains(w.Body.String(), `"held":"`+c.held+`"`) || w.Header().Get("Preference-Applied") != c.applied {
			t.Errorf("%s %s %v: %d %s %v", c.method, c.target, c.prefer, w.Code, w.Body, w.Header())
		}
	}
}

// The deadlines of the server do not end an operation with a longer timeout, nor does it look as if its caller
// disconnected.
func TestLongOperationsOutliveTheServersLimits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	serverLimit := 500 * time.Millisecond
	for _, op := range []endpoint.Operation{
		{ID: "long", Path: "/long", Timeout: 20 * time.Second}, {ID: "short", Path: "/short"},
	} {
		op.Method, op.Tag, op.Summary, op.Status = http.MethodGet, "T", "S", http.StatusOK
		endpoint.Typed(f.Table, op, func(ctx context.Context, _ *struct{}) (*heldOutput, error) {
			select {
			case <-time.After(4 * serverLimit):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return &heldOutput{}, nil
		})
	}
	server := httptest.NewUnstartedServer(f.Table)
	server.Config.ReadTimeout, server.Config.WriteTimeout = serverLimit, serverLimit
	server.Start()
	defer server.Close()
	for path, whole := range map[string]bool{"/long": true, "/short": false} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		must.OK(t, err)
		req.Header.Set("Authorization", "Bearer x")
		res, err := server.Client().Do(req)
		var body []byte
		if err == nil {
			body, err = io.ReadAll(res.Body)
			_ = res.Body.Close()
		}
		if ok := err == nil && res.StatusCode == http.StatusOK && strings.Contains(string(body), "held"); ok != whole {
			t.Errorf("%s: %v %s", path, err, body)
		}
	}
}

// A declared timeout applies however the operation is added.
func TestDeclaredTimeouts(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	var left time.Duration
	record := func(ctx context.Context) {
		end, _ := ctx.Deadline()
		left = time.Until(end)
	}
	op := func(path string, timeout time.Duration) endpoint.Operation {
		return endpoint.Operation{ID: path, Method: http.MethodGet, Path: path, Tag: "T", Summary: "S", Status: http.StatusOK, Timeout: timeout, Quota: admission.Plain}
	}
	endpoint.Typed(f.Table, op("/typed", 0), func(ctx context.Context, _ *struct{}) (*heldOutput, error) { record(ctx); return &heldOutput{}, nil })
	endpoint.Typed(f.Table, op("/typed25", 25*time.Second), func(ctx context.Context, _ *struct{}) (*heldOutput, error) { record(ctx); return &heldOutput{}, nil })
	endpoint.Plain(f.Table, op("/plain25", 25*time.Second), func(_ http.ResponseWriter, r *http.Request) error { record(r.Context()); return nil })
	endpoint.Written(f.Table, op("/written25", 25*time.Second), func(_ http.ResponseWriter, r *http.Request, _ *struct{}) error { record(r.Context()); return nil })
	for path, want := range map[string]time.Duration{"/typed": 10 * time.Second, "/typed25": 25 * time.Second, "/plain25": 25 * time.Second, "/written25": 25 * time.Second} {
		left = 0
		f.do(t, http.MethodGet, path, nil)
		if left > want || left < want-5*time.Second {
			t.Errorf("%s had %s", path, left)
		}
	}
}
