// Package page serves the sandbox's browser pages: the page at / that shows and controls everything, the received mails
// at /mails, the creator's phone at /qr/{token}, the selfie check at /verify/{token}, and the authorize page of OAuth at
// /oauth/authorize.
//
// The page at / consists of static files (static/) that use /control, and a stream of frames (frames.go). The others have
// no scripts. Those of the phone (phone.go) are opened on phones and other machines.
package page

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"slices"

	"github.com/stagedoor/stagedoor/sandbox/auth"
	"github.com/stagedoor/stagedoor/sandbox/gate"
	"github.com/stagedoor/stagedoor/sandbox/mailbox"
	"github.com/stagedoor/stagedoor/sandbox/world"
)

//go:embed static templates
var files embed.FS

// policy allows a page to load only files of its own origin.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Deps holds the dependencies of a Page.
type Deps struct {
	World *world.World
	Auth  *auth.Auth
	Mails *mailbox.Mailbox
	Log   *slog.Logger
}

// Page serves the pages.
type Page struct {
	deps      Deps
	templates *template.Template
	tag       string // ETag of all files together
}

// New returns a Page.
func New(d Deps) *Page {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		sum.Write(content)
		return err
	})
	if err != nil {
		panic(err) // the files are in the binary
	}
	return &Page{
		deps: d, tag: `"` + hex.EncodeToString(sum.Sum(nil)[:12]) + `"`,
		templates: template.Must(template.ParseFS(files, "templates/*.html")),
	}
}

func (p *Page) Mount(mux *http.ServeMux) {
	// A form on another site must not act for the creator.
	same := http.NewCrossOriginProtection()
	mux.Handle("GET /{$}", guarded(p.home))
	mux.Handle("GET /mails", guarded(p.mails))
	mux.Handle("GET /page/{file}", guarded(p.file))
	mux.Handle("GET /page/frames", guarded(p.frames))
	mux.Handle("GET /qr/{token}", guarded(p.openQR))
	mux.Handle("POST /qr/{token}", same.Handler(guarded(p.answerQR)))
	mux.Handle("GET /oauth/authorize", guarded(p.authorize))
	mux.Handle("POST /oauth/authorize", same.Handler(guarded(p.answerAuthorize)))
	mux.Handle("GET /verify/{token}", guarded(p.openSelfie))
	mux.Handle("POST /verify/{token}", same.Handler(guarded(p.takeSelfie)))
}

// guarded sets the headers that every response has.
func guarded(handle http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		// With no-referrer, a form would be sent without its origin and rejected as one of another site.
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		handle(w, r)
	})
}

func (p *Page) home(w http.ResponseWriter, _ *http.Request) {
	p.show(w, http.StatusOK, "home.html", nil)
}

// mostShown limits how many mails the page shows.
const mostShown = 100

// mails shows the newest mails, newest first. Like /control, it answers on loopback only, because mails have codes.
func (p *Page) mails(w http.ResponseWriter, r *http.Request) {
	if !gate.Local(r) {
		http.Error(w, "Mails are available on this machine only.", http.StatusForbidden)
		return
	}
	to := r.URL.Query().Get("to")
	list := p.deps.Mails.Mails(to)
	slices.Reverse(list)
	list = list[:min(len(list), mostShown)]
	p.show(w, http.StatusOK, "mails.html", map[string]any{"To": to, "Mails": list})
}

// file serves a file of static/.
func (p *Page) file(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", p.tag)
	http.ServeFileFS(w, r, files, path.Join("static", r.PathValue("file")))
}

func (p *Page) show(w http.ResponseWriter, status int, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := p.templates.ExecuteTemplate(w, name, data); err != nil {
		p.deps.Log.Error("rendering a page failed", slog.String("page", name), slog.String("error", err.Error()))
	}
}
