package admission

import "github.com/prometheus/client_golang/prometheus"

// Metrics is how operators see admission.
type Metrics struct {
	decisions *prometheus.CounterVec
	late      prometheus.Counter
	degraded  prometheus.Gauge
}

func newMetrics() Metrics {
	return Metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_admission_decisions_total",
			Help: "Decisions on calls: admitted and denied by the shared counters, held back by a remembered denial, or made alone.",
		}, []string{"how"}),
		late: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_admission_late_total",
			Help: "Answers of the shared counters that came after STAGEDOOR_REDIS_TIMEOUT and were used all the same.",
		}),
		degraded: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "stagedoor_admission_degraded",
			Help: "1 while this node decides alone because the shared counters do not answer.",
		}),
	}
}

// Collectors are to be registered.
func (l *Limiter) Collectors() []prometheus.Collector {
	return []prometheus.Collector{l.metrics.decisions, l.metrics.late, l.metrics.degraded}
}
