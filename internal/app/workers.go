package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/accounts/erasure"
	"github.com/stagedoor/stagedoor/internal/app/census"
	"github.com/stagedoor/stagedoor/internal/app/config"
	"github.com/stagedoor/stagedoor/internal/base/clock"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/delivery/notice"
	"github.com/stagedoor/stagedoor/internal/delivery/usagehook"
	"github.com/stagedoor/stagedoor/internal/engine/logsink"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/jobs/orgexport"
	"github.com/stagedoor/stagedoor/internal/jobs/sdkjob"
	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/platform/egress"
	"github.com/stagedoor/stagedoor/internal/tenant/audit"
	"github.com/stagedoor/stagedoor/internal/tenant/mail"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
	"github.com/stagedoor/stagedoor/internal/tenant/retention"
	"github.com/stagedoor/stagedoor/internal/tenant/usage"
)

// connectWorkers bounds the concurrent sign-ins of a node. They wait for platforms most of the time.
const connectWorkers = 50

// mailWorkers bounds the concurrent connections of a node to the mail server, and its concurrent messages with notices.
const mailWorkers = 4

// jobWorkers bounds the concurrent jobs of a node. Each has about 20 MB of a result in memory.
const jobWorkers = 4

// newSDKJobs returns the kinds of jobs that call methods.
func newSDKJobs(n *Node, t tenants, p platforms, a accounts, c calls) *sdkjob.Kinds {
	return sdkjob.New(sdkjob.Deps{
		Invoke: c.invoker, Accounts: a.accounts, Limits: t.limits, Keys: t.idempotency, Usage: t.usage, Platforms: p.registry,
		ProblemsURL: n.cfg.PublicURL + "/problems", Now: n.clock.Now,
	})
}

// newJobs returns the service for work that is longer than a call.
func newJobs(n *Node, eng engines, t tenants, ev events, d delivery, sdk *sdkjob.Kinds) *job.Jobs {
	export := orgexport.New(orgexport.Deps{
		DB: eng.db, Members: t.members, Audit: t.audit, Webhooks: d.webhooks, Events: ev.store,
	})
	deps := job.Deps{
		Config: job.Config{PublicURL: n.cfg.PublicURL, Process: n.process},
		DB:     eng.db, Orgs: t.orgs, Keys: t.keys, Members: t.members, Audit: t.audit, Outbox: t.outbox, Seal: t.sealer,
		Objects: nil, Queue: eng.jobs, Kinds: append(sdk.All(), export.Kind()), Ticker: clock.Ticker, Log: n.log,
	}
	if eng.objects != nil {
		deps.Objects = eng.objects
	}
	return job.New(deps)
}

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

// fetchEvery returns how often a worker looks for jobs. Without PgBouncer it is notified of them.
func fetchEvery(c config.Config) time.Duration {
	if c.PgBouncer {
		return 200 * time.Millisecond
	}
	return river.FetchPollIntervalDefault
}

// addWorkers adds the client that runs jobs, the removal of expired rows and of deleted organisations, and the anchors of
// the audit log.
func addWorkers(n *Node, p parts) error {
	eng, op, t, a, d, work := p.engines, p.operators, p.tenants, p.accounts, p.delivery, p.jobs
	workers := river.NewWorkers()
	org.Register(workers, t.limits)
	connect.Register(workers, a.connects)
	job.Register(workers, work)
	mail.Register(workers, t.mails)
	notice.Register(workers, d.notices)
	jobs, err := river.NewClient(riverpgxv5.New(eng.db.Pool()), &river.Config{
		Workers: workers, Logger: quiet(n.log), ID: n.process, Middleware: jobTraces(eng.tracer()),
		Queues: map[string]river.QueueConfig{
			river.QueueDefault: {MaxWorkers: 10}, connect.Queue: {MaxWorkers: connectWorkers}, job.Queue: {MaxWorkers: jobWorkers},
			mail.Queue: {MaxWorkers: mailWorkers}, notice.Queue: {MaxWorkers: mailWorkers},
		},
		// A step whose worker crashed is resumed from its row long before; this only cleans up the queue.
		RescueStuckJobsAfter: 5 * time.Minute,
		PollOnly:             n.cfg.PgBouncer, FetchPollInterval: fetchEvery(n.cfg), // notifications need a session
		// None: only the owner of the tables may reindex, and the role of a node owns nothing.
		ReindexerIndexNames: []string{},
	})
	if err != nil {
		return fmt.Errorf("set up workers: %w", err)
	}
	n.loop("jobs", func(ctx context.Context) error { return runJobs(ctx, jobs, n.log) })
	n.loop("work", work.Run)
	n.loop("notices", d.notices.Run)
	counts := census.New(census.Deps{
		DB: eng.db, Orgs: t.orgs, Accounts: a.accounts, Attempts: a.connects, Jobs: work, Outbox: t.outbox, Log: n.log,
	})
	n.registry.MustRegister(counts)
	n.loop("census", counts.Run)
	n.loop("sweep", func(ctx context.Context) error { return sweep(ctx, op, t, a, n.log) })
	n.loop("erasure", erasure.New(erasure.Deps{
		Config: erasure.Config{}, DB: eng.db, Orgs: t.orgs, Accounts: a.accounts, Members: t.members, Seal: t.sealer,
		Objects: eng.objects, Ticker: clock.Ticker, Log: n.log,
	}).Run)
	n.loop("audit", audit.NewKeeper(audit.KeeperDeps{
		DB: eng.db, Audit: t.audit, File: n.cfg.AuditAnchors, CanKey: func() bool { return op.fleet.CanRead(fleet.FormatKeyed) },
		Log: n.log,
	}).Run)
	addUsageWebhook(n, eng, t)
	return addAuditStream(n, eng)
}

// addUsageWebhook adds the webhook that gets the usage of organisations, if there is one.
func addUsageWebhook(n *Node, eng engines, t tenants) {
	if n.cfg.UsageWebhook == "" {
		return
	}
	client := egress.NewDirect(n.cfg.MayBeClear(n.cfg.UsageHost()))
	n.onClose(client.CloseIdleConnections)
	n.loop("usage webhook", usagehook.New(usagehook.Deps{
		DB: eng.db, Orgs: t.orgs, Usage: t.usage, URL: n.cfg.UsageWebhook, Secret: n.cfg.UsageWebhookSecret, Client: client,
		Registry: n.registry, Log: n.log,
	}).Run)
}

// addAuditStream adds the stream of the audit logs to the operators' own collection of logs, if there is one.
func addAuditStream(n *Node, eng engines) error {
	target, err := n.cfg.AuditTarget()
	if err != nil || target.Kind == "" {
		return err
	}
	var roots *x509.CertPool
	if n.cfg.AuditStreamCA != "" {
		text, err := os.ReadFile(n.cfg.AuditStreamCA)
		if err != nil {
			return fmt.Errorf("STAGEDOOR_AUDIT_STREAM_CA_FILE: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return errors.New("STAGEDOOR_AUDIT_STREAM_CA_FILE has no certificate")
		}
	}
	client := egress.NewDirectTrusting(n.cfg.MayBeClear(target.Host), roots)
	n.onClose(client.CloseIdleConnections)
	n.loop("audit stream", audit.NewStreamer(audit.StreamerDeps{
		DB: eng.db, Registry: n.registry, Log: n.log,
		Sink: logsink.New(logsink.Deps{
			Target: target, TokenFile: n.cfg.AuditStreamToken, Client: client,
			Dial: egress.DialDirect(target.Address, target.Encrypted, roots), Host: n.cfg.Node,
		}),
	}).Run)
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
func sweep(ctx context.Context, op operators, t tenants, a accounts, log *slog.Logger) error {
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
			err = errors.Join(t.limits.AnnounceThresholds(ctx, t.orgs, t.outbox), t.members.Trim(ctx), op.people.Trim(ctx), t.mails.Trim(ctx))
		}
		if err == nil {
			_, err = t.idempotency.Trim(ctx)
		}
		if err != nil && ctx.Err() == nil {
			log.LogAttrs(ctx, slog.LevelWarn, "cannot sweep old rows", slog.Any(logkey.Error, err))
		}
	}
}
