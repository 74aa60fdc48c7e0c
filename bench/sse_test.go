package bench

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/engine/pubsub"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
	"github.com/stagedoor/stagedoor/internal/vault/seal/sealtest"
)

// Load of the stream benchmarks. BENCH_STREAMS is the number of held connections, BENCH_ROUND how long events are sent.
const (
	sseStreams = 10_000
	// sseReaders connections, spread over sseAccounts accounts, receive events in batches of one account.
	sseReaders  = 1000
	sseAccounts = 100
	sseBatch    = 10
	ssePayload  = 600
	sseRounds   = 3
)

// sseFixture holds the engines of both servers and writes events.
type sseFixture struct {
	env   []string
	store *event.Store
	bus   *pubsub.Bus
	org   id.Org
	seqs  map[string]int64
	data  []byte
}

func newSSEFixture(b *testing.B) *sseFixture {
	b.Helper()
	raiseFileLimit()
	natsURL, redisURL, database := testenv.NATS(b), testenv.Redis(b), testenv.DatabaseURL(b)
	db, err := postgres.Open(b.Context(), postgres.Config{URL: database, MaxConns: 4, Name: "bench"})
	must.OK(b, err)
	b.Cleanup(db.Close)
	r := &sseFixture{org: testenv.AddOrg(b, db), seqs: map[string]int64{}, data: []byte(`{"text":"` + strings.Repeat("x", ssePayload) + `"}`)}
	r.store = event.New(event.Deps{DB: db, Sealer: sealtest.NewMemory(), Seals: sealtest.Always, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	r.bus, err = pubsub.Open(pubsub.Config{URL: natsURL, Name: "bench"})
	must.OK(b, err)
	b.Cleanup(r.bus.Close)
	r.env = []string{"BENCH_DATABASE=" + database.Reveal(), "BENCH_REDIS=" + redisURL.Reveal(), "BENCH_NATS=" + natsURL.Reveal(), "BENCH_ORG=" + string(r.org)}
	return r
}

// commit stores a batch of events for each source and publishes them, as ingest does.
func (r *sseFixture) commit(b *testing.B, sources []string) {
	b.Helper()
	var batch event.Batch
	for _, source := range sources {
		for range sseBatch {
			r.seqs[source]++
			s := event.Stored{Org: r.org, Source: source, Seq: r.seqs[source], At: time.Now().UTC(), ID: id.New[id.Event](), Kind: "message"}
			s.Body = event.AppendEnvelope(nil, &event.Envelope{ID: s.ID, Kind: s.Kind, Account: source, At: s.At, Seq: s.Seq, Data: r.data})
			batch.Events = append(batch.Events, event.NewEvent{Stored: s})
		}
		batch.Heads = append(batch.Heads, event.HeadRow{Org: r.org, Source: source, Head: event.Head{LastSeq: r.seqs[source], LastAt: time.Now()}})
	}
	tx, err := r.store.Commit(b.Context(), &batch)
	must.OK(b, err)
	for i := 0; i < len(batch.Events); i += sseBatch {
		var payload []byte
		for j := range sseBatch {
			batch.Events[i+j].Tx = tx
			payload = event.AppendLive(payload, &batch.Events[i+j].Stored)
		}
		must.OK(b, r.bus.Publish(event.LiveSubject(r.org, batch.Events[i].Source), payload))
	}
}

// crowd is a set of connections that count the events they receive.
type crowd struct {
	conns  []net.Conn
	events atomic.Int64
	broken atomic.Int64
}

// join opens n connections, some concurrently, and assigns the accounts to them in turn.
func join(b *testing.B, address string, n int, accounts []string) *crowd {
	b.Helper()
	c := &crowd{conns: make([]net.Conn, n)}
	b.Cleanup(c.leave)
	var at atomic.Int64
	var dialling sync.WaitGroup
	for range 32 {
		dialling.Go(func() {
			for {
				i := int(at.Add(1)) - 1
				if i >= n {
					return
				}
				conn, err := net.Dial("tcp", address)
				if err != nil {
					b.Error(err)
					return
				}
				c.conns[i] = conn
				fmt.Fprintf(conn, "GET /v1/accounts/%s/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nAccept: text/event-stream\r\nUser-Agent: bench\r\n\r\n", accounts[i%len(accounts)])
				ready := make(chan struct{})
				go c.read(conn, ready)
				<-ready
			}
		})
	}
	dialling.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return c
}

// read counts the events of a connection and closes ready when the ready event arrives.
func (c *crowd) read(conn net.Conn, ready chan struct{}) {
	var buf []byte
	tail := 0
	mark := []byte("\nevent: message\n")
	first := true
	for {
		if buf == nil {
			buf = make([]byte, 8<<10)
		}
		n, err := conn.Read(buf[tail:])
		if err != nil {
			c.broken.Add(1)
			if first {
				close(ready)
			}
			return
		}
		text := buf[:tail+n]
		if first && bytes.Contains(text, []byte("event: ready")) {
			first = false
			close(ready)
		}
		c.events.Add(int64(bytes.Count(text, mark)))
		tail = copy(buf, text[max(0, len(text)-len(mark)+1):])
	}
}

func (c *crowd) leave() {
	for _, conn := range c.conns {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

func someAccounts(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = string(id.New[id.Account]())
	}
	return list
}

func collect(b *testing.B, address string) {
	b.Helper()
	res, err := http.Get("http://" + address + "/gc")
	must.OK(b, err)
	_ = res.Body.Close()
}

// BenchmarkSSEHeld measures the memory and CPU time of idle streams, each with its own account and all of one account.
func BenchmarkSSEHeld(b *testing.B) {
	n := sseStreams
	if given, err := strconv.Atoi(os.Getenv("BENCH_STREAMS")); err == nil {
		n = given
	}
	for _, shape := range []struct {
		name     string
		accounts int
	}{{"own-account", n}, {"one-account", 1}} {
		for _, server := range []string{"streams", "bare streams"} {
			b.Run(shape.name+"/"+server, func(b *testing.B) {
				r := newSSEFixture(b)
				address, pid := startPeer(b, server, measuredCore, r.env...)
				pin(b, os.Getpid())
				join(b, address, 10, someAccounts(10)) // exclude what is allocated only once
				collect(b, address)
				before := rss(b, pid)
				began := time.Now()
				c := join(b, address, n, someAccounts(shape.accounts))
				opened := time.Since(began)
				<-time.After(20 * time.Second) // one heartbeat on each connection
				natural, cpu := rss(b, pid), processCPU(b, pid)
				<-time.After(15 * time.Second)
				cpu = processCPU(b, pid) - cpu
				collect(b, address)
				settled := rss(b, pid)
				if c.broken.Load() > 0 {
					b.Errorf("%d connections broke", c.broken.Load())
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric((natural-before)/float64(n)/1024, "KB/conn")
				b.ReportMetric((settled-before)/float64(n)/1024, "KB/conn-settled")
				b.ReportMetric(float64(n)/opened.Seconds(), "opened/s")
				b.ReportMetric(cpu.Seconds()*1e6/15/float64(n), "us-cpu/conn/s")
			})
		}
	}
}

// BenchmarkSSEFanOut sends events to many streams as fast as they are received, and counts what arrives.
func BenchmarkSSEFanOut(b *testing.B) {
	during := round(b, 10*time.Second)
	r := newSSEFixture(b)
	type side struct {
		name  string
		pid   int
		crowd *crowd
		sent  int64
	}
	accounts := map[string][]string{}
	var sides []*side
	for _, name := range []string{"streams", "bare streams"} {
		address, pid := startPeer(b, name, measuredCore, r.env...)
		accounts[name] = someAccounts(sseAccounts)
		sides = append(sides, &side{name, pid, join(b, address, sseReaders, accounts[name]), 0})
	}
	pin(b, os.Getpid())
	for i := range sseRounds {
		for _, s := range sides {
			before, cpu, began := s.crowd.events.Load(), processCPU(b, s.pid), time.Now()
			for time.Since(began) < during {
				r.commit(b, accounts[s.name])
				s.sent += sseAccounts * sseBatch * sseReaders / sseAccounts
				// Limit the events in flight, so that the loop loses nothing either.
				for s.sent-s.crowd.events.Load() > 4*sseBatch*sseReaders && time.Since(began) < 2*during {
					<-time.After(time.Millisecond)
				}
			}
			for deadline := time.Now().Add(10 * time.Second); s.crowd.events.Load() < s.sent && time.Now().Before(deadline); {
				<-time.After(time.Millisecond)
			}
			took, got := time.Since(began), s.crowd.events.Load()-before
			cpu = processCPU(b, s.pid) - cpu
			b.Logf("round %d %-8s %9.0f events/s  %6.2f us CPU/event  lost %d", i, s.name, float64(got)/took.Seconds(), cpu.Seconds()*1e6/float64(got), s.sent-s.crowd.events.Load())
			if i == sseRounds-1 {
				unit := strings.ReplaceAll(s.name, " ", "-")
				b.ReportMetric(float64(got)/took.Seconds(), unit+"-events/s")
				b.ReportMetric(cpu.Seconds()*1e6/float64(got), unit+"-us/event")
			}
			s.sent = s.crowd.events.Load()
		}
	}
	b.ReportMetric(0, "ns/op")
}
