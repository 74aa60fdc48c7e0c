package endpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// sink is the destination of a stream's bytes.
type sink interface {
	send(b []byte, until time.Time) error
}

// responseSink writes to the response of a request whose handler is still running.
type responseSink struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (a responseSink) send(b []byte, until time.Time) error {
	_ = a.control.SetWriteDeadline(until) // A writer without a connection has no deadlines.
	if _, err := a.Write(b); err != nil {
		return err
	}
	return a.control.Flush()
}

// connSink writes to a connection that was hijacked for the stream.
type connSink struct {
	net.Conn
	call *Call
}

func (l connSink) send(b []byte, until time.Time) error {
	if err := l.SetWriteDeadline(until); err != nil {
		return err
	}
	n, err := l.Write(b)
	l.call.written.Bytes += int64(n)
	return err
}

// ServeStream opens a stream and calls run to feed it. If possible it hijacks the connection and returns immediately:
// an idle stream then needs neither the buffers of the HTTP server nor the stack of the goroutine that handled the
// request, which are most of its memory. Otherwise it returns when run does. run is not called if an error is returned;
// its context ends with the stream.
func ServeStream(w http.ResponseWriter, r *http.Request, o Opening, run func(ctx context.Context, s *Events)) error {
	call := From(r.Context())
	t := call.table
	conn, err := t.hijack(w, r)
	if errors.Is(err, errNotHijackable) {
		s, err := OpenStream(w, r, o)
		if err != nil {
			return err
		}
		defer s.Close()
		run(r.Context(), s)
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	call.detached = true
	s := t.newEvents(r, connSink{conn, call}, o, cancel)
	go s.watchConn(conn)
	go func() {
		defer t.record(call)
		defer func() { _ = conn.Close() }()
		defer t.recover(call)
		defer s.closeHijacked()
		run(ctx, s)
	}()
	return nil
}

// errNotHijackable means that the connection of a request is shared (HTTP/2), or that there is none.
var errNotHijackable = errors.New("the connection cannot be hijacked")

// hijack takes the connection of a request from the HTTP server and writes the response header.
func (t *Table) hijack(w http.ResponseWriter, r *http.Request) (net.Conn, error) {
	if r.Method == http.MethodHead || r.ProtoMajor != 1 {
		return nil, errNotHijackable
	}
	call := From(r.Context())
	if err := call.park(); err != nil {
		return nil, err
	}
	call.passThrough()
	streamHeaders(w.Header())
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		call.unpark()
		return nil, errNotHijackable
	}
	call.written.Status = http.StatusOK
	h := w.Header()
	h.Set("Connection", "close")
	h.Set("Date", t.deps.Now().UTC().Format(http.TimeFormat))
	var head bytes.Buffer
	fmt.Fprint(&head, "HTTP/1.1 200 OK\r\n")
	_ = h.Write(&head) // Writing to a buffer does not fail.
	head.WriteString("\r\n")
	call.written.ResponseWriter = nil // Frees the server's buffers.
	_ = conn.SetDeadline(time.Time{})
	_ = connSink{conn, call}.send(head.Bytes(), t.deps.Local().Add(writeAtMost)) // If it fails, the next write fails too.
	return conn, nil
}

// watchConn ends the stream when the caller disconnects. It discards what the caller sends.
func (s *Events) watchConn(conn net.Conn) {
	var buf [16]byte
	for {
		if _, err := conn.Read(buf[:]); err != nil {
			s.finish()
			return
		}
	}
}

// closeHijacked is Close for a stream whose handler has returned: the call is no longer counted as working.
func (s *Events) closeHijacked() {
	s.finish()
	s.table.registry.remove(s)
	s.pulses.Wait()
	s.table.streams.Add(-1)
	s.call.outcome.problem = s.reason
}
