package endpoint

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
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

// endSpan names the span after the operation and records the result.
func (c *Call) endSpan(operation string) {
	if c.span == nil {
		return
	}
	status := c.written.Status
	c.span.SetName(operation)
	c.span.SetAttributes(attribute.Int("http.response.status_code", status), attribute.String("stagedoor.request_id", string(c.ID)))
	if c.op != nil {
		c.span.SetAttributes(attribute.String("http.request.method", c.op.Method), attribute.String("http.route", c.op.Path))
	}
	if status >= http.StatusInternalServerError {
		c.span.SetStatus(codes.Error, c.outcome.problem)
	}
	c.span.End()
}
