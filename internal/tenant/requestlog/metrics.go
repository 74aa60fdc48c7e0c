package requestlog

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics holds the metrics of the request log.
type Metrics struct {
	written prometheus.Counter
	lost    *prometheus.CounterVec
	waiting prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) Metrics {
	register := promauto.With(registry)
	return Metrics{
		written: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_request_log_written_total", Help: "Requests that were written to the request log.",
		}),
		lost: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_request_log_lost_total",
			Help: "Requests missing from the request log: no room while the database was away (full), " +
				"too many calls over a limit (refused), a wrong date (misdated), or rejected by the database (unfit).",
		}, []string{"why"}),
		waiting: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_request_log_waiting", Help: "Requests that the last flush could not write.",
		}),
	}
}
