package egress

import (
	"context"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/tracing"
)

// startSpan starts the span of a request to a platform. It has no path, which contains ids, and no host of a site, which
// names a customer.
func (c *Client) startSpan(ctx context.Context, method, address, host string) (context.Context, trace.Span) {
	ctx, span := tracing.Start(ctx, method, trace.SpanKindClient)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("http.request.method", method), attribute.String("stagedoor.region", c.who.Region))
		if !isSite(address) {
			span.SetAttributes(attribute.String("server.address", host))
		}
	}
	return ctx, span
}

// traceparent returns the header with the context of a request; empty if platforms do not get it.
func (c *Client) traceparent(ctx context.Context, address string) string {
	if !c.egress.deps.Config.PropagateTraces || isSite(address) {
		return ""
	}
	return tracing.Format(ctx, tracing.Sampled(trace.SpanFromContext(ctx)))
}

// endSpan ends the span of a request that got a status; 0 if there was no response.
func endSpan(span trace.Span, status int) {
	if !span.IsRecording() {
		return
	}
	failure := ""
	switch {
	case status == 0:
		failure = outcomes[0]
	case status >= http.StatusBadRequest:
		failure = strconv.Itoa(status)
	}
	if status > 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", status))
	}
	if failure != "" {
		span.SetAttributes(attribute.String("error.type", failure))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}
