package egress

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the metrics of traffic to platforms.
type metrics struct {
	dials   *prometheus.CounterVec
	checks  *prometheus.CounterVec
	excused *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) metrics {
	register := promauto.With(registry)
	return metrics{
		dials: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_egress_dials_total",
			Help: "Dials to platforms through proxies of a region, by outcome: ok or the reason of the failure.",
		}, []string{"region", "outcome"}),
		checks: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_egress_checks_total",
			Help: "Health checks of proxies, by outcome: ok or the reason of the failure.",
		}, []string{"region", "outcome"}),
		excused: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_egress_timeouts_excused_total",
			Help: "Time-outs of proxies that did not count, because this node was too slow itself.",
		}, []string{"region"}),
	}
}

// registerGauges registers the gauges of a region.
func registerGauges(registry prometheus.Registerer, r *region) {
	register := promauto.With(registry)
	labels := prometheus.Labels{"region": r.name}
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stagedoor_egress_proxies_healthy", ConstLabels: labels,
		Help: "Proxies of a region that this node uses. At 0 the region's accounts get 503 egress-unavailable.",
	}, func() float64 { return float64(r.healthy()) })
	register.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stagedoor_egress_proxies", ConstLabels: labels,
		Help: "Proxies of a region in the settings.",
	}, func() float64 { return float64(len(r.proxies)) })
}
