package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/metric"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// The metrics of a pool show how many connections there are, and the waits for one.
func TestPoolMetrics(t *testing.T) {
	t.Parallel()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: secret.New(testenv.Postgres(t).Pool().Config().ConnString()), MaxConns: 1, Name: "test"})
	must.OK(t, err)
	t.Cleanup(db.Close)
	registry := prometheus.NewRegistry()
	registry.MustRegister(postgres.Metrics(map[string]*postgres.DB{"main": db}))
	value := func(name string, labels ...string) float64 {
		t.Helper()
		return metric.Value(t, registry, "stagedoor_postgres_"+name, append(labels, "pool", "main")...)
	}
	for deadline := time.Now().Add(time.Minute); value("waits_total") == 0; {
		if time.Now().After(deadline) {
			t.Fatal("no wait was counted")
		}
		conn, err := db.Pool().Acquire(t.Context())
		must.OK(t, err)
		if inUse, most := value("connections", "state", "in_use"), value("connections_max"); inUse != 1 || most != 1 {
			t.Fatalf("%v of %v connections are in use", inUse, most)
		}
		done := make(chan error, 1)
		go func() {
			done <- db.Pool().AcquireFunc(t.Context(), func(*pgxpool.Conn) error { return nil })
		}()
		select { // a slow machine starts the goroutine after the release, and then there was no wait
		case err := <-done:
			t.Fatalf("a second connection was opened: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		conn.Release()
		must.OK(t, <-done)
	}
	if value("wait_seconds_total") <= 0 {
		t.Error("the wait took no time")
	}
}
