package bench

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

// BenchmarkDeliveryBacklog builds up a backlog for an endpoint that refuses connections. It measures what the backlog
// itself costs, apart from the events, which are stored anyway, and how long it takes to deliver it when the endpoint
// is back: in order, and 32 at a time.
func BenchmarkDeliveryBacklog(b *testing.B) {
	events := sized(50_000, 1_000_000)
	d := newDeliveries(b)
	address := freeAddress(b)
	one := d.connect(b, 1, func(int) string { return "http://" + address + "/ordered/0" })[0]
	tables := []string{"webhook_lane", "webhook_errand", "webhook_bucket", "webhook_delivery", "event"}
	before, memory := map[string]int64{}, rss(b, d.pids.node)
	for _, table := range tables {
		before[table] = d.size(b, table)
	}
	began := time.Now()
	d.publish(b, plan{Events: events})
	for deadline := time.Now().Add(10 * time.Minute); d.number(b, "SELECT coalesce(max(last_seq), 0) FROM event_source") < int64(events); <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatal("not all events were stored")
		}
	}
	stored := time.Since(began)
	<-time.After(2 * time.Second) // wait for one or two flushes
	b.Logf("%d events stored in %.1f s, %.0f/s; the node has %.0f MB, %.0f before", events, stored.Seconds(), float64(events)/stored.Seconds(),
		rss(b, d.pids.node)/(1<<20), memory/(1<<20))
	for _, table := range tables {
		b.Logf("%-17s %8d rows, %11d bytes, %11d before", table, d.number(b, "SELECT count(*) FROM "+table), d.size(b, table), before[table])
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(d.number(b, "SELECT count(*) FROM webhook_lane")+d.number(b, "SELECT count(*) FROM webhook_errand")), "backlog-rows")
	b.ReportMetric(float64(d.number(b, "SELECT sum(pg_column_size(l.*)) FROM webhook_lane l")), "backlog-row-bytes")
	b.ReportMetric(float64(d.size(b, "webhook_lane")-before["webhook_lane"]+d.size(b, "webhook_errand")-before["webhook_errand"]), "backlog-table-bytes")
	b.ReportMetric(float64(d.size(b, "event"))/float64(events), "B-event")

	_, d.pids.receiver = d.startReceiver(b, address)
	d.empty(b, events, "strict", func() { d.call(b, one, http.MethodPost, "/resume", map[string]any{}) })
	if d.shown.skipped.Load() > 0 || d.shown.seqs[0].Load() != int64(events) {
		b.Errorf("%d events were skipped; the last sequence number is %d", d.shown.skipped.Load(), d.shown.seqs[0].Load())
	}
	b.ReportMetric(float64(d.shown.repeated.Load()), "repeated")
	d.awaitRows(b, "webhook_lane", 0, time.Minute)
	d.call(b, one, http.MethodPut, "", map[string]any{"url": "http://" + address + "/unordered/0", "ordering": "none", "maxInFlight": 32})
	d.empty(b, events, "none", func() { d.call(b, one, http.MethodPost, "/resume", map[string]any{"from": "0"}) })
	d.awaitRows(b, "webhook_lane", 0, time.Minute)
}

// empty waits until a backlog is delivered.
func (d *deliveries) empty(b *testing.B, events int, name string, begin func()) {
	b.Helper()
	base, costs, began := d.shown.received.Load(), d.costs(b, d.pids.node), time.Now()
	begin()
	d.await(b, &d.shown.received, base+1, time.Minute)
	first := time.Since(began)
	d.await(b, &d.shown.received, base+int64(events), 30*time.Minute)
	took := time.Unix(0, d.shown.lastAt.Load()).Sub(began)
	costs = d.costs(b, d.pids.node).since(costs)
	b.Logf("%-6s first after %.0f ms, all after %.1f s", name, first.Seconds()*1000, took.Seconds())
	b.ReportMetric(took.Seconds(), "s-drain-"+name)
	b.ReportMetric(float64(events)/took.Seconds(), "drained/s-"+name)
	b.ReportMetric(float64(costs.node.Microseconds())/float64(events), "us-sender-"+name)
	b.ReportMetric(float64(costs.postgres.Microseconds())/float64(events), "us-postgres-"+name)
}

// BenchmarkDeliveryScale sends the same number of events with a growing number of accounts, each with a webhook. It
// measures what an event costs: rows and bytes in the database, and CPU time of each process. The first event of each
// account, which reads its webhook and its key, is listed separately.
func BenchmarkDeliveryScale(b *testing.B) {
	events := sized(20_000, 100_000)
	sizes := []int{1000, 10_000}
	if full() {
		sizes = append(sizes, 100_000)
	}
	d := newDeliveries(b)
	have := 0
	b.ReportMetric(0, "ns/op")
	for _, size := range sizes {
		began, from := time.Now(), have
		d.connect(b, size-have, func(n int) string { return fmt.Sprintf("%s/timed/%d", d.receiver, from+n) })
		b.Logf("%d accounts: created in %.0f s", size, time.Since(began).Seconds())
		name := fmt.Sprintf("%dk", size/1000)
		first := d.cost(b, size-have, plan{First: have, Count: size - have, InTurn: true})
		b.Logf("%4s first event: %v", name, first)
		have = size
		d.cost(b, events/10, plan{})
		each := d.cost(b, events, plan{})
		b.Logf("%4s each event:  %v; the node has %.0f MB", name, each, rss(b, d.pids.node)/(1<<20))
		b.ReportMetric(each.rate, "deliveries/s-"+name)
		b.ReportMetric(each.sender, "us-sender-"+name)
		b.ReportMetric(each.postgres, "us-postgres-"+name)
		b.ReportMetric(each.nats, "us-nats-"+name)
		b.ReportMetric(each.rows, "rows-"+name)
		b.ReportMetric(each.bytes, "B-"+name)
		b.ReportMetric(each.wal, "B-wal-"+name)
		d.profile(b, name)
	}
	if d.shown.skipped.Load() > 0 || d.shown.repeated.Load() > 0 {
		b.Errorf("%d skipped, %d repeated", d.shown.skipped.Load(), d.shown.repeated.Load())
	}
}

// share holds the costs per event.
type share struct {
	rate, sender, source, nats, postgres float64
	rows, bytes, eventBytes, wal         float64
	lanes                                int64
}

func (s share) String() string {
	return fmt.Sprintf("%6.0f/s  sender %5.1f  source %4.1f  nats %5.1f  postgres %5.1f us  %.3f rows  %5.0f B (event %5.0f)  %5.0f B of WAL  %d lanes",
		s.rate, s.sender, s.source, s.nats, s.postgres, s.rows, s.bytes, s.eventBytes, s.wal, s.lanes)
}

// cost sends events and returns the costs per event.
func (d *deliveries) cost(b *testing.B, events int, p plan) share {
	b.Helper()
	const (
		rows = `SELECT (SELECT count(*) FROM event) + (SELECT count(*) FROM webhook_delivery) + (SELECT count(*) FROM webhook_lane) +
			(SELECT count(*) FROM webhook_errand) + (SELECT count(*) FROM event_source)`
		wal = `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint`
	)
	tables := []string{"event", "webhook_delivery", "webhook_lane", "webhook_errand", "event_source"}
	size := func() (all, event int64) {
		for _, table := range tables {
			all += d.size(b, table)
		}
		return all, d.size(b, "event")
	}
	p.Events, p.Window = events, deliveryWindow
	beforeRows, beforeWAL := d.number(b, rows), d.number(b, wal)
	beforeAll, beforeEvent := size()
	var f flow
	d.drive(b, d.pids.node, p, &f)
	d.awaitRows(b, "webhook_lane", 0, time.Minute)
	afterAll, afterEvent := size()
	per := func(n int64) float64 { return float64(n) / float64(events) }
	return share{
		rate: f.rate[0], sender: f.sender[0], source: f.source[0], nats: f.nats[0], postgres: f.postgres[0],
		wal: per(d.number(b, wal) - beforeWAL), rows: per(d.number(b, rows) - beforeRows), bytes: per(afterAll - beforeAll), eventBytes: per(afterEvent - beforeEvent),
		lanes: d.number(b, "SELECT count(*) FROM webhook_lane"),
	}
}
