package requestlog

import "github.com/prometheus/client_golang/prometheus"

// Metrics is how operators see the log.
type Metrics struct {
	written prometheus.Counter
	lost    *prometheus.CounterVec
	waiting prometheus.Gauge
}

func newMetrics() Metrics {
	return Metrics{
		written: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_request_log_written_total", Help: "Requests that were written to the request log.",
		}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_request_log_lost_total",
			Help: "Requests that are not in the request log: there was no room while the database was away (full), " +
				"their org goes on calling over its limit (refused), their date is wrong (misdated), or the database will not have them (unfit).",
		}, []string{"why"}),
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_request_log_waiting", Help: "Requests that the last flush could not write.",
		}),
	}
}

// Collectors are to be registered.
func (j *Journal) Collectors() []prometheus.Collector {
	return []prometheus.Collector{j.metrics.written, j.metrics.lost, j.metrics.waiting}
}
