package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/stamp"
	"github.com/stagedoor/stagedoor/internal/tenant/admission"
)

const (
	// maxStreams bounds the streams of one node unless its settings do. Streams are idle most of the time, so there may
	// be more of them than of requests. One takes 17 to 29 KB (bench/sse_test.go), so 50,000 take less than 1.5 GB, and
	// 4 GB hold more than 100,000.
	maxStreams = 50_000
	// heartbeatEvery keeps proxies from closing idle connections. It is also the interval at which a stream checks that
	// its key is still valid.
	heartbeatEvery = 15 * time.Second
	// writeAtMost is the time that a reader has to accept one event.
	writeAtMost = 10 * time.Second
	// slowAfter is the duration of a write after which a reader counts as slow. A slow reader gets one event per write,
	// each with its own deadline.
	slowAfter = time.Second
	// patientFor bounds the deadline of a single write, in multiples of writeAtMost.
	patientFor = 6
	// reconnectIn and reconnectSoon are how long a client waits before it reconnects; reconnectSoon applies if the
	// server ends a stream whose client is still welcome.
	reconnectIn   = 3 * time.Second
	reconnectSoon = 100 * time.Millisecond
)

// ErrStreamEnded is returned for writes to a stream that has ended.
var ErrStreamEnded = errors.New("the stream has ended")

// Opening holds the options of a new stream.
type Opening struct {
	// Retry is how long a client waits before it reconnects; 0 means reconnectIn.
	Retry time.Duration
	// Life is the time after which the stream ends, so that long-lived connections spread over the nodes; 0 means
	// never.
	Life time.Duration
}

// Message is an event whose data is already encoded as one JSON value.
type Message struct {
	Name string
	// ID is the position from which the client resumes; empty for an event that does not change it.
	ID   string
	Data []byte
}

// Events is an open stream of server-sent events. Its methods are safe for concurrent use.
type Events struct {
	table *Table
	call  *Call
	done  chan struct{}
	end   sync.Once
	// expires is the end of its life, due the time of the next heartbeat. The lock of the registry guards due.
	expires, due time.Time
	// pulses counts the checks in progress.
	pulses sync.WaitGroup
	// unwatch stops the watch for the caller's disconnect. onEnd, if set, is called once when the stream ends.
	unwatch func() bool
	onEnd   func()

	mu    sync.Mutex
	to    sink
	ended bool
	slow  bool
	// beating means that a pulse is in progress.
	beating bool
	// who is the caller as of the last check.
	who Identity
	// reason is the code of the problem that ended the stream, if one did.
	reason string
}

// Stream opens a stream of events as the response to a request. The stream ends when the caller disconnects, when the
// key or its scope is revoked, or when the node is about to stop; then Done is closed. The handler must call Close
// before it returns.
func Stream(w http.ResponseWriter, r *http.Request) (*Events, error) {
	return OpenStream(w, r, Opening{})
}

// OpenStream is Stream with options.
func OpenStream(w http.ResponseWriter, r *http.Request, o Opening) (*Events, error) {
	call := From(r.Context())
	t := call.table
	if err := call.park(); err != nil {
		return nil, err
	}
	call.passThrough()
	streamHeaders(w.Header())
	control := http.NewResponseController(w)
	// A writer without a connection has no deadlines.
	_ = control.SetReadDeadline(time.Time{})
	s := t.newEvents(r, responseSink{w, control}, o, nil)
	s.unwatch = context.AfterFunc(r.Context(), s.finish)
	return s, nil
}

func streamHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // Proxies must forward each event immediately.
}

func (t *Table) newEvents(r *http.Request, to sink, o Opening, onEnd func()) *Events {
	call, now := From(r.Context()), t.deps.Now()
	s := &Events{table: t, call: call, done: make(chan struct{}), to: to, who: call.Identity, due: now.Add(heartbeatEvery), onEnd: onEnd}
	if o.Life > 0 {
		s.expires = now.Add(o.Life)
	}
	if o.Retry == 0 {
		o.Retry = reconnectIn
	}
	if s.write(retry(o.Retry, "\n\n")) != nil || r.Method == http.MethodHead {
		s.finish()
	}
	t.registry.add(t, s)
	return s
}

// park moves a request from the working ones to the waiting ones, which have their own, higher limit.
func (c *Call) park() error {
	t := c.table
	if t.deps.Draining() {
		return draining()
	}
	most := int64(t.deps.Config.MaxStreams)
	if most == 0 {
		most = maxStreams
	}
	if t.streams.Add(1) > most {
		t.streams.Add(-1)
		return problem.ServiceUnavailable.New("This server has reached its limit of open streams.").After(5)
	}
	c.endWork()
	return nil
}

// unpark undoes park.
func (c *Call) unpark() {
	c.table.streams.Add(-1)
	c.resumeWork()
}

func draining() *problem.Error {
	return problem.ServerDraining.New("This server is shutting down. Reconnect.").After(1)
}

// Hold lets a request wait for up to atMost before it is answered. While it waits it does not count as working, and the
// deadlines of the connection do not end it. The caller must call done when the wait is over.
func Hold(w http.ResponseWriter, r *http.Request, atMost time.Duration) (done func(), err error) {
	call := From(r.Context())
	if err := call.park(); err != nil {
		return nil, err
	}
	call.table.prolong(w, atMost)
	return call.unpark, nil
}

// Draining reports whether the node that serves a request is about to stop. A request that waits should then answer
// immediately.
func Draining(ctx context.Context) bool { return From(ctx).table.deps.Draining() }

// Done returns a channel that is closed when the stream has ended.
func (s *Events) Done() <-chan struct{} { return s.done }

// Event encodes and sends an event. If the write fails, the stream ends. An event without an id does not change the
// position from which the client resumes.
func (s *Events) Event(name, id string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", name, err)
	}
	return s.Send([]Message{{name, id, text}})
}

// Comment sends a line that clients ignore.
func (s *Events) Comment(text string) error {
	return s.write([]byte(": " + strings.NewReplacer("\r", " ", "\n", " ").Replace(text) + "\n\n"))
}

// Fail ends the stream with a problem.
func (s *Events) Fail(err error) { s.fail(err) }

// Close ends the stream and waits until none of its pulses runs.
func (s *Events) Close() {
	s.finish()
	s.unwatch()
	s.table.registry.remove(s)
	s.pulses.Wait()
	s.call.unpark()
	s.call.outcome.problem = s.reason
}

// signalEnd closes done and calls onEnd, once. It does not take the lock, so it may be called with or without it.
func (s *Events) signalEnd() {
	s.end.Do(func() {
		close(s.done)
		if s.onEnd != nil {
			s.onEnd()
		}
	})
}

func (s *Events) finish() {
	s.signalEnd()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
}

func (s *Events) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeLocked(b, 1)
}

// writeLocked writes bytes that contain a number of events; the deadline grows with the number. The caller holds s.mu.
func (s *Events) writeLocked(b []byte, events int) error {
	if s.ended {
		return ErrStreamEnded
	}
	started := s.table.deps.Local()
	if err := s.to.send(b, started.Add(time.Duration(min(events, patientFor))*writeAtMost)); err != nil {
		if s.ended = true; errors.Is(err, os.ErrDeadlineExceeded) {
			s.reason = problem.SlowConsumer.Code // Only for the log: the client does not read.
		}
		s.signalEnd()
		return fmt.Errorf("write to a stream: %w", err)
	}
	s.slow = s.table.deps.Local().Sub(started) > slowAfter
	return nil
}

// fail sends a problem as the last event.
func (s *Events) fail(err error) {
	own := *s.call // A copy: the headers are sent, and the handler may be reading the call.
	own.header = http.Header{}
	p := s.table.reply(&own, err)
	if own.outcome.problem == problem.ServerDraining.Code {
		_ = s.write(retry(reconnectSoon, "\n"))
	}
	_ = s.Event("problem", "", json.RawMessage(p.document)) // The reader may have disconnected.
	s.mu.Lock()
	if !s.ended {
		s.reason = own.outcome.problem
	}
	s.mu.Unlock()
	s.finish()
}

func retry(in time.Duration, end string) []byte {
	return fmt.Appendf(nil, "retry: %d%s", in.Milliseconds(), end)
}

// pulse ends the stream if the node is about to stop, access was revoked or its life is over. If beat is true it also
// sends a heartbeat.
func (s *Events) pulse(now time.Time, beat bool) {
	defer func() {
		s.mu.Lock()
		s.beating = false
		s.mu.Unlock()
	}()
	if s.table.deps.Draining() {
		s.fail(draining())
		return
	}
	if !s.mayGoOn() || !beat {
		return
	}
	if !s.expires.IsZero() && !now.Before(s.expires) {
		s.reconnect()
		return
	}
	_ = s.Event("heartbeat", "", map[string]stamp.Time{"ts": stamp.Time(s.table.deps.Now())}) // A failed write ends the stream.
}

// reconnect ends the stream of a client that is still welcome.
func (s *Events) reconnect() {
	_ = s.write(retry(reconnectSoon, "\n\n"))
	s.finish()
}

// mayGoOn ends the stream if the caller may no longer read, or may read something else than when it opened the stream.
func (s *Events) mayGoOn() bool {
	if err := s.checkAccess(); err != nil {
		s.fail(err)
		return false
	}
	s.mu.Lock()
	now := s.who.Principal
	s.mu.Unlock()
	if opened := s.call.Identity.Principal; now != opened && opened != nil && now != nil && !now.Key.Allow.Equal(&opened.Key.Allow) {
		s.reconnect()
		return false
	}
	return true
}

// checkAccess returns a problem if the caller may no longer read. It works on a copy of the call, because the handler
// reads the original. Failures to find out (5xx) do not end the stream; the next pulse asks again.
func (s *Events) checkAccess() error {
	call, op := *s.call, *s.call.op
	call.header, call.op = http.Header{}, &op
	call.terms.Quota = admission.Free // The stream was admitted once; a check is not another call.
	call.Origin.Started = s.table.deps.Now()
	s.mu.Lock()
	call.Identity = s.who
	s.mu.Unlock()
	ctx := context.WithoutCancel(s.call.Origin.request.Context()) // A disconnect ends the stream, not this check.
	err := s.table.checkLimits(context.WithValue(ctx, callKey{}, &call), &call)
	s.mu.Lock()
	s.who = call.Identity
	s.mu.Unlock()
	if unknown := err != nil && problem.Of(err).Kind.Status >= http.StatusInternalServerError; !unknown {
		return err
	}
	return nil
}
