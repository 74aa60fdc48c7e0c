package stagedoor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// StreamOptions selects the events to follow.
type StreamOptions struct {
	// Since continues after a cursor: Event.Cursor or EventStream.Cursor of an earlier stream. "0" starts with the oldest
	// stored event. Default: only new events.
	Since string
	// Events selects kinds: names, patterns such as message* and account.*, and !name to exclude. Default: all.
	Events []string
	// AccountID restricts the organisation's stream to one account.
	AccountID string
	// OnReady is called after every connect.
	OnReady func(StreamReady)
	// OnDrop is called after a connection has ended, with the reason (nil if the service closed it) and the time
	// until the stream reconnects.
	OnDrop func(err error, wait time.Duration)
}

// StreamReady describes the start of a connection.
type StreamReady struct {
	AccountID string `json:"accountId"`
	// Cursor is the current position. Oldest is the position of the oldest stored event.
	Cursor string `json:"cursor"`
	Oldest string `json:"oldest"`
	// Resumed means that the stream continues after a cursor. Gap means that events after that cursor
	// are no longer stored.
	Resumed bool `json:"resumed"`
	Gap     bool `json:"gap"`
}

// EventStream follows events. It reconnects automatically, to any node of the service, and yields every event
// once and in order.
type EventStream struct {
	client  *Client
	ctx     context.Context
	path    string
	options StreamOptions
	cursor  atomic.Pointer[string]
	seen    seenIDs
}

// Stream follows the events of all accounts and of the organisation.
func (c *Client) Stream(ctx context.Context, o StreamOptions) *EventStream {
	return newStream(ctx, c, "/v1/events", o)
}

// Stream follows the events of the account.
func (a *AccountClient) Stream(ctx context.Context, o StreamOptions) *EventStream {
	o.AccountID = ""
	return newStream(ctx, a.client, "/v1/accounts/"+url.PathEscape(a.ID)+"/events", o)
}

func newStream(ctx context.Context, c *Client, path string, o StreamOptions) *EventStream {
	s := &EventStream{client: c, ctx: ctx, path: path, options: o, seen: seenIDs{ids: map[string]bool{}}}
	s.cursor.Store(&o.Since)
	return s
}

// Cursor returns the position of the stream: the last event that All yielded, or the start. Store it and pass it as
// StreamOptions.Since to continue later. It is safe to call while another goroutine ranges over All.
func (s *EventStream) Cursor() string { return *s.cursor.Load() }

const (
	// reconnect is the minimum delay before reopening a stream that the service closed.
	reconnect = time.Second
	// maxBackoff limits the delay between failed connects.
	maxBackoff = 30 * time.Second
)

var errSilent = errors.New("the stream was silent for too long")

// All yields events until the context ends or the service rejects the stream permanently. The error is the last value.
// Range over it only once.
func (s *EventStream) All() iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		failures := 0
		for {
			wait, err := s.follow(func() { failures = 0 }, func(e *Event) bool { return yield(e, nil) })
			if errors.Is(err, errStopped) {
				return
			}
			if s.ctx.Err() != nil {
				yield(nil, s.ctx.Err())
				return
			}
			if err != nil && !isTransient(err) {
				yield(nil, err)
				return
			}
			if err != nil || wait == 0 {
				wait = max(wait, min(s.client.timing.backoff(failures), maxBackoff))
				failures++
			}
			if s.options.OnDrop != nil {
				s.options.OnDrop(err, wait)
			}
			if err := s.client.timing.sleep(s.ctx, wait); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// isTransient reports whether a stream that ended with this error should reconnect.
func isTransient(err error) bool {
	var p *Problem
	return !errors.As(err, &p) || p.mayRetry(true) || p.Code == "" && p.Status >= 500
}

// errStopped means that the caller has left the loop over All.
var errStopped = errors.New("stopped")

// follow reads one connection until it ends. It returns how long the service wants the client to wait, and the reason.
func (s *EventStream) follow(ready func(), yield func(*Event) bool) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	silence := s.client.timing.silence
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	res, err := s.open(ctx)
	if err != nil {
		return retryDelay(err), connectionCause(ctx, err)
	}
	defer res.Body.Close()
	in := newFrames(res.Body, func() { watch.Reset(silence) })
	for {
		f, err := in.next()
		if errors.Is(err, io.EOF) {
			return max(in.retry, reconnect), nil // closed by the service
		}
		if err != nil {
			return 0, connectionCause(ctx, &ConnectionError{Err: err})
		}
		if err := s.handleFrame(f, ready, yield); err != nil {
			return retryDelay(err), err
		}
	}
}

func (s *EventStream) open(ctx context.Context) (*http.Response, error) {
	r := Request{Path: s.path, Query: url.Values{}, Header: http.Header{"Accept": {"text/event-stream"}}}
	if len(s.options.Events) > 0 {
		r.Query.Set("events", strings.Join(s.options.Events, ","))
	}
	if s.options.AccountID != "" {
		r.Query.Set("accountId", s.options.AccountID)
	}
	if at := s.Cursor(); at != "" {
		r.Header.Set("Last-Event-ID", at)
	}
	req, err := s.client.newRequest(ctx, r, nil)
	if err != nil {
		return nil, err
	}
	return s.client.send(req)
}

// handleFrame handles a frame: it yields an event, or updates the stream's state. An event is recorded as seen before
// it is yielded.
func (s *EventStream) handleFrame(f frame, ready func(), yield func(*Event) bool) error {
	switch f.event {
	case "heartbeat":
		return nil
	case "ready":
		var r StreamReady
		if err := json.Unmarshal(f.data, &r); err != nil {
			return &ConnectionError{Err: fmt.Errorf("decode the start of the stream %q: %w", f.data, err)}
		}
		ready()
		// Resume at this position if the connection drops before the first event.
		if s.Cursor() == "" || r.Gap {
			s.cursor.Store(&r.Cursor)
		}
		if s.options.OnReady != nil {
			s.options.OnReady(r)
		}
		return nil
	case "problem":
		return newProblem(0, http.Header{}, f.data)
	}
	e := &Event{}
	if err := json.Unmarshal(f.data, e); err != nil {
		return &ConnectionError{Err: fmt.Errorf("decode an event: %w", err)}
	}
	if f.id != "" {
		s.cursor.Store(&f.id)
	}
	if !s.seen.add(e.ID) {
		return nil
	}
	e.Cursor = f.id
	if !yield(e) {
		return errStopped
	}
	return nil
}

// retryDelay returns the delay that a problem asks for, or 0.
func retryDelay(err error) time.Duration {
	var p *Problem
	if errors.As(err, &p) {
		return time.Duration(p.RetryAfterSec) * time.Second
	}
	return 0
}

// connectionCause replaces the error of a connection that the silence timer ended by errSilent.
func connectionCause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); errors.Is(why, errSilent) {
		return &ConnectionError{Err: why}
	}
	return err
}

// seenIDs holds the ids of the last events, to drop duplicates.
type seenIDs struct {
	ids   map[string]bool
	order []string
}

const maxSeenIDs = 1024

// add records an id and reports whether it is new.
func (r *seenIDs) add(id string) bool {
	if r.ids[id] {
		return false
	}
	r.ids[id] = true
	r.order = append(r.order, id)
	if len(r.order) > maxSeenIDs {
		delete(r.ids, r.order[0])
		r.order = r.order[1:]
	}
	return true
}
