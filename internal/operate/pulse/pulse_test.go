package pulse_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/operate/fleet"
	"github.com/stagedoor/stagedoor/internal/operate/pulse"
	"github.com/stagedoor/stagedoor/internal/operate/switches"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// node is a node whose metrics a test sets.
type node struct {
	*pulse.Pulse
	registry                  *prometheus.Registry
	requests, failures, lost  *prometheus.CounterVec
	overhead, arrival, waits  *prometheus.HistogramVec
	lag, backlog, all, usable *prometheus.GaugeVec
	down                      map[string]string
	fleet                     *fleet.Fleet
}

func newNode(t *testing.T, db pulse.Deps, name string, now *time.Time) *node {
	t.Helper()
	n := &node{registry: prometheus.NewRegistry(), fleet: db.Fleet, down: map[string]string{}}
	counter := func(name string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name}, labels)
		n.registry.MustRegister(c)
		return c
	}
	gauge := func(name string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name}, labels)
		n.registry.MustRegister(g)
		return g
	}
	histogram := func(name string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Buckets: buckets}, labels)
		n.registry.MustRegister(h)
		return h
	}
	n.requests = counter("stagedoor_http_requests_total", "face", "status")
	n.failures = counter("stagedoor_http_failures_total", "face", "code")
	n.lost = counter("stagedoor_ingest_dead_letters_total")
	n.overhead = histogram("stagedoor_http_overhead_seconds", []float64{.01, .1, 1}, "face")
	n.arrival = histogram("stagedoor_listener_event_seconds", []float64{1, 15, 60})
	n.waits = histogram("stagedoor_webhook_wait_seconds", []float64{1, 15, 60})
	n.lag, n.backlog = gauge("stagedoor_ingest_lag_seconds"), gauge("stagedoor_webhook_backlog")
	n.all, n.usable = gauge("stagedoor_egress_proxies", "region"), gauge("stagedoor_egress_proxies_healthy", "region")
	db.Node, db.Metrics, db.Log = name, n.registry, slog.New(slog.DiscardHandler)
	db.Down = func(context.Context) map[string]string { return n.down }
	db.Now = func() time.Time { return *now }
	n.Pulse = pulse.New(db)
	return n
}

func (n *node) answer(ok, failed int) {
	n.requests.WithLabelValues("public", "200").Add(float64(ok))
	n.requests.WithLabelValues("public", "500").Add(float64(failed))
	n.failures.WithLabelValues("public", "internal").Add(float64(failed))
}

// newFleet returns two nodes that share a database, and their clock.
func newFleet(t *testing.T) (a, b *node, now *time.Time) {
	t.Helper()
	db := testenv.Postgres(t)
	at := time.Date(2026, 11, 19, 23, 58, 7, 0, time.UTC)
	now = &at
	clock := func() time.Time { return *now }
	log := slog.New(slog.DiscardHandler)
	member := func(name string) *fleet.Fleet {
		f := fleet.New(fleet.Deps{DB: db, Log: log, Now: clock, Self: fleet.Node{ID: name, Name: name, Roles: []string{"api", "worker", "listener"}}})
		must.OK(t, f.Beat(t.Context()))
		return f
	}
	control := switches.New(switches.Deps{DB: db, Log: log, Now: clock})
	a = newNode(t, pulse.Deps{DB: db, Fleet: member("a"), Switches: control}, "a", now)
	b = newNode(t, pulse.Deps{DB: db, Fleet: member("b"), Switches: control}, "b", now)
	return a, b, now
}

// Each node stores what it counted since its last minute. Failures of platforms and of other listeners are not failures of
// the service.
func TestNodesStoreWhatTheyCounted(t *testing.T) {
	t.Parallel()
	a, b, now := newFleet(t)
	a.answer(90, 10)
	a.requests.WithLabelValues("public", "502").Add(5)
	a.failures.WithLabelValues("public", "upstream/unavailable").Add(5)
	a.requests.WithLabelValues("admin", "500").Add(7)
	a.failures.WithLabelValues("admin", "internal").Add(7)
	for _, seconds := range []float64{.005, .05, .5} {
		a.overhead.WithLabelValues("public").Observe(seconds)
	}
	a.overhead.WithLabelValues("admin").Observe(.5)
	a.arrival.WithLabelValues().Observe(20)
	a.waits.WithLabelValues().Observe(2)
	a.lag.WithLabelValues().Set(3.5)
	a.backlog.WithLabelValues().Set(4)
	a.all.WithLabelValues("us").Set(2)
	a.usable.WithLabelValues("us").Set(1)
	a.down["redis"] = "not responding"
	must.OK(t, a.Store(t.Context()))
	b.answer(100, 0)
	must.OK(t, b.Store(t.Context()))
	*now = now.Add(time.Minute)
	a.answer(10, 0)
	a.lost.WithLabelValues().Add(2)
	must.OK(t, a.Store(t.Context()))

	must.OK(t, a.fleet.Beat(t.Context()))
	must.OK(t, b.fleet.Beat(t.Context()))
	f, err := a.Facts(t.Context(), time.Hour)
	must.OK(t, err)
	if len(f.Minutes) != 3 || len(f.Live) != 2 {
		t.Fatalf("%d minutes of %d nodes", len(f.Minutes), len(f.Live))
	}
	first, second := f.Minutes[0], f.Minutes[2]
	want := map[string]pulse.Ratio{
		pulse.Availability: {Good: 95, Total: 105}, pulse.Overhead: {Good: 2, Total: 3}, pulse.Arrival: {Good: 0, Total: 1}, pulse.Delivery: {Good: 1, Total: 1},
	}
	for name, r := range want {
		if first.Met[name] != r {
			t.Errorf("%s: %v, want %v", name, first.Met[name], r)
		}
	}
	if first.Node != "a" || first.Lag != 3.5 || first.Backlog != 4 || first.Down["redis"] == "" || first.Regions["us"] != (pulse.Proxies{Healthy: 1, All: 2}) {
		t.Errorf("the first minute of a: %+v", first)
	}
	if r := second.Met[pulse.Availability]; r != (pulse.Ratio{Good: 10, Total: 10}) || second.Incidents[pulse.DeadLetters] != 2 || len(second.Overhead) != 0 {
		t.Errorf("the second minute of a: %+v", second)
	}
	days, err := b.Days(t.Context(), 30)
	must.OK(t, err)
	var all pulse.Ratio
	for _, d := range days {
		if d.Objective == pulse.Availability {
			all = all.Plus(d.Ratio)
		}
	}
	if all != (pulse.Ratio{Good: 205, Total: 215}) {
		t.Errorf("the days have %v", all)
	}
	chart := pulse.Chart(f.Minutes, f.Now, 3*time.Minute, 60)
	if len(chart) != 60 || chart[59].Requests+chart[58].Requests != 215 || chart[59].Failed+chart[58].Failed != 10 || max(chart[58].P95, chart[59].P95) != 1 {
		t.Errorf("the chart ends with %+v", chart[58:])
	}
}

// What a node counted twice within a minute, or could not store, is part of its next minute.
func TestNothingCountedIsForgottenOrCountedTwice(t *testing.T) {
	t.Parallel()
	a, _, now := newFleet(t)
	a.answer(10, 0)
	must.OK(t, a.Store(t.Context()))
	a.answer(5, 0)
	must.OK(t, a.Store(t.Context()))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	*now = now.Add(time.Minute)
	if err := a.Store(cancelled); err == nil {
		t.Error("stored with a cancelled context")
	}
	a.answer(1, 0)
	must.OK(t, a.Store(t.Context()))
	f, err := a.Facts(t.Context(), time.Hour)
	must.OK(t, err)
	if len(f.Minutes) != 2 || f.Minutes[0].Met[pulse.Availability].Total != 10 || f.Minutes[1].Met[pulse.Availability].Total != 6 {
		t.Errorf("the minutes: %+v", f.Minutes)
	}
	days, err := a.Days(t.Context(), 1)
	must.OK(t, err)
	if len(days) != 1 || days[0].Total != 16 {
		t.Errorf("the days: %+v", days)
	}
}

// Minutes are kept for two days, days for 90.
func TestOldRowsAreDeleted(t *testing.T) {
	t.Parallel()
	a, _, now := newFleet(t)
	count := func() (minutes, days int) {
		f, err := a.Facts(t.Context(), 1000*24*time.Hour)
		must.OK(t, err)
		list, err := a.Days(t.Context(), 1000)
		must.OK(t, err)
		return len(f.Minutes), len(list)
	}
	store := func() {
		a.answer(1, 0)
		must.OK(t, a.Store(t.Context()))
	}
	store()
	*now = now.Add(47 * time.Hour)
	store()
	if minutes, days := count(); minutes != 2 || days != 2 {
		t.Errorf("after 47 hours: %d minutes, %d days", minutes, days)
	}
	*now = now.Add(2 * time.Hour)
	store()
	if minutes, days := count(); minutes != 2 || days != 3 {
		t.Errorf("after 49 hours: %d minutes, %d days", minutes, days)
	}
	*now = now.Add(90 * 24 * time.Hour)
	store()
	if minutes, days := count(); minutes != 1 || days != 1 {
		t.Errorf("after 92 days: %d minutes, %d days", minutes, days)
	}
}
