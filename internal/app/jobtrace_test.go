package app_test

import (
	"context"
	"strings"
	"testing"

	"github.com/riverqueue/river/rivertype"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/app"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// A job runs in the trace of the request that inserted it, keeps its other metadata, and its arguments are in no span.
func TestJobsContinueTheTraceThatInsertedThem(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	middleware := app.JobTraces(tracer)
	if len(middleware) != 1 {
		t.Fatalf("%d middlewares", len(middleware))
	}
	inserts, works := middleware[0].(rivertype.JobInsertMiddleware), middleware[0].(rivertype.WorkerMiddleware)

	ctx, request := tracer.Start(t.Context(), "request")
	traced := &rivertype.JobInsertParams{Kind: "k", Metadata: []byte(`{"mine":1}`)}
	insert := func(ctx context.Context, job *rivertype.JobInsertParams) {
		_, err := inserts.InsertMany(ctx, []*rivertype.JobInsertParams{job}, func(context.Context) ([]*rivertype.JobInsertResult, error) { return nil, nil })
		must.OK(t, err)
	}
	insert(ctx, traced)
	alone := &rivertype.JobInsertParams{Kind: "k", Metadata: []byte(`{}`)}
	insert(t.Context(), alone)
	if !strings.Contains(string(traced.Metadata), `"mine":1`) || string(alone.Metadata) != "{}" {
		t.Errorf("the metadata is %s, and without a trace %s", traced.Metadata, alone.Metadata)
	}

	var within trace.SpanContext
	for _, metadata := range [][]byte{traced.Metadata, alone.Metadata, []byte("broken")} {
		must.OK(t, works.Work(t.Context(), &rivertype.JobRow{Kind: "k", Queue: "q", Metadata: metadata, EncodedArgs: []byte(`{"secret":"canary"}`)},
			func(ctx context.Context) error {
				if !within.IsValid() {
					within = trace.SpanContextFromContext(ctx)
				}
				return nil
			}))
	}
	ended := spans.Ended()
	if len(ended) != 3 {
		t.Fatalf("%d spans", len(ended))
	}
	if got := ended[0]; got.Parent().SpanID() != request.SpanContext().SpanID() || got.SpanContext().TraceID() != request.SpanContext().TraceID() ||
		!got.SpanContext().Equal(within) || got.SpanKind() != trace.SpanKindConsumer {
		t.Errorf("the job is not in the trace of the request: %+v", got)
	}
	for _, got := range ended[1:] {
		if got.Parent().IsValid() {
			t.Errorf("a job without a trace has the parent %v", got.Parent())
		}
	}
	for _, got := range ended {
		for _, a := range got.Attributes() {
			if strings.Contains(a.Value.String(), "canary") {
				t.Errorf("the span has an argument: %s", a.Value.String())
			}
		}
	}
	if app.JobTraces(nil) != nil {
		t.Error("there is a middleware although nothing is traced")
	}
}
