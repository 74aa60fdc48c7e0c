package endpoint

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/base/tracing"
)

// Metrics are the request metrics of one server. Operations are labels; ids never are.
type Metrics struct {
	requests *prometheus.CounterVec
	failures *prometheus.CounterVec
	duration *prometheus.HistogramVec
	overhead prometheus.Histogram
	// shed counts the requests that the door refused. limit, inside and waiting are the newest state of the door, working
	// is the number of requests in flight.
	shed                            prometheus.Counter
	limit, inside, waiting, working prometheus.Gauge
	// cache holds the metrics by their labels, because a lookup by labels costs more than counting.
	cache sync.Map // seriesKey to measures
}

type seriesKey struct {
	operation string
	status    int
}

type measures struct {
	requests prometheus.Counter
	duration prometheus.Observer
}

// NewMetrics registers the metrics of one server; server is the value of their label. If the registry is nil, they are
// not registered.
func NewMetrics(registry prometheus.Registerer, server string) *Metrics {
	register := promauto.With(registry)
	labels := prometheus.Labels{"face": server}
	return &Metrics{
		requests: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_http_requests_total", Help: "Requests answered.", ConstLabels: labels,
		}, []string{"operation", "status"}),
		failures: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_http_failures_total", Help: "Requests answered with a status of 500 or more, by the code of the problem.", ConstLabels: labels,
		}, []string{"code"}),
		overhead: register.NewHistogram(prometheus.HistogramOpts{
			Name: "stagedoor_http_overhead_seconds", Help: "Time of calls of SDK methods without the requests to the platform: what this service adds.",
			ConstLabels: labels, Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}),
		duration: register.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stagedoor_http_request_duration_seconds", Help: "Time from the first byte read to the last one written.",
			ConstLabels: labels, Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"operation"}),
		shed: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_http_shed_total", Help: "Requests refused with 503 because the node was overloaded.", ConstLabels: labels,
		}),
		limit: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_http_concurrency_limit", Help: "Requests that the node works on concurrently at most, without those that wait for a platform.",
			ConstLabels: labels,
		}),
		inside: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_http_concurrency", Help: "Requests that the node works on, without those that wait for a platform.", ConstLabels: labels,
		}),
		waiting: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_http_waiting", Help: "Requests that wait because the node is overloaded.", ConstLabels: labels,
		}),
		working: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_http_in_flight", Help: "Requests in progress, with those that wait for a platform and without open streams.",
			ConstLabels: labels,
		}),
	}
}

// observeDoor records the state of the door.
func (m *Metrics) observeDoor(limit, inside, waiting int) {
	m.limit.Set(float64(limit))
	m.inside.Set(float64(inside))
	m.waiting.Set(float64(waiting))
}

// observe counts a request, whose trace is in ctx. problem is the code of the problem that answered it.
func (m *Metrics) observe(ctx context.Context, operation string, status int, problem string, took time.Duration) {
	key := seriesKey{operation, status}
	found, ok := m.cache.Load(key)
	if !ok {
		found, _ = m.cache.LoadOrStore(key, measures{m.requests.WithLabelValues(operation, strconv.Itoa(status)), m.duration.WithLabelValues(operation)})
	}
	one, _ := found.(measures)
	one.requests.Inc()
	tracing.Observe(ctx, one.duration, took.Seconds())
	if status >= http.StatusInternalServerError {
		m.failures.WithLabelValues(problem).Inc()
	}
}
