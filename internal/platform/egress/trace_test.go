package egress_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// A request has a span with its region and its status, and without its path, its query and its headers. The platform gets
// the context only if that is set.
func TestPlatformsGetTheContextOnlyIfThatIsSet(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	p := newPlatform(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Header.Get("Traceparent"))
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusNotFound)
		}
	})
	proxy := newTestProxy(t, "http", "127.0.1.1", p)
	recorder := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)).Tracer("test")
	for _, propagate := range []bool{false, true} {
		client := newFixture(t, p, "us="+proxy.url(), func(c *egress.Config) { c.PropagateTraces = propagate }).client(t, "us", "acct_1")
		ctx, request := tracer.Start(t.Context(), "request")
		before := len(recorder.Ended())
		reply, err := client.Call(ctx, &egress.Request{
			Method: http.MethodGet, Origin: p.origin, Path: "/gone", Query: "q=canary-query", Header: []egress.Field{{Name: "X-A", Value: "canary-header"}},
		}, egress.Limits{})
		must.OK(t, err)
		reply.Release()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.origin+"/here?q=canary-query", nil)
		must.OK(t, err)
		resp, err := client.Do(req, egress.Limits{})
		must.OK(t, err)
		must.OK(t, resp.Body.Close())
		if req.Header.Get("Traceparent") != "" {
			t.Error("the caller's request was changed")
		}
		ended := recorder.Ended()[before:]
		if len(ended) != 2 {
			t.Fatalf("%d spans", len(ended))
		}
		for i, span := range ended {
			if span.Name() != http.MethodGet || span.Parent().SpanID() != request.SpanContext().SpanID() {
				t.Errorf("the span is %s in %v", span.Name(), span.Parent())
			}
			var attributes []string
			for _, a := range span.Attributes() {
				attributes = append(attributes, string(a.Key)+"="+a.Value.String())
			}
			all := strings.Join(attributes, " ")
			if !slices.Contains(attributes, "http.response.status_code="+[]string{"404", "200"}[i]) || !slices.Contains(attributes, "stagedoor.region=us") ||
				strings.Contains(all, "canary") || strings.Contains(all, "gone") {
				t.Errorf("the attributes are %s", all)
			}
			want := ""
			if propagate {
				want = "00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"
			}
			mu.Lock()
			if sent := got[len(got)-2+i]; sent != want {
				t.Errorf("propagate %t: the platform got %q; want %q", propagate, sent, want)
			}
			mu.Unlock()
		}
	}
}
