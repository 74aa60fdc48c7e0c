package app

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// jobTrace continues the trace of a request in the jobs that it causes. The context travels in the metadata of a job, as
// a traceparent. A span has the kind and the queue of the job, never its arguments.
type jobTrace struct {
	river.MiddlewareDefaults
	tracer trace.Tracer
}

var (
	_ rivertype.JobInsertMiddleware = (*jobTrace)(nil)
	_ rivertype.WorkerMiddleware    = (*jobTrace)(nil)
)

// jobTraces returns the middleware of a client of the queue; none if nothing is traced.
func jobTraces(tracer trace.Tracer) []rivertype.Middleware {
	if tracer == nil {
		return nil
	}
	return []rivertype.Middleware{&jobTrace{tracer: tracer}}
}

// InsertMany adds the context of the current span to jobs. Jobs without a span, such as periodic ones, get none.
func (m *jobTrace) InsertMany(
	ctx context.Context, jobs []*rivertype.JobInsertParams, insert func(context.Context) ([]*rivertype.JobInsertResult, error),
) ([]*rivertype.JobInsertResult, error) {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	for _, job := range jobs {
		if len(carrier) == 0 {
			break
		}
		metadata := map[string]json.RawMessage{}
		if len(job.Metadata) > 0 {
			if err := json.Unmarshal(job.Metadata, &metadata); err != nil {
				return nil, fmt.Errorf("read the metadata of a job of kind %s: %w", job.Kind, err)
			}
		}
		for key, value := range carrier {
			text, err := json.Marshal(value)
			if err != nil {
				return nil, fmt.Errorf("encode the trace of a job of kind %s: %w", job.Kind, err)
			}
			metadata[key] = text
		}
		var err error
		if job.Metadata, err = json.Marshal(metadata); err != nil {
			return nil, fmt.Errorf("encode the metadata of a job of kind %s: %w", job.Kind, err)
		}
	}
	return insert(ctx)
}

// Work runs a job in a span of its own, as part of the trace that inserted it.
func (m *jobTrace) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	var from struct {
		Parent string `json:"traceparent"`
		State  string `json:"tracestate"`
	}
	if json.Unmarshal(job.Metadata, &from) == nil { // otherwise the job has no trace
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": from.Parent, "tracestate": from.State})
	}
	ctx, span := m.tracer.Start(ctx, "process "+job.Queue, trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("messaging.system", "river"), attribute.String("messaging.operation.type", "process"),
		attribute.String("messaging.operation.name", "process"), attribute.String("messaging.destination.name", job.Queue),
		attribute.String("stagedoor.job.kind", job.Kind),
	))
	defer span.End()
	err := work(ctx)
	if err != nil {
		span.SetStatus(codes.Error, "the job failed") // the error may quote data
	}
	return err
}
