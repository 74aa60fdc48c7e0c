package connect

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/internal/db"
)

type metrics struct {
	begun, ended *prometheus.CounterVec
	took         *prometheus.HistogramVec
}

func newMetrics(registry prometheus.Registerer) metrics {
	register := promauto.With(registry)
	return metrics{
		begun: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_connect_attempts_begun_total", Help: "Connect attempts that were started, by kind.",
		}, []string{"kind"}),
		ended: register.NewCounterVec(prometheus.CounterOpts{
			Name: "stagedoor_connect_attempts_ended_total",
			Help: "Connect attempts that ended, by kind, final state and code of the failure; the code is empty for a success.",
		}, []string{"kind", "state", "code"}),
		took: register.NewHistogramVec(prometheus.HistogramOpts{
			Name: "stagedoor_connect_attempt_seconds", Help: "Time that connect attempts took, with the waits for the creator, by final state.",
			Buckets: []float64{1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800},
		}, []string{"state"}),
	}
}

// observeEnd counts an attempt that has just ended.
func (m *metrics) observeEnd(r *record) {
	code := ""
	if r.Failure != nil {
		code = r.Failure.Code
	}
	m.ended.WithLabelValues(string(r.Kind), string(r.State), code).Inc()
	m.took.WithLabelValues(string(r.State)).Observe(r.FinishedAt.Sub(r.CreatedAt).Seconds())
}

// CountOpen counts the attempts of all organisations that have not ended, by state, for the metrics.
func (c *Connects) CountOpen(ctx context.Context) (map[attempt.State]int64, error) {
	rows, err := db.New(c.deps.DB).CountOpen(ctx)
	counts := make(map[attempt.State]int64, len(rows))
	for _, row := range rows {
		counts[row.State] = row.Attempts
	}
	return counts, err
}
