package stream

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	feeds, streams prometheus.Gauge
	reads, faults  prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) metrics {
	register := promauto.With(registry)
	return metrics{
		feeds: register.NewGauge(prometheus.GaugeOpts{Name: "stagedoor_stream_feeds",
			Help: "Accounts and orgs whose events are watched on this node."}),
		streams: register.NewGauge(prometheus.GaugeOpts{Name: "stagedoor_streams_open",
			Help: "Event streams that are open on this node."}),
		reads:  register.NewCounter(prometheus.CounterOpts{Name: "stagedoor_stream_store_reads_total", Help: "Pages read from the event store."}),
		faults: register.NewCounter(prometheus.CounterOpts{Name: "stagedoor_stream_store_faults_total", Help: "Reads of the event store that failed."}),
	}
}
