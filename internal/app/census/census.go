// Package census counts for the metrics what is in the database: accounts by state, open connect attempts, unfinished jobs,
// tasks in the queue, and events that wait in the outbox.
package census

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/accounts/account"
	"github.com/stagedoor/stagedoor/internal/accounts/connect/attempt"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// every is the interval between two counts. A count reads all rows of accounts.
const every = 30 * time.Second

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("stagedoor_"+name, help+" All workers report the same number.", labels, nil)
}

var (
	accounts     = desc("accounts", "Connected accounts, by state.", "state")
	attempts     = desc("connect_attempts_open", "Connect attempts that have not ended, by state.", "state")
	jobs         = desc("jobs_open", "Jobs that have not ended, by kind and state.", "kind", "state")
	tasks        = desc("queue_tasks", "Tasks of the workers that have not ended, by queue and state.", "queue", "state")
	unlisted     = desc("orgs_unlisted_plan", "Organisations with a plan that is not offered any more, by plan. They have the limits of the plan sandbox.", "plan")
	outboxEvents = desc("outbox_events", "Events of the service itself that are not in the event store yet.")
	outboxAge    = desc("outbox_oldest_seconds", "Age of the oldest event in the outbox; 0 if it is empty.")
)

// Deps are the dependencies of a Census: what counts.
type Deps struct {
	DB   *postgres.DB
	Orgs interface {
		CountUnlisted(ctx context.Context) (map[org.Plan]int64, error)
	}
	Accounts interface {
		CountAll(ctx context.Context) (map[account.State]int64, error)
	}
	Attempts interface {
		CountOpen(ctx context.Context) (map[attempt.State]int64, error)
	}
	Jobs interface {
		CountOpen(ctx context.Context) (map[job.Group]int64, error)
	}
	Outbox interface {
		Backlog(ctx context.Context) (events int64, oldest time.Duration, err error)
	}
	Log *slog.Logger
}

// Census counts. It is a prometheus.Collector, which reports the last count.
type Census struct {
	deps Deps
	last atomic.Pointer[[]prometheus.Metric]
	// warned are the plans of which the log says that they are not offered any more. Only Count uses it.
	warned map[org.Plan]bool
}

// New returns a Census that has counted nothing.
func New(d Deps) *Census { return &Census{deps: d, warned: map[org.Plan]bool{}} }

// Run counts at intervals, until ctx ends.
func (c *Census) Run(ctx context.Context) error {
	for range clock.Every(ctx, every) {
		if err := c.Count(ctx); err != nil && ctx.Err() == nil {
			c.deps.Log.LogAttrs(ctx, slog.LevelWarn, "cannot count accounts and backlogs for the metrics", slog.Any(logkey.Error, err))
		}
	}
	return nil
}

// Count counts once. If a part fails, the others are reported nevertheless.
func (c *Census) Count(ctx context.Context) error {
	ctx = postgres.WithAllOrgs(ctx)
	var list []prometheus.Metric
	add := func(d *prometheus.Desc, value float64, labels ...string) {
		list = append(list, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
	}
	var failed []error
	check := func(err error, what string) bool {
		if err != nil {
			failed = append(failed, fmt.Errorf("count %s: %w", what, err))
		}
		return err == nil
	}
	byState, err := c.deps.Accounts.CountAll(ctx)
	check(err, "accounts")
	for state, n := range byState {
		add(accounts, float64(n), string(state))
	}
	open, err := c.deps.Attempts.CountOpen(ctx)
	check(err, "connect attempts")
	for state, n := range open {
		add(attempts, float64(n), string(state))
	}
	groups, err := c.deps.Jobs.CountOpen(ctx)
	check(err, "jobs")
	for of, n := range groups {
		add(jobs, float64(n), of.Kind, string(of.State))
	}
	plans, err := c.deps.Orgs.CountUnlisted(ctx)
	check(err, "plans")
	for plan, n := range plans {
		add(unlisted, float64(n), string(plan))
	}
	c.warnOfPlans(ctx, plans)
	if events, oldest, err := c.deps.Outbox.Backlog(ctx); check(err, "the outbox") {
		add(outboxEvents, float64(events))
		add(outboxAge, oldest.Seconds())
	}
	check(c.countTasks(ctx, add), "tasks")
	c.last.Store(&list)
	return errors.Join(failed...)
}

// warnOfPlans logs a plan when it is found to be missing, and not again until it was there.
func (c *Census) warnOfPlans(ctx context.Context, missing map[org.Plan]int64) {
	for plan, orgs := range missing {
		if !c.warned[plan] {
			c.deps.Log.LogAttrs(ctx, slog.LevelWarn, "organisations have a plan that is not offered any more; they have the limits of the plan sandbox",
				slog.String(logkey.Plan, string(plan)), slog.Int64(logkey.Orgs, orgs))
		}
		c.warned[plan] = true
	}
	maps.DeleteFunc(c.warned, func(plan org.Plan, _ bool) bool { return missing[plan] == 0 })
}

// Describe implements prometheus.Collector.
func (c *Census) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{accounts, attempts, jobs, tasks, unlisted, outboxEvents, outboxAge} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Census) Collect(to chan<- prometheus.Metric) {
	if last := c.last.Load(); last != nil {
		for _, m := range *last {
			to <- m
		}
	}
}
