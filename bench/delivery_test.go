package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/test/must"
)

// Load of the delivery benchmarks. BENCH_ROUND is how long one side runs at a time. BENCH_FULL=1 uses the full sizes.
const (
	deliveryLanes  = 256
	deliveryRounds = 5
	deliveryWindow = 4096
	// pacedEvents is the number of events per second. It is well below the capacity of the machine, so that latencies
	// show the effect of failing endpoints and not of queues.
	pacedEvents = 1000
)

func full() bool { return os.Getenv("BENCH_FULL") != "" }

// sized returns the number of events: BENCH_EVENTS if set, or else long if BENCH_FULL is set, or else short.
func sized(short, long int) int {
	if n, err := strconv.Atoi(os.Getenv("BENCH_EVENTS")); err == nil {
		return n
	}
	if full() {
		return long
	}
	return short
}

// flow holds the figures of one side, one per round.
type flow struct {
	rate, sender, source, nats, postgres, receiver []float64
}

func (f *flow) add(events int, took time.Duration, c costs, source time.Duration) {
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(events) }
	f.rate = append(f.rate, float64(events)/took.Seconds())
	f.sender = append(f.sender, per(c.node))
	f.source = append(f.source, per(source))
	f.nats = append(f.nats, per(c.nats))
	f.postgres = append(f.postgres, per(c.postgres))
	f.receiver = append(f.receiver, per(c.receiver))
}

func (f *flow) String() string {
	last := len(f.rate) - 1
	return fmt.Sprintf("%7.0f/s  sender %5.1f  source %5.1f  nats %5.1f  postgres %5.1f  receiver %5.1f us/event",
		f.rate[last], f.sender[last], f.source[last], f.nats[last], f.postgres[last], f.receiver[last])
}

func (f *flow) report(b *testing.B, name string) {
	b.Helper()
	b.ReportMetric(median(f.rate), "deliveries/s-"+name)
	b.ReportMetric(median(f.sender), "us-sender-"+name)
	b.ReportMetric(median(f.source), "us-source-"+name)
	b.ReportMetric(median(f.nats), "us-nats-"+name)
	if strings.HasPrefix(name, "ours") {
		b.ReportMetric(median(f.postgres), "us-postgres-"+name)
	}
}

// drive runs a source and waits until all its events were received. It measures from the first event to the last
// request.
func (d *deliveries) drive(b *testing.B, sender int, p plan, f *flow) {
	b.Helper()
	base, before := d.shown.received.Load(), d.costs(b, sender)
	o := d.publish(b, p)
	d.await(b, &d.shown.received, base+int64(o.Published), time.Minute)
	took := time.Duration(d.shown.lastAt.Load() - d.shown.beganAt.Load())
	<-time.After(300 * time.Millisecond) // include the CPU time of asynchronous writes
	f.add(o.Published, took, d.costs(b, sender).since(before), o.CPU)
}

// drain fills the log or the bare stream first and then lets the sender deliver it, so that publishing costs nothing.
// While it fills the log, the node is stopped, for less time than its leases last.
func (d *deliveries) drain(b *testing.B, sender int, bare bool, events int, f *flow) {
	b.Helper()
	base := d.shown.received.Load()
	hold, release := func() { d.shown.hold.Store(1) }, func() { d.shown.hold.Store(0) }
	if !bare {
		hold, release = func() { d.signal(b, sender, syscall.SIGSTOP) }, func() { d.signal(b, sender, syscall.SIGCONT) }
	}
	hold()
	d.publish(b, plan{Bare: bare, Events: events})
	before, began := d.costs(b, sender), time.Now()
	release()
	d.await(b, &d.shown.received, base+int64(events), time.Minute)
	took := time.Unix(0, d.shown.lastAt.Load()).Sub(began)
	<-time.After(300 * time.Millisecond) // include the CPU time of asynchronous writes
	f.add(events, took, d.costs(b, sender).since(before), 0)
}

func (d *deliveries) signal(b *testing.B, pid int, s syscall.Signal) {
	b.Helper()
	must.OK(b, syscall.Kill(pid, s))
}

// BenchmarkDeliveryThroughput compares the full path of an event - batcher, log, store, lane, signatures, POST,
// delivery log, in order per account - with a loop that takes messages of the same size from JetStream, signs them,
// posts them to the same receiver and acknowledges them. Both are measured with their own publishing, where the loop
// waits for the disk once per event, and with a log that was filled before, where the disk does not matter to the loop.
func BenchmarkDeliveryThroughput(b *testing.B) {
	d := newDeliveries(b)
	d.connect(b, deliveryLanes, func(n int) string { return fmt.Sprintf("%s/timed/%d", d.receiver, n) })
	loop := d.startLoop(b, deliveryLanes)
	during := round(b, 4*time.Second)
	var ours, bare, ownFilled, bareFilled flow
	warm := plan{Events: 20_000, Window: deliveryWindow}
	d.drive(b, d.pids.node, warm, &flow{})
	warm.Bare = true
	d.drive(b, loop, warm, &flow{})
	events := 20_000
	for range deliveryRounds {
		inRandomOrder(
			func() {
				d.drive(b, d.pids.node, plan{During: during, Window: deliveryWindow}, &ours)
				b.Logf("ours         %v", &ours)
			},
			func() {
				d.drive(b, loop, plan{Bare: true, During: during, Window: deliveryWindow}, &bare)
				b.Logf("bare         %v", &bare)
			},
			func() {
				d.drain(b, d.pids.node, false, events, &ownFilled)
				b.Logf("ours, filled %v", &ownFilled)
			},
			func() {
				d.drain(b, loop, true, events, &bareFilled)
				b.Logf("bare, filled %v", &bareFilled)
			},
		)
	}
	if d.shown.skipped.Load() > 0 || d.shown.repeated.Load() > 0 {
		b.Errorf("%d skipped, %d repeated", d.shown.skipped.Load(), d.shown.repeated.Load())
	}
	b.ReportMetric(0, "ns/op")
	ours.report(b, "ours")
	bare.report(b, "bare")
	ownFilled.report(b, "ours-filled")
	bareFilled.report(b, "bare-filled")
	b.ReportMetric(median(ours.rate)/median(bare.rate), "x-bare")
	b.ReportMetric(median(ownFilled.rate)/median(bareFilled.rate), "x-bare-filled")
	d.profile(b, "throughput")
}

// profile writes profiles of the node under load.
func (d *deliveries) profile(b *testing.B, name string) {
	b.Helper()
	profile(b, d.node, name, func() { d.drive(b, d.pids.node, plan{During: 8 * time.Second, Window: deliveryWindow}, &flow{}) })
}

// BenchmarkDeliveryIsolation measures the latency of deliveries to healthy endpoints at a steady rate, while the other
// half of the endpoints is healthy as well, refuses connections, hangs, or hangs on the same host as the healthy ones.
func BenchmarkDeliveryIsolation(b *testing.B) {
	const half = deliveryLanes / 2
	d := newDeliveries(b)
	apart, _ := d.startReceiver(b, freeAddress(b))
	dead := "http://" + freeAddress(b)
	urls := []func(n int) string{
		func(n int) string { return fmt.Sprintf("%s/timed/%d", d.receiver, n) },
		func(n int) string { return fmt.Sprintf("%s/other/%d", d.receiver, half+n) },
		func(n int) string { return fmt.Sprintf("%s/dead/%d", dead, n) },
		func(n int) string { return fmt.Sprintf("%s/hang/%d", apart, n) },
		func(n int) string { return fmt.Sprintf("%s/hang/%d", d.receiver, n) },
	}
	for _, url := range urls {
		d.connect(b, half, url)
	}
	names := []string{"healthy", "refused", "hanging", "hanging-same-host"}
	d.paced(b, plan{First: 0, Count: half, Also: half, More: half, During: time.Second, PerSecond: pacedEvents})
	median50, median99, sent99 := map[string][]float64{}, map[string][]float64{}, map[string][]float64{}
	for range 3 {
		for i, name := range names {
			d.shown.stored.reset()
			d.shown.published.reset()
			d.paced(b, plan{First: 0, Count: half, Also: half * (i + 1), More: half, During: 2 * round(b, 4*time.Second), PerSecond: pacedEvents})
			p50, p99 := d.shown.stored.quantile(0.5), d.shown.stored.quantile(0.99)
			median50[name], median99[name] = append(median50[name], p50), append(median99[name], p99)
			sent99[name] = append(sent99[name], d.shown.published.quantile(0.99))
			b.Logf("%-18s stored to received p50 %6.1f p99 %6.1f max %7.1f ms, published to received p50 %6.1f p99 %6.1f ms",
				name, p50, p99, d.shown.stored.quantile(0.9999), d.shown.published.quantile(0.5), d.shown.published.quantile(0.99))
		}
	}
	if d.shown.skipped.Load() > 0 || d.shown.repeated.Load() > 0 {
		b.Errorf("%d skipped, %d repeated", d.shown.skipped.Load(), d.shown.repeated.Load())
	}
	if rows := d.number(b, "SELECT count(*) FROM webhook_lane"); rows != 3*half {
		b.Errorf("%d lanes have a backlog, want %d: the measurement is not valid", rows, 3*half)
	}
	b.ReportMetric(0, "ns/op")
	for _, name := range names {
		b.ReportMetric(median(median50[name]), "ms-p50-"+name)
		b.ReportMetric(median(median99[name]), "ms-p99-"+name)
		b.ReportMetric(median(sent99[name]), "ms-p99-published-"+name)
	}
	limit := median(median99["healthy"])*1.05 + 50
	for _, name := range names[1:] {
		if got := median(median99[name]); got > limit {
			b.Errorf("%s: the p99 of healthy endpoints is %.1f ms, the limit is %.1f ms", name, got, limit)
		}
	}
}

// paced publishes at a steady rate and waits until the events of the healthy half were received. Both halves take
// turns.
func (d *deliveries) paced(b *testing.B, p plan) {
	b.Helper()
	base := d.shown.healthy.Load()
	p.Events, p.InTurn = int(p.During.Seconds()*float64(p.PerSecond)), true
	o := d.publish(b, p)
	cycle := p.Count + p.More
	want := o.Published/cycle*p.Count + min(o.Published%cycle, p.Count)
	d.await(b, &d.shown.healthy, base+int64(want), time.Minute)
}
