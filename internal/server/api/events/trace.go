package events

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/delivery/stream"
)

// startSpans starts a span for each traced event that is about to be sent, in the trace of the event, with a link to the
// request that reads the stream.
func (e *events) startSpans(ctx context.Context, list []stream.Event) (spans []trace.Span) {
	for i := range list {
		if list[i].Trace == nil || list[i].Body == nil {
			continue
		}
		_, span := tracing.Begin(ctx, e.Tracer, list[i].Trace, "send stream", trace.SpanKindProducer)
		if span.IsRecording() {
			span.SetAttributes(attribute.String("stagedoor.event.kind", list[i].Kind))
			if request := trace.SpanContextFromContext(ctx); request.IsValid() {
				span.AddLink(trace.Link{SpanContext: request})
			}
		}
		spans = append(spans, span)
	}
	return spans
}
