// Package telemetry creates the logger, the metrics registry and the tracer of a process. Packages declare their own
// metrics and log lines; this package only sets up where they go.
package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/lmittmann/tint"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/version"
)

// Log makes a logger. Format is json, pretty or auto; auto means pretty on a terminal and json otherwise. An invalid
// level means info.
func Log(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo
	}
	if format == "pretty" || format == "auto" && isTerminal(w) {
		return slog.New(traced{tint.NewTextHandler(w, &tint.Options{Level: l, TimeFormat: time.TimeOnly})})
	}
	return slog.New(traced{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: l})})
}

// traced adds the ids of the trace and the span to lines that are logged with a span in their context.
type traced struct{ slog.Handler }

func (h traced) Handle(ctx context.Context, r slog.Record) error {
	if of := trace.SpanContextFromContext(ctx); of.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String(logkey.TraceID, of.TraceID().String()), slog.String(logkey.SpanID, of.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traced) WithAttrs(a []slog.Attr) slog.Handler { return traced{h.Handler.WithAttrs(a)} }

func (h traced) WithGroup(name string) slog.Handler { return traced{h.Handler.WithGroup(name)} }

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Registry makes a metrics registry with the metrics of the Go runtime, the process and the build.
func Registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	built := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "stagedoor_build_info", Help: "The build of the node; the value is always 1.",
	}, []string{"version", "commit", "go_version"})
	build := version.Get()
	built.WithLabelValues(build.Version, build.Commit, runtime.Version()).Set(1)
	r.MustRegister(built, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	return r
}

// Traces posts spans over OTLP/HTTP. The SDK reads the address, headers, certificates, timeouts, the sampler, the limits and
// the attributes of the resource from the OTEL_ variables of the environment. OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES take precedence over the name and the version given here. When the queue is full, spans are
// dropped; requests never wait. The caller must shut the provider down to flush the queue.
func Traces(ctx context.Context, node, release string) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("create trace exporter: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "stagedoord"), attribute.String("service.version", release),
			attribute.String("service.instance.id", node),
		),
		resource.WithTelemetrySDK(), resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)), nil
}
