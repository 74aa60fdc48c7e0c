package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
)

// Limits bound one call. Zero values stand for the defaults; None switches a bound off.
type Limits struct {
	// Header is how long the platform may take from the last byte of the request to the header of its answer. Default 20 s.
	Header time.Duration
	// Idle is how long a read of the body may wait. Default 30 s. The time that the reader itself takes does not count.
	Idle time.Duration
	// Total is for everything, from the call of Do to the end of the body. Default 60 s.
	Total time.Duration
	// Bytes bounds the body, inflated. Default 10 MiB.
	Bytes int64
	// Raw leaves the body as it came, and asks for no compression.
	Raw bool
}

// None is no bound.
const None = -1

const (
	defaultHeader = 20 * time.Second
	defaultIdle   = 30 * time.Second
	defaultTotal  = 60 * time.Second
	defaultBytes  = 10 << 20
)

func (l Limits) withDefaults() Limits {
	if l.Header == 0 {
		l.Header = defaultHeader
	}
	if l.Idle == 0 {
		l.Idle = defaultIdle
	}
	if l.Total == 0 {
		l.Total = defaultTotal
	}
	if l.Bytes == 0 {
		l.Bytes = defaultBytes
	}
	return l
}

// phase is what a call waits for.
type phase int

const (
	dialling phase = iota
	feeding        // the caller has to give more of the request's body
	sending        // and waiting for the header
	reading
	paused // the reader is busy with what it has
	ended
)

// errDialling ends a call whose tries of proxies took too long together.
var errDialling = errors.New("no tunnel in time")

// exchange is one call under way: its clock, and what is known of how far it got.
type exchange struct {
	egress *Egress
	limits Limits
	cancel context.CancelCauseFunc
	// gone says why the caller does not wait any more, if so.
	gone   func() error
	trace  httptrace.ClientTrace
	total  *time.Timer
	upload *upload

	found bool        // there was a connection
	wrote atomic.Bool // all of the request's header was written, so that the platform may have acted on it
	heard atomic.Bool // a byte of the answer came

	mu    sync.Mutex
	phase phase
	timer *time.Timer
}

// begin starts the clock and makes the request that goes to the transport.
func begin(e *Egress, req *http.Request, limits Limits) (*exchange, *http.Request) {
	x := &exchange{egress: e, limits: limits.withDefaults()}
	ctx, cancel := context.WithCancelCause(req.Context())
	x.cancel = cancel
	x.gone = func() error { return context.Cause(req.Context()) }
	x.trace = httptrace.ClientTrace{
		GotConn:              x.connected,
		WroteHeaders:         func() { x.wrote.Store(true) },
		GotFirstResponseByte: func() { x.heard.Store(true) },
	}
	if x.limits.Total > 0 {
		x.total = time.AfterFunc(x.limits.Total, func() { cancel(ErrTooLong) })
	}
	x.timer = time.AfterFunc(e.Config.DialTimeout+e.Config.HandshakeTimeout, x.expire)

	out := req.WithContext(httptrace.WithClientTrace(ctx, &x.trace))
	address := *req.URL
	out.URL = &address
	if out.Host == "" {
		out.Host = req.URL.Host
	}
	if !x.limits.Raw && req.Header.Get("Accept-Encoding") == "" {
		out.Header = req.Header.Clone()
		if out.Header == nil {
			out.Header = http.Header{}
		}
		out.Header.Set("Accept-Encoding", "gzip")
	}
	if streamed(req) {
		x.upload = &upload{exchange: x, body: req.Body}
		out.Body = x.upload
	}
	return x, out
}

// inMemory is a body that is sent at once, together with its header.
const inMemory = 64 << 10

// streamed says whether a body needs care while it is sent. A small one that can be had again does not; left as it is,
// the transport sends it in one piece with the header.
func streamed(req *http.Request) bool {
	return req.Body != nil && req.Body != http.NoBody && (req.GetBody == nil || req.ContentLength <= 0 || req.ContentLength > inMemory)
}

// connected is told of the connection that is going to be used.
func (x *exchange) connected(httptrace.GotConnInfo) {
	x.found = true
	x.await(sending)
}

// await moves on to a phase and sets its clock. A phase that is over does not come back.
func (x *exchange) await(next phase) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == ended || next <= sending && x.phase > sending {
		return // an answer may come before the request is all sent
	}
	x.phase = next
	limit := time.Duration(None)
	switch next {
	case sending:
		limit = x.limits.Header
	case reading:
		limit = x.limits.Idle
	case dialling, feeding, paused, ended:
	}
	if limit > 0 {
		x.timer.Reset(limit)
	} else {
		x.timer.Stop()
	}
}

// expire ends a call whose phase took too long.
func (x *exchange) expire() {
	x.mu.Lock()
	now := x.phase
	x.mu.Unlock()
	switch now {
	case dialling:
		x.cancel(errDialling)
	case sending:
		x.cancel(ErrNoAnswer)
	case reading:
		x.cancel(ErrStalled)
	case feeding, paused, ended:
	}
}

// end stops the clocks.
func (x *exchange) end() {
	x.await(ended)
	if x.total != nil {
		x.total.Stop()
	}
	x.cancel(nil)
}

// sent lets the request's body go: it will not be needed for another try.
func (x *exchange) sent(req *http.Request, err error) {
	switch {
	case x.upload != nil:
		x.upload.release(err != nil)
	case err != nil && req.Body != nil:
		_ = req.Body.Close() // nobody may have taken it yet
	}
}

// rewind prepares the request for another connection. It fails if the body was begun and cannot be had again.
func (x *exchange) rewind(out *http.Request) bool {
	if out.Body == nil || out.Body == http.NoBody || x.upload != nil && x.upload.untouched() {
		return true
	}
	if out.GetBody == nil {
		return false
	}
	body, err := out.GetBody()
	if err != nil {
		return false
	}
	if x.upload != nil {
		x.upload.release(true)
		x.upload = &upload{exchange: x, body: body}
		body = x.upload
	}
	out.Body = body
	return true
}

// explain turns an error of the transport into one of ours. The text of the transport's own is dropped once the
// platform has spoken, because it may hold what the platform said.
func (x *exchange) explain(err error) error {
	_, inTunnel := errors.AsType[*tunnelError](err)
	_, told := errors.AsType[*problem.Error](err)
	for _, ours := range []error{ErrNoAnswer, ErrStalled, ErrTooLong, ErrTooLarge, ErrBomb} {
		told = told || errors.Is(err, ours)
	}
	switch gone, failed := x.gone(), x.uploadError(); {
	case gone != nil:
		err = gone
	case told:
	case failed != nil:
		err = fmt.Errorf("read the request's body: %w", failed)
	case inTunnel, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = ErrBroken
	case x.heard.Load():
		err = ErrMalformed
	case x.found:
		err = ErrBroken
	}
	if !x.wrote.Load() && !errors.Is(err, ErrNotSent) {
		err = fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return err
}

func (x *exchange) uploadError() error {
	if x.upload == nil {
		return nil
	}
	return x.upload.failure()
}

// receive takes the answer's header and bounds its body.
func (x *exchange) receive(resp *http.Response) (*http.Response, error) {
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == http.NoBody {
		x.end() // of a WebSocket the connection is the caller's now
		return resp, nil
	}
	x.await(paused)
	coding := strings.ToLower(resp.Header.Get("Content-Encoding"))
	b := &body{exchange: x, wire: wire{exchange: x, from: resp.Body}, zipped: !x.limits.Raw && (coding == "gzip" || coding == "x-gzip")}
	switch {
	case !x.limits.Raw && !b.zipped && coding != "" && coding != "identity":
		_ = b.Close() // it is unreadable, closed or not
		return nil, ErrMalformed
	case !b.zipped && x.limits.Bytes > 0 && resp.ContentLength > x.limits.Bytes:
		_ = b.Close() // what is left of it does not matter
		return nil, ErrTooLarge
	case b.zipped:
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
	}
	resp.Body = b
	return resp, nil
}
