package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
)

// metrics is how operators see deliveries.
type metrics struct {
	good, bad          prometheus.Counter
	deliveries         *prometheus.CounterVec
	took               prometheus.Histogram
	unlogged           prometheus.Counter
	lanes, flying      prometheus.Gauge
	waiting, openHosts prometheus.Gauge
	backoff            prometheus.Gauge
}

func newMetrics() metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "stagedoor_webhook_" + name, Help: help})
	}
	m := metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_webhook_deliveries_total", Help: "Deliveries that were tried: accepted by their receiver, or failed.",
		}, []string{"outcome"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "stagedoor_webhook_delivery_seconds", Help: "How long receivers take.", Buckets: []float64{.005, .02, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		unlogged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_webhook_unlogged_total", Help: "Deliveries that are not in the log, because the database was away for too long.",
		}),
		lanes:   gauge("lanes", "Accounts whose lane is in memory."),
		flying:  gauge("in_flight", "Deliveries under way."),
		waiting: gauge("pending", "Lanes that have something to deliver or to write."),
		backoff: gauge("timers", "Lanes and hosts that wait for their next attempt."), openHosts: gauge("hosts_down", "Hosts that are known to be down."),
	}
	m.good, m.bad = m.deliveries.WithLabelValues("accepted"), m.deliveries.WithLabelValues("failed")
	return m
}

func (m *metrics) count(delivered bool, took time.Duration) {
	if delivered {
		m.good.Inc()
	} else {
		m.bad.Inc()
	}
	m.took.Observe(took.Seconds())
}

func (m *metrics) set(s lane.Stats) {
	m.lanes.Set(float64(s.Lanes))
	m.flying.Set(float64(s.Flying))
	m.waiting.Set(float64(s.Waiting))
	m.backoff.Set(float64(s.Backoff))
	m.openHosts.Set(float64(s.Open))
}

// Collectors are to be registered.
func (w *Webhooks) Collectors() []prometheus.Collector {
	m := &w.metrics
	return []prometheus.Collector{m.deliveries, m.took, m.unlogged, m.lanes, m.flying, m.waiting, m.backoff, m.openHosts}
}
