package stagedoor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// UntilAction is reached when something is asked of you or the creator, or the attempt has ended.
func UntilAction(a *Attempt) bool { return a.State != "pending" }

// UntilEnd is reached when the attempt has succeeded or failed.
func UntilEnd(a *Attempt) bool {
	return a.State == "completed_success" || a.State == "completed_failed"
}

// longPoll is for how many seconds the service holds an answer until there is news.
const longPoll = 25

// WaitFor waits until an attempt is as until says, and returns it as it then is. An attempt that has ended is always
// returned; one that failed is no error: look at its State. Bound the wait by the context.
func (s *ConnectService) WaitFor(ctx context.Context, attemptID string, until func(*Attempt) bool) (*Attempt, error) {
	r := Request{Path: attemptPath(attemptID), Query: url.Values{}, Header: http.Header{}}
	var a *Attempt
	for {
		began := time.Now()
		res, err := s.client.Request(ctx, r)
		if err != nil {
			return nil, err
		}
		if res.Status != http.StatusNotModified {
			a = &Attempt{}
			if err := res.JSON(a); err != nil {
				return nil, err
			}
			if until(a) || UntilEnd(a) {
				return a, nil
			}
		}
		if tag := res.Header.Get("ETag"); tag != "" {
			// From now on the answer is held until there is another one.
			r.Header.Set("If-None-Match", tag)
			r.Query.Set("wait", strconv.Itoa(longPoll))
			continue
		}
		pause := 2 * time.Second
		if a.PollAfterSec != nil {
			pause = time.Duration(*a.PollAfterSec) * time.Second
		}
		if err := s.client.pace.sleep(ctx, max(pause-time.Since(began), 0)); err != nil {
			return nil, err
		}
	}
}

func attemptPath(attemptID string) string { return "/v1/connect/login/" + url.PathEscape(attemptID) }

// Watch gives out an attempt at once and whenever it changes, until it has ended. It resumes by itself after a drop.
func (s *ConnectService) Watch(ctx context.Context, attemptID string) iter.Seq2[*Attempt, error] {
	return func(yield func(*Attempt, error) bool) {
		var last string
		for failures := 0; ; failures++ {
			ended, err := s.watch(ctx, attemptID, func(raw []byte) (bool, error) {
				if string(raw) == last {
					return true, nil
				}
				a := &Attempt{}
				if err := json.Unmarshal(raw, a); err != nil {
					return false, err
				}
				last, failures = string(raw), 0
				return yield(a, nil) && !UntilEnd(a), nil
			})
			if ended {
				return
			}
			if ctx.Err() != nil || err != nil && !passing(err) {
				yield(nil, errors.Join(ctx.Err(), err))
				return
			}
			if err := s.client.pace.sleep(ctx, max(waitOf(err), s.client.pace.backoff(min(failures, 5)))); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// watch holds one connection. It says whether whom it tells wants no more.
func (s *ConnectService) watch(ctx context.Context, attemptID string, tell func([]byte) (bool, error)) (bool, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := s.client.pace.silence
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	req, err := s.client.newRequest(ctx, Request{Path: attemptPath(attemptID) + "/events", Header: http.Header{"Accept": {"text/event-stream"}}}, nil)
	if err != nil {
		return false, err
	}
	res, err := s.client.send(req)
	if err != nil {
		return false, cause(ctx, err)
	}
	defer res.Body.Close()
	in := newFrames(res.Body, func() { quiet.Reset(silence) })
	for {
		f, err := in.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return false, nil
			}
			return false, cause(ctx, &ConnectionError{Err: err})
		}
		switch f.event {
		case "problem":
			return false, newProblem(0, http.Header{}, f.data)
		case "attempt":
			if more, err := tell(f.data); err != nil || !more {
				return err == nil, err
			}
		}
	}
}

// QRFormat is what a QR code is drawn as.
type QRFormat string

// Formats.
const (
	QRSVG  QRFormat = "image/svg+xml"
	QRPNG  QRFormat = "image/png"
	QRText QRFormat = "text/plain"
)

// GetQR draws the QR code that the creator scans, as a picture or as text for a terminal. It changes about once a minute:
// get it again at PhoneURLExpiresAt.
func (s *ConnectService) GetQR(ctx context.Context, attemptID string, format QRFormat, options ...CallOption) ([]byte, error) {
	c := call{request: Request{Path: attemptPath(attemptID) + "/qr"}}
	for _, o := range append(options, WithHeader("Accept", string(format))) {
		o(&c)
	}
	res, err := s.client.Request(ctx, c.request)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
