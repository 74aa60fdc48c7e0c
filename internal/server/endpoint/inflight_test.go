package endpoint_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/scope"
	"github.com/stagedoor/stagedoor/internal/server/endpoint"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
	"github.com/stagedoor/stagedoor/internal/tenant/apikey"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// tenants authenticates each token as its own org.
type tenants struct{}

func (tenants) Authenticate(_ context.Context, token string) (endpoint.Identity, error) {
	p := &apikey.Principal{Key: apikey.Key{ID: id.New[id.Key]()}, Scopes: scope.Everyday(), Org: org.Org{ID: id.Org("org_" + token)}}
	return endpoint.Identity{Principal: p, Scopes: p.Scopes, Kind: audit.ActorKey, ID: string(p.Key.ID)}, nil
}

func (tenants) Refresh(_ context.Context, who endpoint.Identity) (endpoint.Identity, error) {
	return who, nil
}

type noteInput struct {
	Body struct {
		Text string `json:"text"`
	}
}

type noteOutput struct {
	Body struct {
		Length int `json:"length"`
	}
}

// newNotesFixture has an operation with a body and one without. The second calls read.
func newNotesFixture(t *testing.T, now func() time.Time, read func()) *fixture {
	t.Helper()
	f := newFixture(t, func(d *endpoint.Deps) { d.Auth, d.Local, d.Count = tenants{}, now, nil })
	endpoint.Typed(f.Table, endpoint.Operation{
		ID: "writeNote", Method: http.MethodPost, Path: "/notes", Summary: "S", Tag: "T", Status: http.StatusOK, Quota: admission.Plain,
		Unaudited: "a test", Example: map[string]any{"text": "x"},
	}, func(_ context.Context, in *noteInput) (*noteOutput, error) {
		out := &noteOutput{}
		out.Body.Length = len(in.Body.Text)
		return out, nil
	})
	endpoint.Typed(f.Table, endpoint.Operation{
		ID: "readNotes", Method: http.MethodGet, Path: "/notes", Summary: "S", Tag: "T", Status: http.StatusOK, Quota: admission.Plain,
	}, func(context.Context, *struct{}) (*noteOutput, error) {
		read()
		return &noteOutput{}, nil
	})
	return f
}

// slowHead is a request of whose body only the first byte arrives.
const slowHead = "POST /notes HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer slow\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n{"

// 2,200 requests of one key whose bodies never arrive do not block other callers, even at the same address, nor
// requests of the same key without a body. Most of them are refused immediately.
func TestBodiesThatNeverComeDoNotStopANode(t *testing.T) {
	t.Parallel()
	const slow, kept = 2200, 200
	later := func() time.Time { return time.Now().Add(time.Hour) } // No body times out during the test.
	f := newNotesFixture(t, later, func() {})
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	refused := make(chan string, slow)
	for range slow {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		must.OK(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		go func() {
			if _, err := io.WriteString(conn, slowHead); err != nil {
				refused <- err.Error()
				return
			}
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return // The test is over.
			}
			defer res.Body.Close()
			var problem struct{ Reason string }
			_ = json.NewDecoder(res.Body).Decode(&problem)
			refused <- fmt.Sprint(res.StatusCode, " ", problem.Reason)
		}()
	}
	for range slow - kept {
		if got := <-refused; got != "429 org_bodies" {
			t.Fatalf("a body that never arrives: %s", got)
		}
	}
	call := func(method, key, body string, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/notes", strings.NewReader(body))
		must.OK(t, err)
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		res, err := server.Client().Do(req)
		must.OK(t, err)
		defer res.Body.Close()
		if text, _ := io.ReadAll(res.Body); res.StatusCode != want {
			t.Errorf("%s with the key %s: %d %s", method, key, res.StatusCode, text)
		}
	}
	for range 20 {
		call(http.MethodGet, "other", "", http.StatusOK)
		call(http.MethodPost, "other", `{"text":"x"}`, http.StatusOK)
		call(http.MethodGet, "slow", "", http.StatusOK)
	}
	call(http.MethodPost, "slow", `{"text":"x"}`, http.StatusTooManyRequests)
	if len(refused) > 0 {
		t.Errorf("another request was answered: %s", <-refused)
	}
}

// A body that stalls times out after 3 s, one that trickles after 10 s. Neither is counted afterwards.
func TestSlowBodiesTimeOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		every time.Duration
		want  time.Duration
	}{{"stops", time.Hour, 3 * time.Second}, {"trickles", 2 * time.Second, 10 * time.Second}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newNotesFixture(t, time.Now, func() {})
				near, far := net.Pipe()
				line := &oneConn{conn: far, closed: make(chan struct{})}
				server := &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}
				served := make(chan struct{})
				go func() {
					defer close(served)
					_ = server.Serve(line)
				}()
				start := time.Now()
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = io.WriteString(near, slowHead)
					for {
						<-time.After(c.every)
						if _, err := io.WriteString(near, " "); err != nil {
							return
						}
					}
				}()
				res, err := http.ReadResponse(bufio.NewReader(near), nil)
				must.OK(t, err)
				if took := time.Since(start); res.StatusCode != http.StatusRequestTimeout || took != c.want {
					t.Errorf("%d after %s, want 408 after %s", res.StatusCode, took, c.want)
				}
				_, _ = res.Body.Close(), near.Close()
				_ = server.Close()
				<-served
				<-done
				if bodies, working := f.InFlight(); bodies != 0 || working != 0 {
					t.Errorf("%d bodies and %d requests are still counted", bodies, working)
				}
			})
		})
	}
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn   net.Conn
	given  bool
	once   sync.Once
	closed chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	if !l.given {
		l.given = true
		return l.conn, nil
	}
	<-l.closed
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// An org can use at most half of a node's concurrency, so that its slow requests do not block those of others.
func TestAnOrgCanUseHalfOfANode(t *testing.T) {
	t.Parallel()
	const half = 2500
	started, free := make(chan struct{}, 2*half), make(chan struct{})
	f := newNotesFixture(t, time.Now, func() { started <- struct{}{}; <-free })
	get := func(key string) *httptest.ResponseRecorder {
		return f.do(t, http.MethodGet, "/notes", http.Header{"Authorization": {"Bearer " + key}})
	}
	var wait sync.WaitGroup
	for range half {
		wait.Go(func() { get("busy") })
	}
	for range half {
		<-started
	}
	if w := get("busy"); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), `"reason":"org_concurrency"`) {
		t.Errorf("one more: %d %s", w.Code, w.Body)
	}
	wait.Go(func() {
		if w := get("other"); w.Code != http.StatusOK {
			t.Errorf("another org: %d %s", w.Code, w.Body)
		}
	})
	<-started
	close(free)
	wait.Wait()
	if bodies, working := f.InFlight(); bodies != 0 || working != 0 {
		t.Errorf("%d bodies and %d requests are still counted", bodies, working)
	}
}

// The metric of requests in flight has those that wait for a platform, and returns to 0. Autoscalers add nodes by it.
func TestTheMetricOfRequestsInFlightHasThoseThatWaitForAPlatform(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	started, free := make(chan struct{}), make(chan struct{})
	f := newFixture(t, func(d *endpoint.Deps) {
		d.Auth, d.Count, d.Metrics = tenants{}, nil, endpoint.NewMetrics(registry, "test")
	})
	endpoint.Typed(f.Table, endpoint.Operation{
		ID: "callPlatform", Method: http.MethodGet, Path: "/platform", Summary: "S", Tag: "T", Status: http.StatusNoContent, Quota: admission.Plain,
	}, func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		defer endpoint.From(ctx).Away()()
		started <- struct{}{}
		<-free
		return &struct{}{}, nil
	})
	inFlight := func(want float64) {
		t.Helper()
		f.Adapt(0)
		families, err := registry.Gather()
		must.OK(t, err)
		for _, family := range families {
			if family.GetName() == "stagedoor_http_in_flight" {
				if got := family.GetMetric()[0].GetGauge().GetValue(); got != want {
					t.Errorf("%v requests in flight; want %v", got, want)
				}
				return
			}
		}
		t.Error("there is no metric of requests in flight")
	}
	inFlight(0)
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() { f.do(t, http.MethodGet, "/platform", http.Header{"Authorization": {"Bearer one"}}) })
	}
	for range 3 {
		<-started
	}
	if inside := f.Inside(); inside != 0 {
		t.Errorf("%d requests have a place at the door while they wait", inside)
	}
	inFlight(3)
	close(free)
	wait.Wait()
	inFlight(0)
}
