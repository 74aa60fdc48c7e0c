package docs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"path"
	"strings"

	"github.com/stagedoor/stagedoor/docs"
	"github.com/stagedoor/stagedoor/internal/base/logkey"
)

func (s *Docs) routes() {
	s.mux.HandleFunc("GET /docs", s.getPage)
	s.mux.HandleFunc("GET /docs.md", s.getPage)
	s.mux.HandleFunc("GET /docs/", s.getPage)
	s.mux.HandleFunc("GET /docs/-/{version}/{file}", s.getAsset)
	s.mux.HandleFunc("GET /docs/search", s.getSearch)
	s.mux.HandleFunc("GET /problems", s.getPage)
	s.mux.HandleFunc("GET /problems/", s.getPage)
	s.mux.HandleFunc("GET /{$}", s.getLanding)
	s.mux.HandleFunc("GET /docs/sitemap.xml", s.getText)
	for _, path := range textFiles() {
		s.mux.HandleFunc("GET /"+path, s.getText)
		s.mux.HandleFunc("GET /docs/"+path, s.getText)
	}
}

// kinds are the media types of our own files, and of files that documents link to.
var kinds = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".md": "text/markdown; charset=utf-8",
	".go": "text/plain; charset=utf-8", ".ts": "text/plain; charset=utf-8", ".py": "text/plain; charset=utf-8", ".json": "application/json",
	".mjs": "text/plain; charset=utf-8",
}

func (s *Docs) loadAssets() error {
	all := sha256.New()
	err := fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		all.Write(content)
		s.assets[path.Base(name)] = newStaticResponse(kinds[path.Ext(name)], content)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read assets: %w", err)
	}
	s.version = hex.EncodeToString(all.Sum(nil)[:6])
	return nil
}

// getAsset serves a file of the pages. Its address contains the version of the files, so it may be cached forever.
func (s *Docs) getAsset(w http.ResponseWriter, r *http.Request) {
	if file := s.assets[r.PathValue("file")]; file != nil && r.PathValue("version") == s.version {
		file.write(w, r, http.StatusOK, cacheLong)
		return
	}
	s.notFound(w, r)
}

// getPage serves a page, its Markdown if the address ends in .md, or a file that a document links to.
func (s *Docs) getPage(w http.ResponseWriter, r *http.Request) {
	t, ok := s.loadSite(w, r)
	if !ok {
		return
	}
	at := r.URL.Path
	if code, ok := strings.CutPrefix(at, "/problems"); ok {
		at = "/docs/problems" + code
	}
	if at != "/docs" && strings.HasSuffix(at, "/") && t.byPath[strings.TrimRight(at, "/")] != nil {
		http.Redirect(w, r, strings.TrimRight(at, "/"), http.StatusMovedPermanently)
		return
	}
	if p := t.byPath[at]; p != nil {
		page, err := p.html()
		if err != nil {
			s.fail(w, r, err)
			return
		}
		w.Header().Set("Link", `<`+p.path+`.md>; rel="alternate"; type="text/markdown"`)
		page.write(w, r, http.StatusOK, cacheShort)
		return
	}
	if name, ok := strings.CutSuffix(at, ".md"); ok {
		if p := t.byPath[name]; p != nil {
			newStaticResponse(kinds[".md"], p.source).write(w, r, http.StatusOK, cacheShort)
			return
		}
		if p := t.byFile[strings.TrimPrefix(at, "/docs/")]; p != nil { // The name of the file in the repository.
			http.Redirect(w, r, p.path+".md", http.StatusMovedPermanently)
			return
		}
	}
	s.getFile(w, r, strings.TrimPrefix(at, "/docs/"))
}

// getFile serves a program that a document links to, as text.
func (s *Docs) getFile(w http.ResponseWriter, r *http.Request, name string) {
	kind := kinds[path.Ext(name)]
	if kind == "" || path.Ext(name) == ".md" || !fs.ValidPath(name) {
		s.notFound(w, r)
		return
	}
	content, err := docs.Files.ReadFile(name)
	if err != nil {
		s.notFound(w, r)
		return
	}
	newStaticResponse(kind, content).write(w, r, http.StatusOK, cacheShort)
}

// getText serves llms.txt and similar files.
func (s *Docs) getText(w http.ResponseWriter, r *http.Request) {
	if t, ok := s.loadSite(w, r); ok {
		t.texts()[strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/docs"), "/")].write(w, r, http.StatusOK, cacheShort)
	}
}

// maxQuery bounds a search query, in bytes.
const maxQuery = 200

// getLanding serves the page that people see at the address of the service.
func (s *Docs) getLanding(w http.ResponseWriter, r *http.Request) {
	page, err := s.landing()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Add("Vary", "Accept")
	page.write(w, r, http.StatusOK, cacheShort)
}

// getSearch serves the search page.
func (s *Docs) getSearch(w http.ResponseWriter, r *http.Request) {
	t, ok := s.loadSite(w, r)
	if !ok {
		return
	}
	query := strings.ToValidUTF8(r.URL.Query().Get("q"), "")
	query = strings.TrimSpace(query[:min(len(query), maxQuery)])
	title := "Search"
	if query != "" {
		title = "Search: " + query
	}
	page, err := s.execute(view{Title: title, Path: "/docs/search", Nav: t.navigation(nil), Readers: readersOf(nil), Query: query, Results: t.search().find(query)})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("X-Robots-Tag", "noindex")
	page.write(w, r, http.StatusOK, cacheShort)
}

// loadSite returns the site. It returns false if the site cannot be built, after it has answered the request.
func (s *Docs) loadSite(w http.ResponseWriter, r *http.Request) (*site, bool) {
	t, err := s.site()
	if err != nil {
		s.fail(w, r, err)
		return nil, false
	}
	return t, true
}

func (s *Docs) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.deps.Log.LogAttrs(r.Context(), slog.LevelError, "cannot serve documentation", slog.Any(logkey.Error, err))
	http.Error(w, "The documentation is not available. Try again later.", http.StatusInternalServerError)
}

// notFound says that the page does not exist, and suggests similar ones.
func (s *Docs) notFound(w http.ResponseWriter, r *http.Request) {
	t, ok := s.loadSite(w, r)
	if !ok {
		return
	}
	words := strings.NewReplacer("/docs/", " ", "/problems/", " ", "/", " ", "-", " ", ".md", " ").Replace(r.URL.Path)
	words = strings.ToValidUTF8(words[:min(len(words), maxQuery)], "")
	page, err := s.execute(view{Title: "Page not found", Path: "/docs/404", Nav: t.navigation(nil), Readers: readersOf(nil), Results: t.search().find(words), Missing: true})
	if err != nil {
		s.fail(w, r, err)
		return
	}
	page.write(w, r, http.StatusNotFound, "no-store")
}
