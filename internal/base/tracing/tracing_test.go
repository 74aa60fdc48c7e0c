package tracing_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/tracing"
)

// Without a tracer, a span costs no allocation, and neither does its context on the way to another process.
func TestNothingIsAllocatedIfNothingIsTraced(t *testing.T) { //nolint:paralleltest // it counts the allocations of the whole process
	ctx := t.Context()
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "h"})
	if n := testing.AllocsPerRun(1000, func() {
		in, span := tracing.Start(ctx, "step", trace.SpanKindInternal)
		in, root := tracing.Begin(in, nil, nil, "root", trace.SpanKindConsumer)
		if text := tracing.Format(in, tracing.Sampled(root)); text != "" || tracing.Parse(in, text) != nil {
			t.Error("there is a context")
		}
		tracing.Observe(in, histogram, 1)
		tracing.End(root, nil, "")
		tracing.End(span, nil, "")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A context keeps its ids on the way. One that is not sampled does not travel, and a malformed one is ignored.
func TestSampledContextsTravel(t *testing.T) {
	t.Parallel()
	tracer := sdktrace.NewTracerProvider().Tracer("test")
	ctx, span := tracer.Start(t.Context(), "first")
	of := tracing.Parse(ctx, tracing.Format(ctx, tracing.Sampled(span)))
	if of == nil || of.TraceID() != span.SpanContext().TraceID() || of.SpanID() != span.SpanContext().SpanID() || !of.IsRemote() {
		t.Errorf("%v became %v", span.SpanContext(), of)
	}
	_, next := tracing.Begin(t.Context(), tracer, of, "second", trace.SpanKindConsumer)
	if next.SpanContext().TraceID() != span.SpanContext().TraceID() {
		t.Error("the trace does not continue")
	}
	unsampled := span.SpanContext().WithTraceFlags(0)
	for _, text := range []string{tracing.Format(ctx, &unsampled), "00-malformed", ""} {
		if got := tracing.Parse(ctx, text); got != nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
