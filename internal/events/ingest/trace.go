package ingest

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
)

// startSpans starts a span for each traced record of the batch, in the trace of the record. One transaction stores them
// all: its queries are in the span of the first, to which the others are linked.
func (w *batch) startSpans(ctx context.Context) context.Context {
	first := ctx
	var shared trace.Link
	for i := range w.records {
		r := &w.records[i]
		if r.from == nil || w.g.deps.Tracer == nil {
			continue
		}
		in, span := tracing.Begin(ctx, w.g.deps.Tracer, r.from, "process "+r.origin(), trace.SpanKindConsumer)
		r.span = span
		span.SetAttributes(
			attribute.String("messaging.system", "stagedoor"), attribute.String("messaging.operation.type", "process"),
			attribute.String("messaging.operation.name", "process"), attribute.String("messaging.destination.name", r.origin()),
			attribute.String("stagedoor.event.kind", r.Kind),
		)
		if shared.SpanContext.IsValid() {
			span.AddLink(shared)
			continue
		}
		span.SetAttributes(attribute.Int("messaging.batch.message_count", len(w.records)))
		first, shared.SpanContext = in, span.SpanContext() //nolint:fatcontext // once, for the first record
	}
	return first
}

// endSpans ends the spans of the records. A batch that is stored in halves starts new ones.
func (w *batch) endSpans(err error) {
	for i := range w.records {
		if span := w.records[i].span; span != nil {
			tracing.End(span, err, "not stored")
			w.records[i].span = nil
		}
	}
}

// stored notes the id that a record got, and returns the context for what follows its storing; nil if it is not traced.
func (r *pendingRecord) stored(as id.Event) *trace.SpanContext {
	if r.span == nil {
		return nil
	}
	r.span.SetAttributes(attribute.String("messaging.message.id", string(as)))
	return tracing.Sampled(r.span)
}

// origin returns where the record comes from: the event log or the outbox.
func (r *pendingRecord) origin() string {
	if r.own != 0 {
		return "outbox"
	}
	return "evt"
}
