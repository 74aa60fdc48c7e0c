package postgres

import "github.com/prometheus/client_golang/prometheus"

var (
	poolConns = prometheus.NewDesc("stagedoor_postgres_connections", "Connections to PostgreSQL, by pool and state.", []string{"pool", "state"}, nil)
	poolMax   = prometheus.NewDesc("stagedoor_postgres_connections_max", "Connections that a pool opens at most.", []string{"pool"}, nil)
	poolWaits = prometheus.NewDesc("stagedoor_postgres_waits_total", "Queries that had to wait for a connection.", []string{"pool"}, nil)
	poolWait  = prometheus.NewDesc("stagedoor_postgres_wait_seconds_total", "Time that queries waited for a connection.", []string{"pool"}, nil)
)

// Metrics returns the metrics of the connection pool, with its name as a label.
func (db *DB) Metrics(pool string) prometheus.Collector { return poolMetrics{db, pool} }

type poolMetrics struct {
	db   *DB
	name string
}

func (m poolMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolConns, poolMax, poolWaits, poolWait} {
		to <- d
	}
}

func (m poolMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.db.pool.Stat()
	for state, n := range map[string]int32{"in_use": s.AcquiredConns(), "idle": s.IdleConns(), "connecting": s.ConstructingConns()} {
		to <- prometheus.MustNewConstMetric(poolConns, prometheus.GaugeValue, float64(n), m.name, state)
	}
	to <- prometheus.MustNewConstMetric(poolMax, prometheus.GaugeValue, float64(s.MaxConns()), m.name)
	to <- prometheus.MustNewConstMetric(poolWaits, prometheus.CounterValue, float64(s.EmptyAcquireCount()), m.name)
	to <- prometheus.MustNewConstMetric(poolWait, prometheus.CounterValue, s.EmptyAcquireWaitTime().Seconds(), m.name)
}
