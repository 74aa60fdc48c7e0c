// Package tracing starts spans and carries their contexts in texts.
//
// Start continues the trace of a context with the tracer of its span, so that packages which only take part in a trace
// need no tracer. Work that has no caller, such as a frame of a platform or a delivery, starts with Begin. Neither costs
// anything if nothing is traced. Spans contain the names of routes, methods and kinds, and ids of requests and events;
// no payloads, no ids of accounts or fans, no texts of errors. Package engine/telemetry exports them.
package tracing

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Name is the name of our tracer.
const Name = "stagedoor"

// Start starts a span within that of ctx. It does nothing if ctx has none, or one that is not sampled.
func Start(ctx context.Context, name string, kind trace.SpanKind) (context.Context, trace.Span) {
	within := trace.SpanFromContext(ctx)
	if !within.IsRecording() {
		return ctx, noop.Span{}
	}
	return within.TracerProvider().Tracer(Name).Start(ctx, name, trace.WithSpanKind(kind))
}

// Begin starts a span whose parent is in another process or another goroutine, or a new trace if parent is nil. It does
// nothing if the tracer is nil.
func Begin(
	ctx context.Context, tracer trace.Tracer, parent *trace.SpanContext, name string, kind trace.SpanKind,
) (context.Context, trace.Span) {
	if tracer == nil {
		return ctx, noop.Span{}
	}
	if parent != nil {
		ctx = trace.ContextWithRemoteSpanContext(ctx, *parent)
	}
	return tracer.Start(ctx, name, trace.WithSpanKind(kind))
}

// End ends a span. If err is not nil, the span has the status of an error with a reason, which must be a constant or a
// code: the text of an error may quote data.
func End(span trace.Span, err error, reason string) {
	if err != nil {
		span.SetStatus(codes.Error, reason)
	}
	span.End()
}

// Sampled returns the context of a span for work that continues elsewhere; nil if the span is not sampled.
func Sampled(span trace.Span) *trace.SpanContext {
	if !span.SpanContext().IsSampled() {
		return nil
	}
	of := span.SpanContext()
	return &of
}

const parentHeader = "traceparent"

// Format returns a context as the value of a traceparent header, as W3C Trace Context defines it; empty for nil.
func Format(ctx context.Context, of *trace.SpanContext) string {
	if of == nil {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithRemoteSpanContext(ctx, *of), carrier)
	return carrier[parentHeader]
}

// Parse reads a traceparent; nil if it is malformed or not sampled.
func Parse(ctx context.Context, text string) *trace.SpanContext {
	if text == "" {
		return nil
	}
	clean := trace.ContextWithSpan(ctx, noop.Span{}) // if the text is malformed, ctx must not supply its own
	ctx = propagation.TraceContext{}.Extract(clean, propagation.MapCarrier{parentHeader: text})
	return Sampled(trace.SpanFromContext(ctx))
}

// Observe records a value, with the trace of ctx as its exemplar if it is sampled.
func Observe(ctx context.Context, to prometheus.Observer, value float64) {
	ObserveIn(Sampled(trace.SpanFromContext(ctx)), to, value)
}

// ObserveIn is Observe for a context that Sampled returned.
func ObserveIn(of *trace.SpanContext, to prometheus.Observer, value float64) {
	if with, ok := to.(prometheus.ExemplarObserver); ok && of != nil {
		with.ObserveWithExemplar(value, prometheus.Labels{"trace_id": of.TraceID().String(), "span_id": of.SpanID().String()})
		return
	}
	to.Observe(value)
}
