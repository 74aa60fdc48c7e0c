// Package docs serves the documentation: the documents of docs/ as pages at /docs, the reference (package reference),
// search, the page at the address of the service, and the same for programs, as Markdown and as llms.txt. It also serves the pages of problems, to which errors
// of the API link.
//
// Pages are rendered on first use and kept (site.go, page.go). They are the same for every reader, need no script and
// load nothing from other sites. nav.go has the navigation; package markdown renders Markdown as HTML. Start reading at
// Docs.build.
package docs

import (
	"embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagedoor/stagedoor/internal/base/id"
	"github.com/stagedoor/stagedoor/internal/server/accesslog"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

//go:embed static templates
var files embed.FS

// Deps are the dependencies of the documentation.
type Deps struct {
	// PublicURL is the address at which readers reach the service, without a trailing slash.
	PublicURL string
	// OpenAPI returns the document of the API. *api.API implements it.
	OpenAPI func() ([]byte, error)
	// Plans are the plans that the page of limits shows.
	Plans *org.Plans
	Log   *slog.Logger
	Now   func() time.Time
}

// Docs serves the documentation.
type Docs struct {
	deps      Deps
	mux       *http.ServeMux
	templates *template.Template
	assets    map[string]*staticResponse
	landing   func() (*staticResponse, error)
	// version is a hash of all assets. It is part of their address, so browsers may cache them forever.
	version string
	// built is the site for a version of the plans. It is built with the first request, so that the server does not wait
	// for it at start.
	mu    sync.Mutex
	built builtSite
}

// New loads the templates and assets.
func New(d Deps) (*Docs, error) {
	s := &Docs{deps: d, mux: http.NewServeMux(), assets: map[string]*staticResponse{}}
	if err := s.loadAssets(); err != nil {
		return nil, err
	}
	var err error
	if s.templates, err = template.New("docs").Funcs(template.FuncMap{
		"asset": func(name string) string { return "/docs/-/" + s.version + "/" + name },
	}).ParseFS(files, "templates/*.html"); err != nil {
		return nil, fmt.Errorf("parse pages: %w", err)
	}
	s.landing = sync.OnceValues(s.renderLanding)
	s.routes()
	return s, nil
}

// Before returns a handler that serves the documentation, and passes other paths to next.
func (s *Docs) Before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/docs", path == "/docs.md", strings.HasPrefix(path, "/docs/"), strings.HasPrefix(path, "/llms") && slices.Contains(textFiles(), path[1:]),
			path == "/" && wantsPage(r): // Programs get a problem document at /.
			s.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// wantsPage reports whether a browser makes a request, for a person who wants to see a page.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// ServeHTTP serves a request and logs one line.
func (s *Docs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start, request := s.deps.Now(), id.New[id.Request]()
	recorder := &accesslog.Recorder{ResponseWriter: w}
	secure(w.Header())
	defer func() {
		accesslog.Line{Request: request, Page: "docs", Took: s.deps.Now().Sub(start), About: nil, Fault: nil}.Write(s.deps.Log, r, recorder)
	}()
	defer func() {
		if reason := recover(); reason != nil {
			accesslog.LogPanic(s.deps.Log, r, request, reason)
			http.Error(recorder, "Something went wrong on our side.", http.StatusInternalServerError)
		}
	}()
	s.mux.ServeHTTP(recorder, r)
}

// policy lets a page load its own style sheet, script and images and submit its search form, and nothing else.
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
