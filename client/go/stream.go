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

// StreamOptions says which events to follow.
type StreamOptions struct {
	// Since goes on behind a cursor: Event.Cursor or EventStream.Cursor of before. "0" is from the oldest event there is;
	// empty, from now on.
	Since string
	// Events chooses kinds: names, families such as message* and account.*, and !name for what to leave out. Empty, all.
	Events []string
	// AccountID keeps the organisation's stream to one account.
	AccountID string
	// OnReady is told of every connection, where it begins.
	OnReady func(StreamReady)
	// OnDrop is told why a connection ended that will be resumed, and after how long.
	OnDrop func(err error, wait time.Duration)
}

// StreamReady says where a connection begins.
type StreamReady struct {
	AccountID string `json:"accountId"`
	// Cursor is where it stands; Oldest, the oldest that can still be read.
	Cursor string `json:"cursor"`
	Oldest string `json:"oldest"`
	// Resumed means that it goes on behind a cursor; Gap, that events behind it are no longer kept.
	Resumed bool `json:"resumed"`
	Gap     bool `json:"gap"`
}

// EventStream follows events. It resumes by itself after a drop, on whichever server answers then: every event comes once
// and in order.
type EventStream struct {
	client  *Client
	ctx     context.Context
	path    string
	options StreamOptions
	cursor  atomic.Pointer[string]
	seen    recent
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
	s := &EventStream{client: c, ctx: ctx, path: path, options: o, seen: recent{ids: map[string]bool{}}}
	s.cursor.Store(&o.Since)
	return s
}

// Cursor is where the stream stands: that of the last event that All gave out, or where it began. It may be read while
// another goroutine ranges over All. StreamOptions.Since takes it.
func (s *EventStream) Cursor() string { return *s.cursor.Load() }

const (
	// reconnect is how soon an ended stream is opened again if the service does not say.
	reconnect = time.Second
	// longestBackoff is how far apart tries get.
	longestBackoff = 30 * time.Second
)

var errSilent = errors.New("the stream has been silent for too long")

// All gives out events until the context ends or the service refuses for good; the error then is the last thing that comes.
// Range over it once.
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
			if err != nil && !passing(err) {
				yield(nil, err)
				return
			}
			if err != nil || wait == 0 {
				wait = max(wait, min(s.client.pace.backoff(failures), longestBackoff))
				failures++
			}
			if s.options.OnDrop != nil {
				s.options.OnDrop(err, wait)
			}
			if err := s.client.pace.sleep(s.ctx, wait); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// passing says whether a stream that ended with this error is worth resuming.
func passing(err error) bool {
	var p *Problem
	return !errors.As(err, &p) || p.again(true) || p.Code == "" && p.Status >= 500
}

// errStopped means that who ranges has stopped.
var errStopped = errors.New("stopped")

// follow holds one connection until it ends, and says how long to stay away.
func (s *EventStream) follow(ready func(), yield func(*Event) bool) (time.Duration, error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	defer cancel(nil)
	silence := s.client.pace.silence
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	res, err := s.open(ctx)
	if err != nil {
		return waitOf(err), cause(ctx, err)
	}
	defer res.Body.Close()
	in := newFrames(res.Body, func() { watch.Reset(silence) })
	for {
		f, err := in.next()
		if errors.Is(err, io.EOF) {
			return max(in.retry, reconnect), nil // the service ended it; it says when to come back
		}
		if err != nil {
			return 0, cause(ctx, &ConnectionError{Err: err})
		}
		if err := s.take(f, ready, yield); err != nil {
			return waitOf(err), err
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

// take does what a frame says.
func (s *EventStream) take(f frame, ready func(), yield func(*Event) bool) error {
	switch f.event {
	case "heartbeat":
		return nil
	case "ready":
		var r StreamReady
		if err := json.Unmarshal(f.data, &r); err != nil {
			return &ConnectionError{Err: fmt.Errorf("a stream began with %q: %w", f.data, err)}
		}
		ready()
		// Where it begins now is where it goes on after a drop, even if nothing has happened until then.
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
		return &ConnectionError{Err: fmt.Errorf("an event is not what was expected: %w", err)}
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

// waitOf is how long a problem wants to be left alone.
func waitOf(err error) time.Duration {
	var p *Problem
	if errors.As(err, &p) {
		return time.Duration(p.RetryAfterSec) * time.Second
	}
	return 0
}

// cause says why a connection was ended, if we did it ourselves.
func cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); errors.Is(why, errSilent) {
		return &ConnectionError{Err: why}
	}
	return err
}

// recent remembers the last ids, so that what comes twice is given out once.
type recent struct {
	ids   map[string]bool
	order []string
}

const remembered = 1024

func (r *recent) add(id string) bool {
	if r.ids[id] {
		return false
	}
	r.ids[id] = true
	r.order = append(r.order, id)
	if len(r.order) > remembered {
		delete(r.ids, r.order[0])
		r.order = r.order[1:]
	}
	return true
}
