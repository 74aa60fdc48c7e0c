package invoke

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
)

// metrics are the metrics of calls, by class of method and never by account.
type metrics struct {
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	refused  *prometheus.CounterVec
	joined   prometheus.Counter
	retries  prometheus.Counter
	lost     prometheus.Counter
	// good and took are prefetched by class, because every call needs them: the counter of successes, and the duration.
	good [classes]prometheus.Counter
	took [classes]prometheus.Observer
}

func newMetrics(registry prometheus.Registerer) metrics {
	register := promauto.With(registry)
	m := metrics{
		calls: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_calls_total", Help: "Admitted calls of SDK methods, by class and by the problem they ended with.",
		}, []string{"class", "code"}),
		duration: register.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stagedoor_call_duration_seconds", Help: "Time that admitted calls of SDK methods took.",
			Buckets: []float64{.0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 60},
		}, []string{"class"}),
		refused: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_calls_refused_total", Help: "Calls that were refused before admission, by what was full or down.",
		}, []string{"by"}),
		joined:  register.NewCounter(prometheus.CounterOpts{Name: "stagedoor_calls_shared_total", Help: "Reads that shared the result of another call."}),
		retries: register.NewCounter(prometheus.CounterOpts{Name: "stagedoor_calls_retried_total", Help: "Reads that were sent a second time."}),
		lost:    register.NewCounter(prometheus.CounterOpts{Name: "stagedoor_rotations_lost_total", Help: "Cookie changes of a platform that could not be stored."}),
	}
	for c, name := range classNames {
		m.good[c], m.took[c] = m.calls.WithLabelValues(name, "ok"), m.duration.WithLabelValues(name)
	}
	return m
}

// class is the class of a method in metrics.
type class int

const (
	classRead class = iota
	classList
	classWrite
	classIdempotentWrite
	classes
)

var classNames = [classes]string{"read", "list", "write", "write_idempotent"}

func classOf(m *catalog.Method) class {
	switch {
	case m.Access == catalog.Write && m.Idempotent:
		return classIdempotentWrite
	case m.Access == catalog.Write:
		return classWrite
	case m.Paginated:
		return classList
	}
	return classRead
}

func (m *metrics) observe(ctx context.Context, method *catalog.Method, err error, took time.Duration) {
	kind := classOf(method)
	tracing.Observe(ctx, m.took[kind], took.Seconds())
	if err == nil {
		m.good[kind].Inc()
		return
	}
	m.calls.WithLabelValues(classNames[kind], problem.Of(err).Kind.Code).Inc()
}
