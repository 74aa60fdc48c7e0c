package requestlog_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/tenant/requestlog"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// noon is when the tests' clocks start.
var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// handClock is moved by hand.
type handClock struct{ nanos atomic.Int64 }

func newClock() *handClock {
	c := &handClock{}
	c.set(noon)
	return c
}

func (c *handClock) now() time.Time       { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *handClock) set(at time.Time)     { c.nanos.Store(at.UnixNano()) }
func (c *handClock) move(d time.Duration) { c.nanos.Add(int64(d)) }

// silent never ticks.
func silent(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

// idle makes a journal that writes when it is told to.
func idle(db *postgres.DB, c *handClock) *requestlog.Journal {
	if db != nil {
		db = db.WithClock(c.now)
	}
	return requestlog.New(requestlog.Deps{DB: db, Ticker: silent, Log: slog.New(slog.DiscardHandler), Now: c.now, SettleTimeout: time.Minute})
}

// running makes a journal that runs until the test ends, and writes when it is read.
func running(t testing.TB, db *postgres.DB, c *handClock) *requestlog.Journal {
	t.Helper()
	j := idle(db, c)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- j.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return j
}

// plain is a request that went well.
func plain(org id.Org, at time.Time) requestlog.Entry {
	return requestlog.Entry{
		Org: org, At: at, Request: id.New[id.Request](), Key: "key_1", Operation: "getMe", Verb: "GET", Status: 200, Took: time.Millisecond,
	}
}

// everything is a reader without any limit.
func everything(org id.Org) requestlog.Reader { return requestlog.Reader{Org: org, Days: -1} }

// pages reads a whole list.
func pages(t testing.TB, j *requestlog.Journal, r requestlog.Reader, f requestlog.Filter, limit int) []requestlog.Entry {
	t.Helper()
	var (
		all    []requestlog.Entry
		behind requestlog.Position
	)
	for {
		found, next, err := j.Page(t.Context(), r, f, behind, limit)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
		if next.At.IsZero() {
			return all
		}
		behind = next
	}
}

func rows(t testing.TB, db *postgres.DB, where string, args ...any) (n int) {
	t.Helper()
	if err := db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM request_log WHERE "+where, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// metric is the value of a counter or a gauge.
func metric(t testing.TB, j *requestlog.Journal, name, why string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(j.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (why == "" || m.GetLabel()[0].GetValue() == why) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// link is a way to a database that can be cut.
type link struct {
	to    string
	mu    sync.Mutex
	conns map[net.Conn]bool
	cut   bool
	// swallow breaks the connection, once, instead of telling that a COPY has been carried out.
	swallow   atomic.Bool
	swallowed chan struct{}
}

// linked opens a database by way of a link.
func linked(t testing.TB, database secret.String) (*postgres.DB, *link) {
	t.Helper()
	address, err := url.Parse(database.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{to: address.Host, conns: map[net.Conn]bool{}, swallowed: make(chan struct{})}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.serve(conn)
		}
	}()
	address.Host = listener.Addr().String()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: secret.New(address.String()), MaxConns: 4, Name: "linked"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = listener.Close()
		l.setCut(true)
		db.Close()
	})
	return db, l
}

// setCut cuts the link, or mends it.
func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}

func (l *link) serve(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer far.Close()
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return
	}
	l.conns[near], l.conns[far] = true, true
	l.mu.Unlock()
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := far.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte("COPY ")) && l.swallow.CompareAndSwap(true, false) {
			close(l.swallowed)
			return
		}
		if _, err := near.Write(buf[:n]); err != nil {
			return
		}
	}
}

func database(t testing.TB) *postgres.DB {
	t.Helper()
	return testenv.Postgres(t)
}
