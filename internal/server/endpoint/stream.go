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
	// maxStreams bounds the streams of one node unless its settings do. They wait most of the time, so there may be more of them than of
	// requests. One takes 17 to 29 KB (bench/sse_test.go), so 50,000 take less than 1.5 GB, and 4 GB hold more than 100,000.
	maxStreams = 50_000
	// heartbeatEvery keeps connections from being taken for dead, and is how often a stream makes sure that its key still holds.
	heartbeatEvery = 15 * time.Second
	// writeAtMost is what a reader is given to take one event.
	writeAtMost = 10 * time.Second
	// slowAfter is when a reader counts as slow: from then on it is written to one event at a time, each with its own limit.
	slowAfter = time.Second
	// patientFor is how many events at most a single write may count for.
	patientFor = 6
	// reconnectIn and reconnectSoon are what a client waits before it connects again; the second if the stream ends although the
	// client is welcome.
	reconnectIn   = 3 * time.Second
	reconnectSoon = 100 * time.Millisecond
)

// ErrStreamEnded is returned for an event of a stream that has ended.
var ErrStreamEnded = errors.New("the stream has ended")

// Opening is how a stream begins and how long it lasts.
type Opening struct {
	// Retry is what a client is to wait before it connects again; 0 for the default.
	Retry time.Duration
	// Life is after how long the stream ends, so that connections do not stay where they once were; 0 for no end.
	Life time.Duration
}

// Message is an event whose data is there already, as one JSON value.
type Message struct {
	Name string
	// ID is what the client resumes behind; empty for an event that does not move that place.
	ID   string
	Data []byte
}

// Events is an open stream of server-sent events. Its methods may be called from several goroutines.
type Events struct {
	table *Table
	call  *Call
	done  chan struct{}
	end   sync.Once
	// until is when its life is over, due when the next heartbeat is; the second is the keeper's.
	until, due time.Time
	// pulses are checks under way.
	pulses sync.WaitGroup
	// left undoes the watch over the caller's going away; over is called at the end, if there is one.
	left func() bool
	over func()

	mu    sync.Mutex
	to    sink
	ended bool
	slow  bool
	// beating means that a check is under way.
	beating bool
	// who is the caller as it was last judged.
	who Identity
	// reason is the problem that the stream ended with, if one did.
	reason string
}

// Stream opens a stream of events as the answer to a request. It lives until the caller goes away, the key or its scope is taken away, or
// the node is about to stop: then Done is closed. The handler must call Close before it returns.
func Stream(w http.ResponseWriter, r *http.Request) (*Events, error) {
	return OpenStream(w, r, Opening{})
}

// OpenStream is Stream with more to say.
func OpenStream(w http.ResponseWriter, r *http.Request, o Opening) (*Events, error) {
	call := From(r.Context())
	t := call.table
	if err := call.settleDown(); err != nil {
		return nil, err
	}
	call.passThrough()
	streamHeaders(w.Header())
	control := http.NewResponseController(w)
	// A writer without a connection has no limits to lift.
	_ = control.SetReadDeadline(time.Time{})
	s := t.newEvents(r, answer{w, control}, o, nil)
	s.left = context.AfterFunc(r.Context(), s.finish)
	return s, nil
}

func streamHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies must pass each event on
}

func (t *Table) newEvents(r *http.Request, to sink, o Opening, over func()) *Events {
	call, now := From(r.Context()), t.Now()
	s := &Events{table: t, call: call, done: make(chan struct{}), to: to, who: call.Identity, due: now.Add(heartbeatEvery), over: over}
	if o.Life > 0 {
		s.until = now.Add(o.Life)
	}
	if o.Retry == 0 {
		o.Retry = reconnectIn
	}
	if s.write(retry(o.Retry, "\n\n")) != nil || r.Method == http.MethodHead {
		s.finish()
	}
	t.keeper.add(t, s)
	return s
}

// settleDown moves a request from those that are worked on to those that wait.
func (c *Call) settleDown() error {
	t := c.table
	if t.Draining() {
		return draining()
	}
	most := int64(t.Config.MaxStreams)
	if most == 0 {
		most = maxStreams
	}
	if t.streams.Add(1) > most {
		t.streams.Add(-1)
		return problem.ServiceUnavailable.New("This server has more streams open than it can take.").After(5)
	}
	c.leave()
	return nil
}

// getUp undoes settleDown.
func (c *Call) getUp() {
	c.table.streams.Add(-1)
	c.resumeWork()
}

func draining() *problem.Error {
	return problem.ServerDraining.New("This server is about to stop; connect again.").After(1)
}

// Hold lets a request wait for up to a time before it is answered. Meanwhile it does not count as one that is worked on, and the
// connection's own limits do not end it. What is returned must be called when the wait is over.
func Hold(w http.ResponseWriter, r *http.Request, atMost time.Duration) (done func(), err error) {
	call := From(r.Context())
	if err := call.settleDown(); err != nil {
		return nil, err
	}
	call.table.prolong(w, atMost)
	return call.getUp, nil
}

// Draining says whether the node that serves a request is about to stop: whoever waits should answer now.
func Draining(ctx context.Context) bool { return From(ctx).table.Draining() }

// Done is closed when the stream has ended.
func (s *Events) Done() <-chan struct{} { return s.done }

// Event sends an event, and ends the stream if it cannot be sent. An event without an id does not move the place from which the client
// resumes.
func (s *Events) Event(name, id string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", name, err)
	}
	return s.Send([]Message{{name, id, text}})
}

// Comment sends a line that clients do not see.
func (s *Events) Comment(text string) error {
	return s.write([]byte(": " + strings.NewReplacer("\r", " ", "\n", " ").Replace(text) + "\n\n"))
}

// Fail ends the stream with a problem.
func (s *Events) Fail(err error) { s.fail(err) }

// Close ends the stream and waits until nothing of it runs any more.
func (s *Events) Close() {
	s.finish()
	s.left()
	s.table.keeper.remove(s)
	s.pulses.Wait()
	s.call.getUp()
	s.call.problem = s.reason
}

// stop tells everybody that the stream has ended.
func (s *Events) stop() {
	s.end.Do(func() {
		close(s.done)
		if s.over != nil {
			s.over()
		}
	})
}

func (s *Events) finish() {
	s.stop()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
}

func (s *Events) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeLocked(b, 1)
}

// writeLocked writes what counts for a number of events. Each gives the reader its time.
func (s *Events) writeLocked(b []byte, events int) error {
	if s.ended {
		return ErrStreamEnded
	}
	started := s.table.Now()
	if err := s.to.send(b, started.Add(time.Duration(min(events, patientFor))*writeAtMost)); err != nil {
		if s.ended = true; errors.Is(err, os.ErrDeadlineExceeded) {
			s.reason = problem.SlowConsumer.Code // it cannot be told: it does not read
		}
		s.stop()
		return fmt.Errorf("write to a stream: %w", err)
	}
	s.slow = s.table.Now().Sub(started) > slowAfter
	return nil
}

// fail sends a problem as the last event.
func (s *Events) fail(err error) {
	own := *s.call // headers have been sent, and what the handler reads must not change under it
	own.header = http.Header{}
	p := s.table.reply(&own, err)
	if own.problem == problem.ServerDraining.Code {
		_ = s.write(retry(reconnectSoon, "\n"))
	}
	_ = s.Event("problem", "", json.RawMessage(p.document)) // the reader may have gone
	s.mu.Lock()
	if !s.ended {
		s.reason = own.problem
	}
	s.mu.Unlock()
	s.finish()
}

func retry(in time.Duration, end string) []byte {
	return fmt.Appendf(nil, "retry: %d%s", in.Milliseconds(), end)
}

// pulse is done every now and then: it ends the stream if it is time to, and tells its reader that it is alive. beat is false for a
// check in between.
func (s *Events) pulse(now time.Time, beat bool) {
	defer func() {
		s.mu.Lock()
		s.beating = false
		s.mu.Unlock()
	}()
	if s.table.Draining() {
		s.fail(draining())
		return
	}
	if err := s.judge(); err != nil {
		s.fail(err)
		return
	}
	if !beat {
		return
	}
	if !s.until.IsZero() && !now.Before(s.until) {
		_ = s.write(retry(reconnectSoon, "\n\n"))
		s.finish()
		return
	}
	_ = s.Event("heartbeat", "", map[string]stamp.Time{"ts": stamp.Time(s.table.Now())}) // the stream has ended if it cannot be sent
}

// judge says whether the caller may still read. It works on a call of its own: the handler reads the other.
func (s *Events) judge() error {
	call, op := *s.call, *s.call.op
	call.header, call.op = http.Header{}, &op
	call.quota = admission.Free // it was admitted once; looking again is not another call
	call.started = s.table.Now()
	s.mu.Lock()
	call.Identity = s.who
	s.mu.Unlock()
	ctx := context.WithoutCancel(s.call.request.Context()) // the caller's going away ends the stream, not what is asked about it
	err := s.table.admit(context.WithValue(ctx, callKey{}, &call), &call)
	s.mu.Lock()
	s.who = call.Identity
	s.mu.Unlock()
	if unknown := err != nil && problem.Of(err).Kind.Status >= http.StatusInternalServerError; !unknown {
		return err
	}
	return nil // the next beat asks again
}
