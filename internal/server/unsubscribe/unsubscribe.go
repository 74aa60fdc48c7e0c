// Package unsubscribe serves the page on which a recipient stops the notices of an organisation, and the request with which
// mail programs do it with one click (RFC 8058). The token in the address is the permission; no one signs in. Start reading
// at Before.
package unsubscribe

import (
	_ "embed"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/base/ratelimit"
	"github.com/stagedoor/stagedoor/internal/delivery/notice"
	"github.com/stagedoor/stagedoor/internal/engine/postgres"
	"github.com/stagedoor/stagedoor/internal/server/accesslog"
)

//go:embed page.html
var pageText string

// Deps are the dependencies.
type Deps struct {
	Notices *notice.Notices
	// Source returns the network that a request comes from.
	Source func(r *http.Request) string
	Log    *slog.Logger
	Now    func() time.Time
}

// Page serves the page.
type Page struct {
	deps  Deps
	page  *template.Template
	visit ratelimit.Pace
}

const (
	// perMinute bounds the requests of one source.
	perMinute = 60
	maxBody   = 4 << 10
)

// New returns the page.
func New(d Deps) *Page {
	return &Page{deps: d, page: template.Must(template.New("page").Parse(pageText)), visit: ratelimit.New(perMinute, time.Minute, d.Now)}
}

// Before returns a handler that serves the page, and passes everything else to next.
func (p *Page) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.URL.Path, notice.UnsubscribePath)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		p.serve(w, r, token)
	})
}

// view is what the page shows. Subscribed is the state after the request; Done means that the request has set it.
type view struct {
	Title, Org       string
	Done, Subscribed bool
	// Problem replaces everything else.
	Problem string
}

func (p *Page) serve(w http.ResponseWriter, r *http.Request, token string) {
	request, started, rec := id.New[id.Request](), p.deps.Now(), &accesslog.Recorder{ResponseWriter: w}
	h := rec.Header()
	h.Set("X-Request-Id", string(request))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Robots-Tag", "noindex")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("Content-Type", "text/html; charset=utf-8")
	v, status, fault := p.handle(rec, r, token)
	rec.WriteHeader(status)
	if r.Method != http.MethodHead {
		if err := p.page.Execute(rec, v); err != nil { // the reader may have disconnected
			p.deps.Log.LogAttrs(r.Context(), slog.LevelDebug, "page not written", slog.Any(logkey.Error, err))
		}
	}
	accesslog.Line{Request: request, Page: "unsubscribe", Took: p.deps.Now().Sub(started), Fault: fault}.Write(p.deps.Log, r, rec)
}

// handle returns what the page shows, and its status. Opening the page changes nothing, because mail scanners open links.
func (p *Page) handle(w http.ResponseWriter, r *http.Request, token string) (v view, status int, fault error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, HEAD, POST")
		return view{Title: "Not allowed", Problem: "Open this address in a browser."}, http.StatusMethodNotAllowed, nil
	}
	if !p.visit.Take(p.deps.Source(r)) {
		w.Header().Set("Retry-After", "60")
		return view{Title: "Too many requests", Problem: "Wait a minute and try again."}, http.StatusTooManyRequests, nil
	}
	to, err := p.deps.Notices.ReadSubscription(r.Context(), token)
	if err == nil && r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		v.Done, v.Subscribed = true, r.PostFormValue("do") == "subscribe"
		err = p.deps.Notices.SetSubscribed(r.Context(), to, v.Subscribed)
	}
	if err != nil {
		if known := problem.Of(err); known.Kind.Code != problem.Internal.Code && !postgres.Unavailable(err) {
			return view{Title: "This link is not valid", Problem: "Copy the whole link from the mail."}, http.StatusNotFound, nil
		}
		w.Header().Set("Retry-After", "2")
		return view{Title: "Try again", Problem: "The service cannot reach its database right now. Try again in a few seconds."}, http.StatusServiceUnavailable, err
	}
	v.Org = to.OrgName
	switch {
	case v.Subscribed:
		v.Title = "You are subscribed again"
	case v.Done:
		v.Title = "You are unsubscribed"
	default:
		v.Title = "Unsubscribe"
	}
	return v, http.StatusOK, nil
}
