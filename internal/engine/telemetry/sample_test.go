package telemetry_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stagedoor/stagedoor/internal/engine/telemetry"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// The share of lines is written, that of an operation before that of the level, also after With. Errors and failed
// requests are always written. Dropped lines are counted.
func TestAShareOfTheLinesIsWritten(t *testing.T) {
	t.Parallel()
	shares, err := telemetry.ParseShares("info=0.25, getMe=0.1,debug=0")
	must.OK(t, err)
	var out bytes.Buffer
	registry := prometheus.NewRegistry()
	log := telemetry.Sample(telemetry.Log(&out, "debug", "json"), shares, registry).With(slog.String("node", "a"))
	ctx := t.Context()
	for range 100 {
		log.InfoContext(ctx, "plain")
		log.InfoContext(ctx, "request", slog.String("operation", "getMe"), slog.Int("status", 200))
		log.InfoContext(ctx, "failed", slog.String("operation", "getMe"), slog.Int("status", 503))
		log.DebugContext(ctx, "detail")
		log.WarnContext(ctx, "warning")
		log.ErrorContext(ctx, "fault", slog.String("operation", "getMe"))
	}
	for message, want := range map[string]int{"plain": 25, "request": 10, "failed": 100, "detail": 0, "warning": 100, "fault": 100} {
		if got := strings.Count(out.String(), `"msg":"`+message+`"`); got != want {
			t.Errorf("%d lines %s; want %d", got, message, want)
		}
	}
	must.OK(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP stagedoor_log_lines_dropped_total Log lines that were not written because of STAGEDOOR_LOG_SAMPLE, by level.
# TYPE stagedoor_log_lines_dropped_total counter
stagedoor_log_lines_dropped_total{level="debug"} 100
stagedoor_log_lines_dropped_total{level="info"} 165
`)))
}

func TestInvalidSharesAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"info", "info=", "info=2", "info=-0.1", "info=NaN", "=0.1", "error=0.5", "info=0.1;debug=0"} {
		if _, err := telemetry.ParseShares(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
