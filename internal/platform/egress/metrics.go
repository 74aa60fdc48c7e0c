package egress

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of traffic to platforms.
type metrics struct {
	dials  *prometheus.CounterVec
	checks *prometheus.CounterVec
	gauges []prometheus.Collector
}

func newMetrics() metrics {
	return metrics{
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_egress_dials_total",
			Help: "Dials to platforms through proxies of a region, by outcome: ok or the reason of the failure.",
		}, []string{"region", "outcome"}),
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_egress_checks_total",
			Help: "Health checks of proxies, by outcome: ok or the reason of the failure.",
		}, []string{"region", "outcome"}),
	}
}

// watch adds the gauges of a region. Call it before collectors.
func (m *metrics) watch(r *region) {
	labels := prometheus.Labels{"region": r.name}
	m.gauges = append(m.gauges, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stagedoor_egress_proxies_healthy", ConstLabels: labels,
		Help: "Proxies of a region that this node uses. At 0 the region's accounts get 503 egress-unavailable.",
	}, func() float64 { return float64(r.healthy()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "stagedoor_egress_proxies", ConstLabels: labels,
		Help: "Proxies of a region in the settings.",
	}, func() float64 { return float64(len(r.proxies)) }))
}

func (m *metrics) collectors() []prometheus.Collector {
	return append([]prometheus.Collector{m.dials, m.checks}, m.gauges...)
}
