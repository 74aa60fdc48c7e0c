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
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// noon is the start time of the tests' clocks.
var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// handClock is a clock that a test moves.
type handClock struct{ nanos atomic.Int64 }

func newClock() *handClock {
	c := &handClock{}
	c.set(noon)
	return c
}

func (c *handClock) now() time.Time       { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *handClock) set(at time.Time)     { c.nanos.Store(at.UnixNano()) }
func (c *handClock) move(d time.Duration) { c.nanos.Add(int64(d)) }

// noTicker never ticks.
func noTicker(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

// newJournal returns a journal that writes only when the test calls Flush.
func newJournal(db *postgres.DB, c *handClock) *requestlog.Journal {
	j, _ := newMeasuredJournal(db, c)
	return j
}

// newMeasuredJournal also returns the registry of the journal's metrics.
func newMeasuredJournal(db *postgres.DB, c *handClock) (*requestlog.Journal, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	if db != nil {
		db = db.WithClock(c.now)
	}
	return requestlog.New(requestlog.Deps{
		DB: db, Ticker: noTicker, Registry: registry, Log: slog.New(slog.DiscardHandler), Now: c.now, SettleTimeout: time.Minute,
	}), registry
}

// startJournal returns a journal that runs until the test ends. It writes when it is read.
func startJournal(t testing.TB, db *postgres.DB, c *handClock) *requestlog.Journal {
	t.Helper()
	j := newJournal(db, c)
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

// success returns a successful request.
func success(org id.Org, at time.Time) requestlog.Entry {
	return requestlog.Entry{
		Org: org, At: at, Request: id.New[id.Request](), Key: "key_1", Operation: "getMe", Verb: "GET", Status: 200, Took: time.Millisecond,
	}
}

// unlimited returns a reader without limits.
func unlimited(org id.Org) requestlog.Reader { return requestlog.Reader{Org: org, Days: -1} }

// allPages reads all pages.
func allPages(t testing.TB, j *requestlog.Journal, r requestlog.Reader, f requestlog.Filter, limit int) []requestlog.Entry {
	t.Helper()
	var (
		all   []requestlog.Entry
		after requestlog.Position
	)
	for {
		found, next, err := j.Page(t.Context(), r, f, after, limit)
		must.OK(t, err)
		all = append(all, found...)
		if next.At.IsZero() {
			return all
		}
		after = next
	}
}

func countRows(t testing.TB, db *postgres.DB, where string, args ...any) (n int) {
	t.Helper()
	must.OK(t, db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM request_log WHERE "+where, args...).Scan(&n))
	return n
}

// faultyLink forwards connections to a database and can be cut.
type faultyLink struct {
	to    string
	mu    sync.Mutex
	conns map[net.Conn]bool
	cut   bool
	// swallow breaks the connection once instead of forwarding the confirmation of a COPY.
	swallow   atomic.Bool
	swallowed chan struct{}
}

func openThroughLink(t testing.TB, database secret.String) (*postgres.DB, *faultyLink) {
	t.Helper()
	address, err := url.Parse(database.Reveal())
	must.OK(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	l := &faultyLink{to: address.Host, conns: map[net.Conn]bool{}, swallowed: make(chan struct{})}
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
	must.OK(t, err)
	t.Cleanup(func() {
		_ = listener.Close()
		l.setCut(true)
		db.Close()
	})
	return db, l
}

// setCut cuts or restores the link. Either way it closes all connections.
func (l *faultyLink) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	for conn := range l.conns {
		_ = conn.Close()
	}
	clear(l.conns)
}

func (l *faultyLink) serve(near net.Conn) {
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
