package postgres

import "github.com/prometheus/client_golang/prometheus"

var (
	poolConns = prometheus.NewDesc("stagedoor_postgres_connections", "Connections to PostgreSQL, by pool and state.", []string{"pool", "state"}, nil)
	poolMax   = prometheus.NewDesc("stagedoor_postgres_connections_max", "Connections that a pool opens at most.", []string{"pool"}, nil)
	poolWaits = prometheus.NewDesc("stagedoor_postgres_waits_total", "Queries that had to wait for a connection.", []string{"pool"}, nil)
	poolWait  = prometheus.NewDesc("stagedoor_postgres_wait_seconds_total", "Time that queries waited for a connection.", []string{"pool"}, nil)
)

// Metrics returns the metrics of connection pools, with their names as a label.
func Metrics(pools map[string]*DB) prometheus.Collector { return poolMetrics(pools) }

type poolMetrics map[string]*DB

func (m poolMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolConns, poolMax, poolWaits, poolWait} {
		to <- d
	}
}

func (m poolMetrics) Collect(to chan<- prometheus.Metric) {
	for name, db := range m {
		s := db.pool.Stat()
		for state, n := range map[string]int32{"in_use": s.AcquiredConns(), "idle": s.IdleConns(), "connecting": s.ConstructingConns()} {
			to <- prometheus.MustNewConstMetric(poolConns, prometheus.GaugeValue, float64(n), name, state)
		}
		to <- prometheus.MustNewConstMetric(poolMax, prometheus.GaugeValue, float64(s.MaxConns()), name)
		to <- prometheus.MustNewConstMetric(poolWaits, prometheus.CounterValue, float64(s.EmptyAcquireCount()), name)
		to <- prometheus.MustNewConstMetric(poolWait, prometheus.CounterValue, s.EmptyAcquireWaitTime().Seconds(), name)
	}
}
