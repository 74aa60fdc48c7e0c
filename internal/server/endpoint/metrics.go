package endpoint

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics are the request metrics of one server. Operations are labels; ids never are.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
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
		duration: register.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stagedoor_http_request_duration_seconds", Help: "Time from the first byte read to the last one written.",
			ConstLabels: labels, Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"operation"}),
	}
}

func (m *Metrics) observe(operation string, status int, took time.Duration) {
	key := seriesKey{operation, status}
	found, ok := m.cache.Load(key)
	if !ok {
		found, _ = m.cache.LoadOrStore(key, measures{m.requests.WithLabelValues(operation, strconv.Itoa(status)), m.duration.WithLabelValues(operation)})
	}
	one, _ := found.(measures)
	one.requests.Inc()
	one.duration.Observe(took.Seconds())
}
