package ingest_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/secret"
	"github.com/stagedoor/stagedoor/internal/engine/eventlog"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/test/must"
	"github.com/stagedoor/stagedoor/internal/test/testenv"
)

// forgetfulLink is a link to the database. It drops the answer to the first commit of a transaction that contains a
// marker, and the connection with it.
type forgetfulLink struct {
	url    secret.String
	to     string
	marker []byte
	cut    atomic.Bool
}

func newForgetfulLink(t *testing.T, database secret.String, marker string) *forgetfulLink {
	t.Helper()
	address, err := url.Parse(database.Reveal())
	must.OK(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	l := &forgetfulLink{to: address.Host, marker: []byte(marker)}
	address.Host = listener.Addr().String()
	l.url = secret.New(address.String())
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go l.serve(near)
		}
	}()
	return l
}

func (l *forgetfulLink) serve(near net.Conn) {
	defer near.Close()
	far, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer far.Close()
	var forget atomic.Bool
	go func() {
		answer := make([]byte, 64<<10)
		for {
			n, err := far.Read(answer)
			if err == nil && forget.Load() && bytes.Contains(answer[:n], []byte("COMMIT")) {
				err = io.ErrUnexpectedEOF
			}
			if err == nil {
				_, err = near.Write(answer[:n])
			}
			if err != nil {
				_ = near.Close()
				return
			}
		}
	}()
	request, marked := make([]byte, 64<<10), false
	for {
		n, err := near.Read(request)
		if err != nil {
			return
		}
		marked = marked || bytes.Contains(request[:n], l.marker)
		if marked && bytes.Contains(request[:n], []byte("commit")) && l.cut.CompareAndSwap(false, true) {
			forget.Store(true)
		}
		if _, err := far.Write(request[:n]); err != nil {
			return
		}
	}
}

// If the answer to a commit is lost, streams and webhooks still get its events, once.
func TestEventsOfALostCommitArePublished(t *testing.T) {
	t.Parallel()
	const marker = "lost.commit" // a kind, because contents are sealed
	database := testenv.DatabaseURL(t)
	link := newForgetfulLink(t, database, marker)
	db, err := postgres.Open(t.Context(), postgres.Config{URL: link.url, MaxConns: 4, Name: "test"})
	must.OK(t, err)
	t.Cleanup(db.Close)
	direct, err := postgres.Open(t.Context(), postgres.Config{URL: database, MaxConns: 2, Name: "test"})
	must.OK(t, err)
	t.Cleanup(direct.Close)
	r := newFixtureOn(t, db, eventlog.NewPostgres(direct, eventlog.Config{}))
	a := string(id.New[id.Account]())
	stop := r.node(1, event.Bucket(a))
	defer stop()
	record := r.record(a, 1)
	record.Kind = marker
	r.publish("1", record)
	for over := time.After(2 * time.Minute); ; {
		r.mu.Lock()
		published := len(r.committed)
		r.mu.Unlock()
		if published > 0 {
			break
		}
		select {
		case <-r.changed:
		case <-over:
			t.Fatal("the event was not published")
		}
	}
	if !link.cut.Load() {
		t.Fatal("no commit was lost")
	}
	r.publish("2", r.record(a, 2))
	wantContiguous(t, r.waitForEvents(a, 2), numbers(1, 2))
	stop()
	if len(r.committed) != 2 || r.live[event.LiveSubject(r.org, a)] != 2 || r.committed[0].Tx == 0 {
		t.Fatalf("published %+v, %v", r.committed, r.live)
	}
}
