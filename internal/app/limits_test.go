package app_test

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagedoor/stagedoor/internal/app"
	"github.com/stagedoor/stagedoor/internal/test/must"
)

// A caller cannot hold a connection by sending slowly, nor memory by sending long headers.
func TestServersBoundRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, every string
		status       int // of the response; 0 if the connection is closed without one
		after        time.Duration
	}{
		"headers that do not end": {"GET / HTTP/1.1\r\nHost: x\r\n", "X-A: b\r\n", 0, 5 * time.Second},
		"a body that does not end": {
			"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n", "b", http.StatusRequestTimeout, 15 * time.Second,
		},
		"long headers": {
			"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + strings.Repeat("x", 32<<10) + "\r\n\r\n", "",
			http.StatusRequestHeaderFieldsTooLarge, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				status, took := hold(t, c.first, c.every)
				if status != c.status || took != c.after {
					t.Errorf("status %d after %s, want %d after %s", status, took, c.status, c.after)
				}
			})
		})
	}
}

// hold sends a text, and then a piece every second until the connection is closed or answered. It returns the status of
// the response, and the time that it took.
func hold(t *testing.T, first, every string) (status int, took time.Duration) {
	t.Helper()
	near, far := net.Pipe()
	line := newOneConn(far)
	server := app.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
		}
	}), slog.New(slog.DiscardHandler))
	var work sync.WaitGroup
	work.Go(func() { _ = server.Serve(line) })
	start := time.Now()
	work.Go(func() {
		for text := first; ; text = every {
			if _, err := io.WriteString(near, text); err != nil {
				return
			}
			<-time.After(time.Second)
		}
	})
	res, err := http.ReadResponse(bufio.NewReader(near), nil)
	took = time.Since(start)
	if err == nil {
		status = res.StatusCode
		must.OK(t, res.Body.Close())
	} else if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	_ = near.Close()
	_ = server.Close()
	work.Wait()
	<-time.After(time.Second) // net/http keeps a refused connection open for a moment, so that the caller reads the response
	return status, took
}

// oneConn is a listener with one connection.
type oneConn struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newOneConn(conn net.Conn) *oneConn {
	l := &oneConn{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conns <- conn
	return l
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (*oneConn) Addr() net.Addr { return &net.TCPAddr{} }
