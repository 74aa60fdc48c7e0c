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

// sink is where a stream's bytes go.
type sink interface {
	send(b []byte, until time.Time) error
}

// answer is the answer to a request that is still being handled.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (a answer) send(b []byte, until time.Time) error {
	_ = a.control.SetWriteDeadline(until) // a writer without a connection has no limits
	if _, err := a.Write(b); err != nil {
		return err
	}
	return a.control.Flush()
}

// line is a connection of the stream's own.
type line struct {
	net.Conn
	call *Call
}

func (l line) send(b []byte, until time.Time) error {
	if err := l.SetWriteDeadline(until); err != nil {
		return err
	}
	n, err := l.Write(b)
	l.call.written.bytes += int64(n)
	return err
}

// ServeStream opens a stream and lets run feed it until it returns. Where it can, it takes the connection over from the HTTP server and
// returns at once: an idle stream then needs neither the server's buffers nor the stack on which its request was handled, which is most
// of what it would take. run is not called if an error is returned; its context ends with the stream.
func ServeStream(w http.ResponseWriter, r *http.Request, o Opening, run func(ctx context.Context, s *Events)) error {
	call := From(r.Context())
	t := call.table
	conn, err := t.takeOver(w, r)
	if errors.Is(err, errNoLine) {
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
	s := t.newEvents(r, line{conn, call}, o, cancel)
	go s.untilGone(conn)
	go func() {
		defer t.finish(call.written, r, call)
		defer func() { _ = conn.Close() }()
		defer t.recover(call.written, r, call)
		defer s.closeLine()
		run(ctx, s)
	}()
	return nil
}

// errNoLine means that a request's connection cannot be taken over: it is shared, or there is none.
var errNoLine = errors.New("the connection cannot be taken over")

// takeOver makes the connection of a request its stream's, and writes the head of the answer.
func (t *Table) takeOver(w http.ResponseWriter, r *http.Request) (net.Conn, error) {
	if r.Method == http.MethodHead || r.ProtoMajor != 1 {
		return nil, errNoLine
	}
	call := From(r.Context())
	if err := call.settleDown(); err != nil {
		return nil, err
	}
	call.passThrough()
	streamHeaders(w.Header())
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		call.getUp()
		return nil, errNoLine
	}
	call.written.status = http.StatusOK
	h := w.Header()
	h.Set("Connection", "close")
	h.Set("Date", t.Now().UTC().Format(http.TimeFormat))
	var head bytes.Buffer
	fmt.Fprint(&head, "HTTP/1.1 200 OK\r\n")
	_ = h.Write(&head) // a buffer takes everything
	head.WriteString("\r\n")
	call.written.ResponseWriter = nil // and with it the server's buffers
	_ = conn.SetDeadline(time.Time{})
	_ = line{conn, call}.send(head.Bytes(), t.Now().Add(writeAtMost)) // what is sent next fails as well
	return conn, nil
}

// untilGone ends the stream when its caller has gone. What a caller sends meanwhile is not read as anything.
func (s *Events) untilGone(conn net.Conn) {
	var some [16]byte
	for {
		if _, err := conn.Read(some[:]); err != nil {
			s.finish()
			return
		}
	}
}

// closeLine is Close for a stream that nobody handles a request for any more.
func (s *Events) closeLine() {
	s.finish()
	s.table.keeper.remove(s)
	s.pulses.Wait()
	s.table.streams.Add(-1)
	s.call.problem = s.reason
}
