package webhook

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/base/tracing"
	"github.com/stagedoor/stagedoor/internal/delivery/webhook/lane"
)

type metrics struct {
	good, bad         prometheus.Counter
	deliveries        *prometheus.CounterVec
	took, wait        prometheus.Histogram
	arrival           prometheus.Histogram
	unlogged          prometheus.Counter
	lanes, inFlight   prometheus.Gauge
	pending, backlog  prometheus.Gauge
	timers, hostsDown prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) metrics {
	register := promauto.With(registry)
	gauge := func(name, help string) prometheus.Gauge {
		return register.NewGauge(prometheus.GaugeOpts{Name: "stagedoor_webhook_" + name, Help: help})
	}
	m := metrics{
		deliveries: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_webhook_deliveries_total",
			Help: "Delivery attempts, by outcome: accepted by the receiver, or failed.",
		}, []string{"outcome"}),
		took: register.NewHistogram(prometheus.HistogramOpts{
			Name: "stagedoor_webhook_delivery_seconds", Help: "Duration of delivery attempts.",
			Buckets: []float64{.005, .02, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		arrival: register.NewHistogram(prometheus.HistogramOpts{
			Name:    "stagedoor_webhook_event_seconds",
			Help:    "Time from the storing of an event until its receiver accepted it, with retries; without replays.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 1800, 7200},
		}),
		wait: register.NewHistogram(prometheus.HistogramOpts{
			Name:    "stagedoor_webhook_wait_seconds",
			Help:    "Time from the storing of an event until its first attempt, to receivers that keep up: the delay that is ours.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300},
		}),
		unlogged: register.NewCounter(prometheus.CounterOpts{
			Name: "stagedoor_webhook_unlogged_total",
			Help: "Deliveries missing from the log, because the database was unavailable for too long.",
		}),
		lanes:     gauge("lanes", "Lanes in memory, one per account."),
		inFlight:  gauge("in_flight", "Deliveries in flight."),
		pending:   gauge("pending", "Lanes that have something to deliver or to write."),
		backlog:   gauge("backlog", "Lanes that have events and may send them now. More nodes deliver them sooner."),
		timers:    gauge("timers", "Lanes and hosts that wait for their next attempt."),
		hostsDown: gauge("hosts_down", "Hosts whose breaker is open."),
	}
	m.good, m.bad = m.deliveries.WithLabelValues("accepted"), m.deliveries.WithLabelValues("failed")
	return m
}

func (m *metrics) count(ctx context.Context, delivered bool, took time.Duration) {
	if delivered {
		m.good.Inc()
	} else {
		m.bad.Inc()
	}
	tracing.Observe(ctx, m.took, took.Seconds())
}

func (m *metrics) set(s lane.Stats) {
	m.lanes.Set(float64(s.Lanes))
	m.inFlight.Set(float64(s.InFlight))
	m.pending.Set(float64(s.Pending))
	m.backlog.Set(float64(s.Backlog))
	m.timers.Set(float64(s.Timers))
	m.hostsDown.Set(float64(s.HostsDown))
}
