package bench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// BenchmarkGatewayCold makes calls on many accounts, few of which are used often (Zipf), and counts the transactions that
// PostgreSQL carries out for them. BENCH_ACCOUNTS sets the number of accounts, a multiple of gatewayOrgs. The first part calls each account once on a
// node that has never seen it; the second one measures the steady state and compares its latency with that of calls on a few
// accounts.
func BenchmarkGatewayCold(b *testing.B) {
	accounts, perSecond := benchNumber(b, "BENCH_ACCOUNTS", 10_000), benchNumber(b, "BENCH_RATE", 500)
	g := newGateway(b, accounts, 2)
	db, err := postgres.Open(b.Context(), postgres.Config{URL: g.database, MaxConns: 1, Name: "bench"})
	must.OK(b, err)
	defer db.Close()
	transactions := func() (n float64) {
		b.Helper()
		time.Sleep(2 * time.Second) // backends report their counters once a second
		must.OK(b, db.Pool().QueryRow(b.Context(), "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&n))
		return n
	}
	l := g.loads()[0]
	requests := make([][]byte, accounts)
	for n := range requests {
		requests[n] = l.ours(n)
	}
	// perCall returns how many transactions a call costs, without those that nodes make anyway.
	perCall := func(calls int, make func()) float64 {
		b.Helper()
		before, began := transactions(), time.Now()
		make()
		during := time.Since(began) + 2*time.Second
		after := transactions()
		time.Sleep(during)
		idle := transactions() - after
		return max(after-before-idle*during.Seconds()/(during.Seconds()+2), 0) / float64(calls)
	}
	other := target{name: "other node", address: strings.TrimPrefix(g.nodes[1].URL, "http://")}
	first := perCall(accounts, func() {
		paceWith(b, other, gatewayClients, l.size, perSecond, time.Duration(accounts)*time.Second/time.Duration(perSecond), func(n int) []byte { return requests[n] })
	})
	order := rand.Perm(accounts)
	zipf := func(n int) []byte {
		r := rand.New(rand.NewPCG(1, uint64(n)))
		return requests[order[rand.NewZipf(r, 1.07, 8, uint64(accounts-1)).Uint64()]]
	}
	const lasting = 60 * time.Second
	paceWith(b, g.ours, gatewayClients, l.size, perSecond, lasting, zipf)
	if b.Failed() {
		b.FailNow()
	}
	var cold, hot []time.Duration
	steady := perCall(int(lasting.Seconds())*perSecond, func() { cold = paceWith(b, g.ours, gatewayClients, l.size, perSecond, lasting, zipf) })
	hot = paceWith(b, g.ours, gatewayClients, l.size, perSecond, lasting, func(n int) []byte { return requests[n%gatewayAccounts] })
	slices.Sort(cold)
	slices.Sort(hot)
	p99 := func(list []time.Duration) float64 { return list[len(list)*99/100].Seconds() * 1000 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(first, "trips/first-call")
	b.ReportMetric(steady, "trips/call")
	b.ReportMetric(p99(hot), "ms-p99-hot")
	b.ReportMetric(p99(cold), "ms-p99")
	b.ReportMetric(p99(cold)/p99(hot), "x-hot")
}

// BenchmarkGatewaySlowPlatform lets callers arrive at a fresh node at a steady rate while the platform takes 300 ms for each
// answer. No call should be refused after the first 10 seconds.
func BenchmarkGatewaySlowPlatform(b *testing.B) {
	perSecond := benchNumber(b, "BENCH_RATE", 1500)
	g := newGateway(b, 2*gatewayAccounts, 1, "BENCH_LATENCY=300ms")
	l := g.loads()[0]
	requests := make([][]byte, len(g.accounts))
	for n := range requests {
		requests[n] = l.ours(n)
	}
	refused := func(during time.Duration) (calls, refused int) {
		calls = int(during.Seconds() * float64(perSecond))
		return calls, g.paceTolerant(b, perSecond, calls, requests)
	}
	opening, inOpening := refused(10 * time.Second)
	after, inAfter := refused(20 * time.Second)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*float64(inOpening)/float64(opening), "%-refused-10s")
	b.ReportMetric(100*float64(inAfter)/float64(after), "%-refused-after")
	b.ReportMetric(float64(perSecond), "req/s")
}

// paceTolerant makes calls at a steady rate on as many connections as are in progress, and returns how many were refused with
// 503.
func (g *gateway) paceTolerant(b *testing.B, perSecond, calls int, requests [][]byte) (refused int) {
	b.Helper()
	clients := perSecond / 2 // each call takes 0.3 s, so a connection can make three a second
	results := make(chan error, calls)
	began := time.Now()
	for i := range clients {
		c := newClient(b, g.ours.address)
		go func() {
			defer c.conn.Close()
			for n := i; n < calls; n += clients {
				time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(perSecond))))
				results <- c.call(requests[n%len(requests)], 100)
			}
		}()
	}
	for range calls {
		if err := <-results; err != nil {
			if !strings.HasPrefix(err.Error(), "HTTP/1.1 503") {
				b.Fatal(err)
			}
			refused++
		}
	}
	return refused
}

func benchNumber(b *testing.B, name string, usual int) int {
	b.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		b.Fatal(fmt.Errorf("%s: %w", name, err))
	}
	return n
}
