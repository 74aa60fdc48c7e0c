package admission

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Metrics holds the metrics of admission.
type Metrics struct {
	decisions *prometheus.CounterVec
	late      prometheus.Counter
	degraded  prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) Metrics {
	register := promauto.With(registry)
	return Metrics{
		decisions: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_admission_decisions_total",
			Help: "Decisions on calls: admitted or denied by the shared counters, denied by a held denial, or made alone.",
		}, []string{"how"}),
		late: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_admission_late_total",
			Help: "Answers of Redis that arrived after STAGEDOOR_REDIS_TIMEOUT and were still used.",
		}),
		degraded: register.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_admission_degraded",
			Help: "1 while this node decides alone because Redis does not answer.",
		}),
	}
}
