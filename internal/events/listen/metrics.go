package listen

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
)

type metrics struct {
	sockets                       *prometheus.GaugeVec
	frames, skipped               *prometheus.CounterVec
	gaps, reconnects, fills, held prometheus.Counter
	delay                         prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) metrics {
	register := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return register.NewCounter(prometheus.CounterOpts{Name: "stagedoor_listener_" + name, Help: help})
	}
	m := metrics{
		sockets: register.NewGaugeVec(prometheus.GaugeOpts{Name: "stagedoor_listener_sockets",
			Help: "Accounts that this node listens to, by the state of their socket."}, []string{"state"}),
		frames: register.NewCounterVec(prometheus.CounterOpts{Name: "stagedoor_listener_frames_total",
			Help: "Frames of platforms, by class and by source: socket or list."}, []string{"class", "by"}),
		skipped: register.NewCounterVec(prometheus.CounterOpts{Name: "stagedoor_listener_skipped_total",
			Help: "Frames that were skipped because they do not match the manifest, by reason."}, []string{"why"}),
		gaps:       counter("gaps_total", "Times that events may be missing because the platform could not list them."),
		fills:      counter("fills_total", "Times that missed frames were fetched."),
		reconnects: counter("reconnects_total", "Sockets that were lost."),
		delay: register.NewHistogram(prometheus.HistogramOpts{
			Name:    "stagedoor_listener_event_seconds",
			Help:    "Time from an event at a platform, by its clock, until the event log had it. Without events found by polling, and those without a time.",
			Buckets: []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300, 1800},
		}),
		held: counter("held_total", "Times that a socket was not read because the log lagged."),
	}
	for _, state := range []account.ListenerState{account.ListenerConnecting, account.ListenerUp, account.ListenerDown} {
		m.sockets.WithLabelValues(string(state))
	}
	return m
}
