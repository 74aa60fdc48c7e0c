// Package accesslog holds what all servers share: a response recorder and the log of a panic; and the log line of the
// servers of HTML pages (connectpages, dashboard, docs). The address of a page may contain a token, so the line names
// the page and never the address. The API has its own log line in server/endpoint.
package accesslog

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
)

// Recorder records the status and the size of a response.
type Recorder struct {
	http.ResponseWriter
	// Status is the final status; 0 until it is written.
	Status int
	Bytes  int64
}

// WriteHeader records the first final status. Informational ones (1xx) may precede it.
func (r *Recorder) WriteHeader(status int) {
	if r.Status == 0 && status >= http.StatusOK {
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

// LogPanic logs a recovered panic: its type and not its value, which may contain what a user typed. It panics again
// with http.ErrAbortHandler, which net/http uses to end a request.
func LogPanic(log *slog.Logger, r *http.Request, request id.Request, reason any) {
	if reason == http.ErrAbortHandler { //nolint:errorlint // a sentinel of net/http that is compared, not wrapped
		panic(reason)
	}
	log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String(logkey.RequestID, string(request)),
		slog.String(logkey.Type, fmt.Sprintf("%T", reason)), slog.String(logkey.Stack, string(debug.Stack())))
}

// Line is the log line of a request.
type Line struct {
	Request id.Request
	Page    string
	Took    time.Duration
	// About identifies what the request was about, for example an org.
	About []slog.Attr
	// Fault is the error on our side; nil for none.
	Fault error
}

func (l Line) Write(log *slog.Logger, r *http.Request, answered *Recorder) {
	status := answered.Status
	if status == 0 {
		status = http.StatusOK
	}
	attrs := make([]slog.Attr, 0, 8+len(l.About))
	attrs = append(attrs, slog.String(logkey.RequestID, string(l.Request)), slog.String(logkey.Method, r.Method), slog.String(logkey.Operation, l.Page),
		slog.Int(logkey.Status, status), slog.Duration(logkey.Took, l.Took), slog.Int64(logkey.Bytes, answered.Bytes))
	attrs = append(attrs, l.About...)
	level := slog.LevelInfo
	if l.Fault != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.Any(logkey.Error, l.Fault))
	}
	log.LogAttrs(r.Context(), level, "request", attrs...)
}
