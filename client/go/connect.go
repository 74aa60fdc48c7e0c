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

// UntilAction reports whether you or the creator must act, or the attempt has ended. Use it with WaitFor.
func UntilAction(a *Attempt) bool { return a.State != "pending" }

// UntilEnd reports whether the attempt has succeeded or failed. Use it with WaitFor.
func UntilEnd(a *Attempt) bool {
	return a.State == "completed_success" || a.State == "completed_failed"
}

// longPoll is how long the service may delay a response until the attempt changes, in seconds.
const longPoll = 25

// WaitFor waits until the function until returns true for an attempt, or the attempt has ended, and returns the
// attempt. A failed attempt is not an error: check its State. Use the context to limit the wait.
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
			// Long polling: from now on the service responds when the attempt changes.
			r.Header.Set("If-None-Match", tag)
			r.Query.Set("wait", strconv.Itoa(longPoll))
			continue
		}
		pause := 2 * time.Second
		if a.PollAfterSec != nil {
			pause = time.Duration(*a.PollAfterSec) * time.Second
		}
		if err := s.client.timing.sleep(ctx, max(pause-time.Since(began), 0)); err != nil {
			return nil, err
		}
	}
}

func attemptPath(attemptID string) string { return "/v1/connect/login/" + url.PathEscape(attemptID) }

// Watch yields an attempt immediately and after every change, until it has ended. It reconnects automatically.
func (s *ConnectService) Watch(ctx context.Context, attemptID string) iter.Seq2[*Attempt, error] {
	return func(yield func(*Attempt, error) bool) {
		var last string
		for failures := 0; ; failures++ {
			ended, err := s.watchOnce(ctx, attemptID, func(raw []byte) (bool, error) {
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
			if ctx.Err() != nil || err != nil && !isTransient(err) {
				yield(nil, errors.Join(ctx.Err(), err))
				return
			}
			if err := s.client.timing.sleep(ctx, max(retryDelay(err), s.client.timing.backoff(min(failures, 5)))); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// watchOnce reads one connection and calls handle for every state. It reports whether handle asked to stop.
func (s *ConnectService) watchOnce(
	ctx context.Context, attemptID string, handle func([]byte) (more bool, err error),
) (bool, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := s.client.timing.silence
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	req, err := s.client.newRequest(ctx, Request{Path: attemptPath(attemptID) + "/events", Header: http.Header{"Accept": {"text/event-stream"}}}, nil)
	if err != nil {
		return false, err
	}
	res, err := s.client.send(req)
	if err != nil {
		return false, connectionCause(ctx, err)
	}
	defer res.Body.Close()
	in := newFrames(res.Body, func() { quiet.Reset(silence) })
	for {
		f, err := in.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return false, nil
			}
			return false, connectionCause(ctx, &ConnectionError{Err: err})
		}
		switch f.event {
		case "problem":
			return false, newProblem(0, http.Header{}, f.data)
		case "attempt":
			if more, err := handle(f.data); err != nil || !more {
				return err == nil, err
			}
		}
	}
}

// QRFormat is the format of a QR code.
type QRFormat string

// Formats of QR codes.
const (
	QRSVG  QRFormat = "image/svg+xml"
	QRPNG  QRFormat = "image/png"
	QRText QRFormat = "text/plain"
)

// GetQR returns the QR code that the creator scans, as a picture or as text for a terminal. It changes about once a
// minute: get it again at PhoneURLExpiresAt.
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
