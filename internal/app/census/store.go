package census

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

// countTasks counts the rows of River's table, which is not among our migrations.
func (c *Census) countTasks(ctx context.Context, add func(*prometheus.Desc, float64, ...string)) error {
	rows, err := c.deps.DB.Query(ctx, `SELECT queue, state::text, count(*) FROM river_job
		WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled') GROUP BY queue, state`)
	if err != nil {
		return err
	}
	var (
		queue, state string
		n            int64
	)
	_, err = pgx.ForEachRow(rows, []any{&queue, &state, &n}, func() error {
		add(tasks, float64(n), queue, state)
		return nil
	})
	return err
}
