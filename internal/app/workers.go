package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/retention"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// connectWorkers bounds the concurrent sign-ins of a node. They wait for platforms most of the time.
const connectWorkers = 50

// addRetention adds the deletion of what organisations have beyond the days of their plan.
func addRetention(n *Node, t tenants, ev events, d delivery) {
	eventDays := func(l org.Limits) int { return l.EventRetentionDays }
	sweeper := retention.New(retention.Deps{Orgs: t.orgs, Log: n.log, Tables: []retention.Table{
		{Name: "event", Days: eventDays, Trim: ev.store.Trim},
		{Name: "request_log", Days: eventDays, Trim: t.requestLog.Trim},
		{Name: "webhook_delivery", Days: func(l org.Limits) int { return l.DeliveryRetentionDays }, Trim: d.webhooks.Trim},
		{Name: "usage_hour", Days: func(org.Limits) int { return usage.HourDays }, Trim: t.usage.RollUp},
	}})
	n.loop("retention", sweeper.Run)
}

// addWorkers adds the client that runs jobs, and the removal of expired rows.
func addWorkers(n *Node, eng engines, t tenants, a accounts) error {
	workers := river.NewWorkers()
	org.Register(workers, t.limits)
	connect.Register(workers, a.connects)
	jobs, err := river.NewClient(riverpgxv5.New(eng.db.Pool()), &river.Config{
		Workers: workers, Logger: quiet(n.log), ID: n.process,
		Queues: map[string]river.QueueConfig{
			river.QueueDefault: {MaxWorkers: 10}, connect.Queue: {MaxWorkers: connectWorkers},
		},
		// A step whose worker crashed is resumed from its row long before; this only cleans up the queue.
		RescueStuckJobsAfter: 5 * time.Minute,
	})
	if err != nil {
		return fmt.Errorf("set up workers: %w", err)
	}
	n.loop("jobs", func(ctx context.Context) error { return runJobs(ctx, jobs, n.log) })
	n.loop("sweep", func(ctx context.Context) error { return sweep(ctx, t, a, n.log) })
	return nil
}

// runJobs runs jobs until the context ends; jobs in progress finish first.
func runJobs(ctx context.Context, jobs *river.Client[pgx.Tx], log *slog.Logger) error {
	for {
		err := jobs.Start(context.WithoutCancel(ctx))
		if err == nil {
			break
		}
		// The database is down. The node is not ready, and starts its workers when the database is back.
		log.LogAttrs(ctx, slog.LevelWarn, "workers not started", slog.Any(logkey.Error, err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := jobs.Stop(stop); err != nil {
		return fmt.Errorf("stop workers: %w", err)
	}
	return nil
}

const (
	// sweepEvery is the interval at which expired rows are removed.
	sweepEvery = 5 * time.Second
	// thresholdEvery is the interval at which usage thresholds are checked.
	thresholdEvery = time.Minute
)

// sweep ends expired hosted sessions, deletes expired idempotency keys and browser sessions, and announces usage
// thresholds.
func sweep(ctx context.Context, t tenants, a accounts, log *slog.Logger) error {
	tick, hint := time.NewTicker(sweepEvery), time.NewTicker(thresholdEvery)
	defer tick.Stop()
	defer hint.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			_, err = a.sessions.Sweep(ctx)
		case <-hint.C:
			err = errors.Join(t.limits.AnnounceThresholds(ctx, t.orgs, t.outbox), t.members.Trim(ctx))
		}
		if err == nil {
			_, err = t.idempotency.Trim(ctx)
		}
		if err != nil && ctx.Err() == nil {
			log.LogAttrs(ctx, slog.LevelWarn, "cannot sweep old rows", slog.Any(logkey.Error, err))
		}
	}
}
