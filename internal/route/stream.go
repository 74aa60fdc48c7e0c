package route

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/limit"
	"github.com/stagedoor/stagedoor/internal/problem"
)

const (
	// maxStreams bounds the streams of one node. They wait most of the time, so there may be more of them than of requests.
	maxStreams = 10_000
	// heartbeatEvery keeps connections from being taken for dead, and is how often a stream makes sure that its key still holds.
	heartbeatEvery = 15 * time.Second
	// drainCheckEvery is how soon a stream notices that its node is about to stop.
	drainCheckEvery = time.Second
	// writeAtMost is what a reader is given to take one event.
	writeAtMost = 10 * time.Second
	// reconnectIn and reconnectSoon are what a client waits before it connects again, in milliseconds; the second if the node
	// is about to stop, and another one waits for it.
	reconnectIn   = 3000
	reconnectSoon = 100
)

// ErrStreamEnded is returned for an event of a stream that has ended.
var ErrStreamEnded = errors.New("the stream has ended")

// Events is an open stream of server-sent events. Its methods may be called from several goroutines.
type Events struct {
	table *Table
	call  *Call
	done  chan struct{}
	end   sync.Once
	beats sync.WaitGroup

	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer
	ended   bool
	// reason is the problem that the stream ended with, if one did.
	reason string
}

// Stream opens a stream of events as the answer to a request. It lives until the caller goes away, the key or its scope is taken away, or
// the node is about to stop: then Done is closed. The handler must call Close before it returns.
func Stream(w http.ResponseWriter, r *http.Request) (*Events, error) {
	call := From(r.Context())
	t := call.table
	if t.Draining() {
		return nil, problem.ServerDraining.New("This server is about to stop; connect again.").After(1)
	}
	if t.streams.Add(1) > maxStreams {
		t.streams.Add(-1)
		return nil, problem.ServiceUnavailable.New("This server has more streams open than it can take.").After(5)
	}
	t.inFlight.Add(-1) // it is no longer one of those that are worked on
	s := &Events{table: t, call: call, done: make(chan struct{}), w: w, control: http.NewResponseController(w)}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // proxies must pass each event on
	// A writer without a connection has no limits to lift.
	_ = s.control.SetReadDeadline(time.Time{})
	if s.write(fmt.Appendf(nil, "retry: %d\n\n", reconnectIn)) != nil || r.Method == http.MethodHead {
		s.finish()
	}
	s.beats.Go(func() { s.beat(r.Context()) })
	return s, nil
}

// Done is closed when the stream has ended.
func (s *Events) Done() <-chan struct{} { return s.done }

// Event sends an event, and ends the stream if it cannot be sent. An event without an id does not move the place from which the client
// resumes.
func (s *Events) Event(name, id string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", name, err)
	}
	if strings.ContainsAny(name+id, "\r\n\x00") {
		return fmt.Errorf("event %q has a name or an id of more than one line", name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Reset()
	if id != "" {
		fmt.Fprintf(&s.buf, "id: %s\n", id)
	}
	fmt.Fprintf(&s.buf, "event: %s\ndata: %s\n\n", name, text)
	return s.writeLocked(s.buf.Bytes())
}

// Comment sends a line that clients do not see.
func (s *Events) Comment(text string) error {
	return s.write([]byte(": " + strings.NewReplacer("\r", " ", "\n", " ").Replace(text) + "\n\n"))
}

// Fail ends the stream with a problem.
func (s *Events) Fail(err error) { s.fail(s.call, err) }

// Close ends the stream and waits until nothing of it runs any more.
func (s *Events) Close() {
	s.finish()
	s.beats.Wait()
	s.table.streams.Add(-1)
	s.table.inFlight.Add(1)
	s.call.problem = s.reason
}

func (s *Events) finish() {
	s.end.Do(func() { close(s.done) })
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
}

func (s *Events) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeLocked(b)
}

func (s *Events) writeLocked(b []byte) error {
	if s.ended {
		return ErrStreamEnded
	}
	_ = s.control.SetWriteDeadline(s.table.Now().Add(writeAtMost))
	_, err := s.w.Write(b)
	if err == nil {
		err = s.control.Flush()
	}
	if err != nil {
		s.ended = true
		s.end.Do(func() { close(s.done) })
		return fmt.Errorf("write to a stream: %w", err)
	}
	return nil
}

// fail sends a problem as the last event.
func (s *Events) fail(call *Call, err error) {
	own := *call // headers have been sent, and what the handler reads must not change under it
	own.header = http.Header{}
	p := s.table.reply(&own, err)
	if own.problem == problem.ServerDraining.Code {
		_ = s.write(fmt.Appendf(nil, "retry: %d\n", reconnectSoon))
	}
	_ = s.Event("problem", "", json.RawMessage(p.document)) // the reader may have gone
	s.mu.Lock()
	if !s.ended {
		s.reason = own.problem
	}
	s.mu.Unlock()
	s.finish()
}

// beat ends the stream when it is time to.
func (s *Events) beat(ctx context.Context) {
	beat, drain := time.NewTicker(heartbeatEvery), time.NewTicker(drainCheckEvery)
	defer beat.Stop()
	defer drain.Stop()
	judge := s.judge()
	for {
		select {
		case <-s.done:
			return
		case <-ctx.Done():
			s.finish()
			return
		case <-drain.C:
			if s.table.Draining() {
				s.fail(s.call, problem.ServerDraining.New("This server is about to stop; connect again.").After(1))
				return
			}
		case <-beat.C:
			if err := judge(ctx); err != nil {
				s.fail(s.call, err)
				return
			}
			if s.Event("heartbeat", "", map[string]time.Time{"ts": s.table.Now().UTC()}) != nil {
				return
			}
		}
	}
}

// judge makes the function that says whether the caller may still read. It works on a call of its own: the handler reads the other.
func (s *Events) judge() func(context.Context) error {
	call, op := *s.call, *s.call.op
	call.header, call.op = http.Header{}, &op
	call.quota = limit.Free // it was admitted once; looking again is not another call
	return func(ctx context.Context) error {
		call.started = s.table.Now()
		err := s.table.admit(context.WithValue(ctx, callKey{}, &call), &call)
		if p := problem.Of(err); err != nil && p.Kind.Status >= http.StatusInternalServerError {
			return nil // nothing is known; the next beat asks again
		}
		return err
	}
}
