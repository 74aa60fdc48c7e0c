package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/base/logkey"
)

// Shares are the shares of log lines to write, by level or by operation.
type Shares map[string]float64

// ParseShares reads shares such as "info=0.1,getMe=0.01". Empty text has none.
func ParseShares(text string) (Shares, error) {
	shares := Shares{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, number, _ := strings.Cut(part, "=")
		share, err := strconv.ParseFloat(number, 64)
		switch {
		case err != nil || name == "" || !(share >= 0 && share <= 1):
			return nil, fmt.Errorf("%q is not a name and a share from 0 to 1, such as info=0.1", part)
		case name == "error":
			return nil, fmt.Errorf("lines of the level error are always written: remove %q", part)
		}
		shares[name] = share
	}
	return shares, nil
}

// Sample returns a logger that writes only a share of the lines. It writes all lines of the level error, and all lines of
// requests that failed with a status of 500 or more. The share of an operation goes before that of a level. The metric of
// dropped lines is registered even if none are dropped.
func Sample(log *slog.Logger, shares Shares, registry prometheus.Registerer) *slog.Logger {
	dropped := promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "stagedoor_log_lines_dropped_total", Help: "Log lines that were not written because of STAGEDOOR_LOG_SAMPLE, by level.",
	}, []string{"level"})
	if len(shares) == 0 {
		return log
	}
	names := make(map[string]*shareOf, len(shares))
	for name, share := range shares {
		names[name] = &shareOf{share: share}
	}
	return slog.New(sampled{log.Handler(), names, dropped})
}

// shareOf takes a share of the lines of a name, evenly and beginning with the first.
type shareOf struct {
	share float64
	seen  atomic.Uint64
}

func (s *shareOf) take() bool {
	n := float64(s.seen.Add(1))
	return math.Ceil(n*s.share) > math.Ceil((n-1)*s.share)
}

// sampled drops lines.
type sampled struct {
	slog.Handler
	names   map[string]*shareOf
	dropped *prometheus.CounterVec
}

func (h sampled) Handle(ctx context.Context, r slog.Record) error {
	level := levelName(r.Level)
	if level == "" {
		return h.Handler.Handle(ctx, r)
	}
	by, failed := h.names[level], false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case logkey.Operation:
			if of := h.names[a.Value.String()]; of != nil {
				by = of
			}
		case logkey.Status:
			failed = a.Value.Kind() == slog.KindInt64 && a.Value.Int64() >= http.StatusInternalServerError
		}
		return true
	})
	if by != nil && !failed && !by.take() {
		h.dropped.WithLabelValues(level).Inc()
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// levelName returns the name of a level in settings; empty for errors.
func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warn"
	}
	return ""
}

func (h sampled) WithAttrs(a []slog.Attr) slog.Handler {
	return sampled{h.Handler.WithAttrs(a), h.names, h.dropped}
}

func (h sampled) WithGroup(name string) slog.Handler {
	return sampled{h.Handler.WithGroup(name), h.names, h.dropped}
}
