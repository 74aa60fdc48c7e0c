// Package docs is the face that developers read: the documents of docs/ as pages at /docs, the reference (package reference), search, and
// the same for programs, as Markdown and as llms.txt. The pages of problems, to which the API's errors link, are among them.
//
// Pages are made when they are first asked for and kept (site.go, page.go); they are the same for everybody, need no script and load nothing
// from elsewhere. The navigation is nav.go. Markdown becomes HTML in package markdown.
package docs

import (
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/events/event"
	"github.com/stagedoor/stagedoor/internal/platform/catalog"
	"github.com/stagedoor/stagedoor/internal/server/accesslog"
)

//go:embed static templates
var files embed.FS

// Deps is what the face needs.
type Deps struct {
	// PublicURL is where readers reach the service, without a slash at its end.
	PublicURL string
	// OpenAPI gives the document of the API; *api.API has it.
	OpenAPI func() ([]byte, error)
	// Catalog has the platform's events, Events all kinds.
	Catalog *catalog.Catalog
	Events  []event.Kind
	Log     *slog.Logger
	Now     func() time.Time
}

// Docs serves the face.
type Docs struct {
	Deps
	mux       *http.ServeMux
	templates *template.Template
	assets    map[string]*answer
	// version is of all assets together; it makes their addresses good for ever.
	version string
	// site is made with the first request: the server does not wait for it when it starts.
	site func() (*site, error)
}

// New makes the face.
func New(d Deps) (*Docs, error) {
	s := &Docs{Deps: d, mux: http.NewServeMux(), assets: map[string]*answer{}}
	if err := s.loadAssets(); err != nil {
		return nil, err
	}
	var err error
	if s.templates, err = template.New("docs").Funcs(template.FuncMap{
		"asset": func(name string) string { return "/docs/-/" + s.version + "/" + name },
	}).ParseFS(files, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	s.site = sync.OnceValues(s.build)
	s.routes()
	return s, nil
}

// Before puts the pages in front of another handler of the same listener.
func (s *Docs) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/docs", path == "/docs.md", strings.HasPrefix(path, "/docs/"), path == "/llms.txt", path == "/llms-full.txt":
			s.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ServeHTTP answers, and logs one line.
func (s *Docs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began, request := s.Now(), id.New[id.Request]()
	answered := &accesslog.Recorder{ResponseWriter: w}
	secure(w.Header())
	defer func() {
		accesslog.Line{Request: request, Page: "docs", Took: s.Now().Sub(began), About: nil, Fault: nil}.Write(s.Log, r, answered)
	}()
	defer func() {
		if reason := recover(); reason != nil {
			accesslog.Panicked(s.Log, r, request, reason)
			http.Error(answered, "Something went wrong on our side.", http.StatusInternalServerError)
		}
	}()
	s.mux.ServeHTTP(answered, r)
}

// policy lets a page load its own style, script and pictures, send its search form, and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}
