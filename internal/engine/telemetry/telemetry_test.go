package telemetry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/stagedoor/stagedoor/internal/engine/telemetry"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// The exporter uses the given address and takes everything else, such as the headers for authentication, from the
// OpenTelemetry variables of the environment.
func TestTracesArePostedToTheAddressWithTheHeadersOfTheEnvironment(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20opensesame,x-tenant=ops")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1") // must be ignored
	got := make(chan *http.Request, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r }))
	defer collector.Close()

	provider, err := telemetry.Tracer(t.Context(), collector.URL+"/otlp/v1/traces", "node-1", "1.2.3")
	must.OK(t, err)
	_, span := provider.Tracer("test").Start(t.Context(), "request")
	span.End()
	must.OK(t, provider.Shutdown(t.Context()))
	r := <-got
	if r.Method != http.MethodPost || r.URL.Path != "/otlp/v1/traces" {
		t.Errorf("%s %s", r.Method, r.URL)
	}
	if r.Header.Get("Authorization") != "Bearer opensesame" || r.Header.Get("X-Tenant") != "ops" {
		t.Errorf("the headers of the environment are missing: %v", r.Header)
	}
}

// A line that is logged within a span has the ids of the span, also after With; another line has none.
func TestLinesOfASpanHaveItsIDs(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := telemetry.Log(&out, "info", "json").With(slog.String("node", "a"))
	ctx, span := sdktrace.NewTracerProvider().Tracer("test").Start(t.Context(), "request")
	log.InfoContext(ctx, "within")
	log.InfoContext(t.Context(), "without")
	for _, want := range []map[string]any{
		{"msg": "within", "node": "a", "trace_id": span.SpanContext().TraceID().String(), "span_id": span.SpanContext().SpanID().String()},
		{"msg": "without", "node": "a", "trace_id": nil, "span_id": nil},
	} {
		line, err := out.ReadBytes('\n')
		must.OK(t, err)
		var got map[string]any
		must.OK(t, json.Unmarshal(line, &got))
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s is %v; want %v", key, got[key], value)
			}
		}
	}
}
