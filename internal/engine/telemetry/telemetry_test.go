package telemetry_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/stagedoor/stagedoor/internal/engine/telemetry"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// request is what a collector got.
type request struct {
	path   string
	header http.Header
	body   []byte
}

// export exports one span with the environment of the test, and returns what the collector got; false if nothing was
// exported. Variables may name the address of the collector as $URL.
func export(t *testing.T, variables map[string]string) (request, bool) {
	t.Helper()
	got := make(chan request, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.URL.Path, r.Header, body}
	}))
	defer collector.Close()
	for name, value := range variables {
		t.Setenv(name, strings.ReplaceAll(value, "$URL", collector.URL))
	}
	provider, err := telemetry.Traces(t.Context(), "node-1", "1.2.3")
	must.OK(t, err)
	_, span := provider.Tracer("test").Start(t.Context(), "request")
	span.End()
	must.OK(t, provider.Shutdown(t.Context()))
	select {
	case r := <-got:
		return r, true
	default: // Shutdown has waited for the export
		return request{}, false
	}
}

// The SDK reads the OpenTelemetry variables of the environment as its specification says: the address for all signals is
// a base, and the one for traces is used as it is.
//
//nolint:paralleltest // the SDK reads the environment
func TestTheEnvironmentSaysWhereTracesGo(t *testing.T) {
	for name, c := range map[string]struct{ all, traces, want string }{
		"base":       {"$URL", "", "/v1/traces"},
		"base/":      {"$URL/otlp/", "", "/otlp/v1/traces"},
		"traces":     {"", "$URL/ingest", "/ingest"},
		"both":       {"http://127.0.0.1:1", "$URL/ingest", "/ingest"},
		"only host":  {"", "$URL", "/"},
		"host and /": {"", "$URL/", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			variables := map[string]string{}
			if c.all != "" {
				variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = c.all
			}
			if c.traces != "" {
				variables["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = c.traces
			}
			if r, ok := export(t, variables); !ok || r.path != c.want {
				t.Errorf("posted to %q; want %q", r.path, c.want)
			}
		})
	}
}

func TestTheEnvironmentSetsHeadersResourceAndSampler(t *testing.T) { //nolint:paralleltest // the SDK reads the environment
	r, ok := export(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "$URL", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20opensesame,x-tenant=ops",
		"OTEL_RESOURCE_ATTRIBUTES": "service.version=9.9.9,deployment.environment.name=staging", "OTEL_SERVICE_NAME": "front",
	})
	if !ok || r.header.Get("Authorization") != "Bearer opensesame" || r.header.Get("X-Tenant") != "ops" {
		t.Errorf("the headers of the environment are missing: %v", r.header)
	}
	for text, want := range map[string]bool{"front": true, "9.9.9": true, "staging": true, "node-1": true, "stagedoord": false, "1.2.3": false} {
		if bytes.Contains(r.body, []byte(text)) != want {
			t.Errorf("%q is in the trace: %t; want %t", text, !want, want)
		}
	}
	if _, ok := export(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "$URL", "OTEL_TRACES_SAMPLER": "always_off"}); ok {
		t.Error("a span is exported although the sampler is always_off")
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
