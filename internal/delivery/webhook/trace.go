package webhook

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
	"github.com/stagedoor/stagedoor/internal/events/event"
)

// startSpan starts the span of a delivery, in the trace of its event. An event that was read from the store has none:
// its delivery begins a trace of its own. The span names neither the account nor the receiver.
func (w *Webhooks) startSpan(ctx context.Context, ev *event.Stored, n deliveryMeta) (context.Context, trace.Span) {
	ctx, span := tracing.Begin(ctx, w.deps.Tracer, ev.Trace, "deliver webhook", trace.SpanKindProducer)
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("messaging.message.id", string(ev.ID)), attribute.String("stagedoor.event.kind", ev.Kind),
			attribute.Int("stagedoor.webhook.attempt", n.attempt), attribute.String("stagedoor.webhook.cause", n.cause),
		)
	}
	return ctx, span
}

func endSpan(span trace.Span, r lane.Result) {
	if span.IsRecording() {
		failure := r.Failure
		switch {
		case r.Aborted:
			failure = "aborted"
		case failure == "" && lane.Classify(r) != lane.Delivered:
			failure = strconv.Itoa(r.Status)
		}
		if failure != "" {
			span.SetAttributes(attribute.String("error.type", failure))
			span.SetStatus(codes.Error, "")
		}
	}
	span.End()
}
