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

// Limits bounds one call. Zero values mean the defaults; None disables a limit.
type Limits struct {
	// Header bounds the time from the last byte of the request to the header of the response. Default: 20 s.
	Header time.Duration
	// Idle bounds the wait of each read of the body. The time between reads does not count. Default: 30 s.
	Idle time.Duration
	// Total bounds the whole call, until the end of the body. Default: 60 s.
	Total time.Duration
	// Bytes bounds the decompressed body. Default: 10 MiB.
	Bytes int64
	// Raw disables decompression and does not ask the platform for compression.
	Raw bool
}

// None disables a limit.
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

// phase is what a call is waiting for.
type phase int

const (
	dialling phase = iota
	feeding        // waiting for the caller to supply more of the request's body
	sending        // sending the request and waiting for the header of the response
	reading
	paused // the caller is not reading
	ended
)

// errDialling ends a call if all tries of proxies together take too long.
var errDialling = errors.New("no tunnel in time")

// exchange is one Do in progress: its timers, and how far it got.
type exchange struct {
	egress *Egress
	limits Limits
	cancel context.CancelCauseFunc
	// callerErr returns the cause of the caller's context, or nil if the caller is still waiting.
	callerErr func() error
	trace     httptrace.ClientTrace
	total     *time.Timer
	upload    *upload

	gotConn bool
	wrote   atomic.Bool // the request's header was written, so the platform may have acted on it
	gotByte atomic.Bool // a byte of the response has arrived

	mu    sync.Mutex
	phase phase
	timer *time.Timer
}

// startExchange starts the timers and returns the request for the transport.
func startExchange(e *Egress, req *http.Request, limits Limits) (*exchange, *http.Request) {
	x := &exchange{egress: e, limits: limits.withDefaults()}
	ctx, cancel := context.WithCancelCause(req.Context())
	x.cancel = cancel
	x.callerErr = func() error { return context.Cause(req.Context()) }
	x.trace = httptrace.ClientTrace{
		GotConn:              x.onConnected,
		WroteHeaders:         func() { x.wrote.Store(true) },
		GotFirstResponseByte: func() { x.gotByte.Store(true) },
	}
	if x.limits.Total > 0 {
		x.total = time.AfterFunc(x.limits.Total, func() { cancel(ErrTooLong) })
	}
	x.timer = time.AfterFunc(e.deps.Config.DialTimeout+e.deps.Config.HandshakeTimeout, x.onTimeout)

	// Copy what is changed below: a RoundTripper must not modify the caller's request.
	out := req.WithContext(httptrace.WithClientTrace(ctx, &x.trace))
	address := *req.URL
	out.URL = &address
	if out.Host == "" { // sendViaProxies replaces URL.Host by the pool key
		out.Host = req.URL.Host
	}
	if !x.limits.Raw && req.Header.Get("Accept-Encoding") == "" {
		out.Header = req.Header.Clone()
		if out.Header == nil {
			out.Header = http.Header{}
		}
		out.Header.Set("Accept-Encoding", "gzip")
	}
	if needsStreaming(req) {
		x.upload = &upload{exchange: x, body: req.Body}
		out.Body = x.upload
	}
	return x, out
}

// maxInMemory is the largest body that is sent in one piece with its header, in bytes.
const maxInMemory = 64 << 10

// needsStreaming reports whether a body must be wrapped in an upload. A small body with GetBody need not; left as it
// is, the transport sends it in one piece with the header.
func needsStreaming(req *http.Request) bool {
	return req.Body != nil && req.Body != http.NoBody && (req.GetBody == nil || req.ContentLength <= 0 || req.ContentLength > maxInMemory)
}

// onConnected runs when the transport has a connection.
func (x *exchange) onConnected(httptrace.GotConnInfo) {
	x.gotConn = true
	x.setPhase(sending)
}

// setPhase changes the phase and starts its timer, if it has one. Phases up to sending do not return once reading has
// begun, and ended is final.
func (x *exchange) setPhase(next phase) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.phase == ended || next <= sending && x.phase > sending {
		return // a response may arrive before the request is completely sent
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

// onTimeout cancels the call if the current phase has a time limit.
func (x *exchange) onTimeout() {
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

// end stops the timers and cancels the context. It may be called more than once.
func (x *exchange) end() {
	x.setPhase(ended)
	if x.total != nil {
		x.total.Stop()
	}
	x.cancel(nil)
}

// releaseBody releases the request's body, which is not needed for another try. On error it makes sure that it is
// closed.
func (x *exchange) releaseBody(req *http.Request, err error) {
	switch {
	case x.upload != nil:
		x.upload.release(err != nil)
	case err != nil && req.Body != nil:
		_ = req.Body.Close() // the transport may not have taken it
	}
}

// rewind prepares the request for another connection. It returns false if the body was partly read and cannot be
// obtained again.
func (x *exchange) rewind(out *http.Request) bool {
	if out.Body == nil || out.Body == http.NoBody || x.upload != nil && x.upload.isUnread() {
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

// translateError turns an error of the transport into one of those in client.go. Once the platform has responded, it
// drops the text of the transport's error, which may contain data from the platform.
func (x *exchange) translateError(err error) error {
	_, inTunnel := errors.AsType[*tunnelError](err)
	_, isOurs := errors.AsType[*problem.Error](err)
	for _, ours := range []error{ErrNoAnswer, ErrStalled, ErrTooLong, ErrTooLarge, ErrBomb} {
		isOurs = isOurs || errors.Is(err, ours)
	}
	switch callerErr, failed := x.callerErr(), x.uploadError(); {
	case callerErr != nil:
		err = callerErr
	case isOurs:
	case failed != nil:
		err = fmt.Errorf("read the request's body: %w", failed)
	case inTunnel, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = ErrBroken
	case x.gotByte.Load():
		err = ErrMalformed
	case x.gotConn:
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
	return x.upload.readError()
}

// wrapResponse bounds the body of a response and decompresses it.
func (x *exchange) wrapResponse(resp *http.Response) (*http.Response, error) {
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.Body == http.NoBody {
		x.end() // the caller now owns the connection of a WebSocket
		return resp, nil
	}
	x.setPhase(paused)
	coding := strings.ToLower(resp.Header.Get("Content-Encoding"))
	b := &body{exchange: x, raw: timedBody{exchange: x, from: resp.Body}, gzipped: !x.limits.Raw && (coding == "gzip" || coding == "x-gzip")}
	switch {
	case !x.limits.Raw && !b.gzipped && coding != "" && coding != "identity":
		_ = b.Close() // unreadable; the error does not matter
		return nil, ErrMalformed
	case !b.gzipped && x.limits.Bytes > 0 && resp.ContentLength > x.limits.Bytes:
		_ = b.Close() // the error does not matter
		return nil, ErrTooLarge
	case b.gzipped:
		resp.Header.Del("Content-Encoding")
		resp.Header.Del("Content-Length")
		resp.ContentLength, resp.Uncompressed = -1, true
	}
	resp.Body = b
	return resp, nil
}
