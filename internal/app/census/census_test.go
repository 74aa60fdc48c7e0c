package census_test

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/accounts/connect"
	"github.com/stagedoor/stagedoor/internal/app/census"
	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/jobs/job"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/test/testenv/accounttest"
)

// The rows of all organisations are counted, and a state without rows is not reported any more.
func TestCount(t *testing.T) {
	t.Parallel()
	f := accounttest.New(t, accounttest.Engines{}, nil)
	db := f.DB
	registry := prometheus.NewRegistry()
	c := census.New(census.Deps{
		DB: db, Orgs: f.Orgs, Accounts: f.Accounts, Attempts: connect.New(connect.Deps{DB: db}), Jobs: job.New(job.Deps{DB: db}), Outbox: f.Outbox,
		Log: slog.New(slog.DiscardHandler),
	})
	registry.MustRegister(c)
	exec := func(sql string) {
		t.Helper()
		_, err := db.Pool().Exec(t.Context(), sql)
		must.OK(t, err)
	}
	for range 2 {
		owner := testenv.AddOrg(t, db)
		for _, table := range []string{"account", "attempt", "job"} {
			testenv.AddRow(t, db, table, owner, id.New[id.Account]())
		}
	}
	exec("UPDATE org SET plan = 'gone' WHERE id = (SELECT max(id) FROM org)")
	exec("UPDATE account SET state = 'active', disconnecting_at = NULL")
	exec("UPDATE attempt SET state = 'running', finished_at = NULL")
	exec("UPDATE job SET kind = 'org_export', state = 'queued', finished_at = NULL")
	exec(`INSERT INTO outbox (org_id, id, account_id, kind, data, at)
		SELECT id, 'evt_' || id, '', 'test', '{"message": "", "requestId": ""}', now() - interval '1 hour' FROM org`)
	exec("INSERT INTO river_job (kind, args, max_attempts, queue, state) VALUES ('x', '{}', 1, 'connect', 'available')")
	count := func(name string, labels ...string) float64 {
		t.Helper()
		return metric.Value(t, registry, "stagedoor_"+name, labels...)
	}
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("%d metrics before the first count, %v", len(families), err)
	}
	must.OK(t, c.Count(t.Context()))
	for _, got := range []struct{ got, want float64 }{
		{count("accounts", "state", "active"), 2},
		{count("connect_attempts_open", "state", "running"), 2},
		{count("jobs_open", "kind", "org_export", "state", "queued"), 2},
		{count("queue_tasks", "queue", "connect", "state", "available"), 1},
		{count("outbox_events"), 2},
		{count("orgs_unlisted_plan", "plan", "gone"), 1},
	} {
		if got.got != got.want {
			t.Errorf("%v; want %v", got.got, got.want)
		}
	}
	if age := count("outbox_oldest_seconds"); age < 3600 || age > 7200 {
		t.Errorf("an event that is an hour old is %v seconds old", age)
	}

	exec("UPDATE account SET state = 'degraded'")
	exec("UPDATE attempt SET finished_at = now()")
	exec("DELETE FROM outbox")
	must.OK(t, c.Count(t.Context()))
	active, degraded, open, age := count("accounts", "state", "active"), count("accounts", "state", "degraded"),
		count("connect_attempts_open", "state", "running"), count("outbox_oldest_seconds")
	if active != 0 || degraded != 2 || open != 0 || age != 0 {
		t.Errorf("%v active, %v degraded, %v open attempts, the empty outbox is %v seconds old", active, degraded, open, age)
	}
}
