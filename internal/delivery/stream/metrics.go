package stream

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	feeds, streams prometheus.Gauge
	reads, faults  prometheus.Counter
}

func newMetrics() metrics {
	return metrics{
		feeds: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stagedoor_stream_feeds",
			Help: "Accounts and orgs whose events are watched on this node."}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "stagedoor_streams_open",
			Help: "Event streams that are open on this node."}),
		reads:  prometheus.NewCounter(prometheus.CounterOpts{Name: "stagedoor_stream_store_reads_total", Help: "Pages read from the event store."}),
		faults: prometheus.NewCounter(prometheus.CounterOpts{Name: "stagedoor_stream_store_faults_total", Help: "Reads of the event store that failed."}),
	}
}

// Collectors returns the metrics.
func (h *Streams) Collectors() []prometheus.Collector {
	return []prometheus.Collector{h.metrics.feeds, h.metrics.streams, h.metrics.reads, h.metrics.faults}
}
