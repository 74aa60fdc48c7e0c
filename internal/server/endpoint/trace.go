package endpoint

import (
	"context"
	"errors"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

// startSpan starts the span of a request, as part of the caller's trace if the request carries one. A span contains the
// operation but never the path or the query, which contain ids and whatever callers put there.
func (t *Table) startSpan(r *http.Request, call *Call) context.Context {
	if t.deps.Tracer == nil {
		return r.Context()
	}
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, call.span = t.deps.Tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
	return ctx
}

// endSpan names the span after the method and the route, as OpenTelemetry does, and records the result. operation is the
// id of the operation, or the name of the SDK method.
func (c *Call) endSpan(operation string) {
	if c.span == nil {
		return
	}
	if c.span.IsRecording() {
		status := c.written.Status
		c.span.SetName("HTTP")
		c.span.SetAttributes(
			attribute.Int("http.response.status_code", status), attribute.String("stagedoor.request_id", string(c.ID)),
			attribute.String("stagedoor.operation", operation),
		)
		if c.op != nil {
			c.span.SetName(c.op.Method + " " + c.op.Path)
			c.span.SetAttributes(attribute.String("http.request.method", c.op.Method), attribute.String("http.route", c.op.Path))
		}
		if c.outcome.problem != "" {
			c.span.SetAttributes(attribute.String("error.type", c.outcome.problem))
		}
		if status >= http.StatusInternalServerError {
			c.span.SetStatus(codes.Error, c.outcome.problem)
		}
	}
	c.span.End()
}

// traceAdmission asks admission in a span of its own.
func (t *Table) traceAdmission(ctx context.Context, c admission.Call) (admission.Decision, error) {
	ctx, span := tracing.Start(ctx, "admission", trace.SpanKindInternal)
	d, err := t.deps.Admit.Admit(ctx, c)
	if span.IsRecording() {
		outcome := "admitted"
		switch {
		case d.Stale:
			outcome = "stale"
		case d.Denied != nil:
			if outcome = string(d.Denied.Reason); d.Denied.CoolDown {
				outcome = "cool_down"
			}
		}
		span.SetAttributes(attribute.String("stagedoor.admission.outcome", outcome), attribute.Bool("stagedoor.admission.degraded", d.Degraded))
	}
	if errors.Is(err, context.Canceled) {
		span.End() // the caller has gone away
		return d, err
	}
	tracing.End(span, err, "admission failed")
	return d, err
}
