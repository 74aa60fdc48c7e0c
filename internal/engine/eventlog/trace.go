package eventlog

import (
	"context"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/tracing"
)

// Trace is the context of the trace that a record of an entry belongs to.
type Trace struct {
	// Record is the number of the record in the entry, from 0.
	Record  int
	Context *trace.SpanContext
}

// maxTraces bounds the traces of an entry, so that their headers fit into what MaxData leaves. Further records of a full
// batch lose theirs.
const maxTraces = 64

// The headers of a message: for each traced record its number and its context, as W3C Trace Context defines it.
const (
	recordHeader = "Stagedoor-Record"
	parentHeader = "traceparent"
)

// encodeTraces returns the values of the two headers.
func encodeTraces(ctx context.Context, traces []Trace) (records, parents []string) {
	for _, t := range traces {
		records = append(records, strconv.Itoa(t.Record))
		parents = append(parents, tracing.Format(ctx, t.Context))
	}
	return records, parents
}

// decodeTraces reads what encodeTraces returned. It skips what is malformed.
func decodeTraces(ctx context.Context, records, parents []string) (traces []Trace) {
	for i, text := range records[:min(len(records), len(parents))] {
		record, err := strconv.Atoi(text)
		if of := tracing.Parse(ctx, parents[i]); of != nil && err == nil {
			traces = append(traces, Trace{record, of})
		}
	}
	return traces
}

// traceSeparator is between the two in a column.
const traceSeparator = " "

func formatTraces(ctx context.Context, traces []Trace) []string {
	records, parents := encodeTraces(ctx, traces)
	for i := range records {
		records[i] += traceSeparator + parents[i]
	}
	return records
}

func parseTraces(ctx context.Context, column []string) []Trace {
	records, parents := make([]string, len(column)), make([]string, len(column))
	for i, text := range column {
		records[i], parents[i], _ = strings.Cut(text, traceSeparator)
	}
	return decodeTraces(ctx, records, parents)
}
