// Package accesslog is what the faces that show pages have in common: a record of what was answered, and what is
// logged of it. A page's address may hold a token, so a log names the page and never the address.
package accesslog

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
)

// Recorder notes what was answered.
type Recorder struct {
	http.ResponseWriter
	// Status is 0 until there is one.
	Status int
	Bytes  int64
}

// WriteHeader notes the first status.
func (r *Recorder) WriteHeader(status int) {
	if r.Status == 0 {
		r.Status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *Recorder) Write(b []byte) (int, error) {
	if r.Status == 0 {
		r.Status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.Bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Panicked logs a panic, whose reason it is given: the type and not the value, which may carry anything that somebody typed. A panic by
// which net/http ends a request goes on.
func Panicked(log *slog.Logger, r *http.Request, request id.Request, reason any) {
	if reason == http.ErrAbortHandler { //nolint:errorlint // a sentinel of net/http that is compared, not wrapped
		panic(reason)
	}
	log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String("request_id", string(request)),
		slog.String("type", fmt.Sprintf("%T", reason)), slog.String("stack", string(debug.Stack())))
}

// Line is the one line that is logged of a request.
type Line struct {
	Request id.Request
	// Page is its name.
	Page string
	Took time.Duration
	// About says whom or what it was about.
	About []slog.Attr
	// Fault is what went wrong on our side; nil for nothing.
	Fault error
}

// Write logs it.
func (l Line) Write(log *slog.Logger, r *http.Request, answered *Recorder) {
	status := answered.Status
	if status == 0 {
		status = http.StatusOK
	}
	attrs := make([]slog.Attr, 0, 8+len(l.About))
	attrs = append(attrs, slog.String("request_id", string(l.Request)), slog.String("method", r.Method), slog.String("operation", l.Page),
		slog.Int("status", status), slog.Duration("took", l.Took), slog.Int64("bytes", answered.Bytes))
	attrs = append(attrs, l.About...)
	level := slog.LevelInfo
	if l.Fault != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.Any("error", l.Fault))
	}
	log.LogAttrs(r.Context(), level, "request", attrs...)
}
