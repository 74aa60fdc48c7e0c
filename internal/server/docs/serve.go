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
)

func (s *Docs) routes() {
	s.mux.HandleFunc("GET /docs", s.getPage)
	s.mux.HandleFunc("GET /docs.md", s.getPage)
	s.mux.HandleFunc("GET /docs/", s.getPage)
	s.mux.HandleFunc("GET /docs/-/{version}/{file}", s.getAsset)
	s.mux.HandleFunc("GET /docs/search", s.getSearch)
	s.mux.HandleFunc("GET /problems", s.getPage)
	s.mux.HandleFunc("GET /problems/", s.getPage)
	for _, path := range []string{"/llms.txt", "/llms-full.txt", "/docs/llms.txt", "/docs/llms-full.txt", "/docs/sitemap.xml"} {
		s.mux.HandleFunc("GET "+path, s.getText)
	}
}

// kinds are the types of our own files, and of those that documents refer to.
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
		s.assets[path.Base(name)] = newAnswer(kinds[path.Ext(name)], content)
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the pages' files: %w", err)
	}
	s.version = hex.EncodeToString(all.Sum(nil)[:6])
	return nil
}

// getAsset serves a file of the pages. Its address has the files' version, so it is good for ever.
func (s *Docs) getAsset(w http.ResponseWriter, r *http.Request) {
	if file := s.assets[r.PathValue("file")]; file != nil && r.PathValue("version") == s.version {
		file.write(w, r, http.StatusOK, cacheLong)
		return
	}
	s.missing(w, r)
}

// getPage serves a page, its Markdown if the address ends so, or a file that a document refers to.
func (s *Docs) getPage(w http.ResponseWriter, r *http.Request) {
	t, ok := s.ready(w, r)
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
			s.broken(w, r, err)
			return
		}
		w.Header().Set("Link", `<`+p.path+`.md>; rel="alternate"; type="text/markdown"`)
		page.write(w, r, http.StatusOK, cacheShort)
		return
	}
	if name, ok := strings.CutSuffix(at, ".md"); ok {
		if p := t.byPath[name]; p != nil {
			newAnswer(kinds[".md"], p.source).write(w, r, http.StatusOK, cacheShort)
			return
		}
		if p := t.byFile[strings.TrimPrefix(at, "/docs/")]; p != nil { // by the name that it has in the repository
			http.Redirect(w, r, p.path+".md", http.StatusMovedPermanently)
			return
		}
	}
	s.getFile(w, r, strings.TrimPrefix(at, "/docs/"))
}

// getFile serves a program that a document refers to, as text.
func (s *Docs) getFile(w http.ResponseWriter, r *http.Request, name string) {
	kind := kinds[path.Ext(name)]
	if kind == "" || path.Ext(name) == ".md" || !fs.ValidPath(name) {
		s.missing(w, r)
		return
	}
	content, err := docs.Files.ReadFile(name)
	if err != nil {
		s.missing(w, r)
		return
	}
	newAnswer(kind, content).write(w, r, http.StatusOK, cacheShort)
}

// getText serves llms.txt and what is like it.
func (s *Docs) getText(w http.ResponseWriter, r *http.Request) {
	if t, ok := s.ready(w, r); ok {
		t.texts()[strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/docs"), "/")].write(w, r, http.StatusOK, cacheShort)
	}
}

// maxQuery is how much of a question is looked at.
const maxQuery = 200

// getSearch answers a question.
func (s *Docs) getSearch(w http.ResponseWriter, r *http.Request) {
	t, ok := s.ready(w, r)
	if !ok {
		return
	}
	query := strings.ToValidUTF8(r.URL.Query().Get("q"), "")
	query = strings.TrimSpace(query[:min(len(query), maxQuery)])
	title := "Search"
	if query != "" {
		title = "Search: " + query
	}
	page, err := s.execute(view{Title: title, Path: "/docs/search", Nav: t.navigation(nil), Query: query, Results: t.search().find(query)})
	if err != nil {
		s.broken(w, r, err)
		return
	}
	w.Header().Set("X-Robots-Tag", "noindex")
	page.write(w, r, http.StatusOK, cacheShort)
}

// ready is the site; false if it could not be made, which was told.
func (s *Docs) ready(w http.ResponseWriter, r *http.Request) (*site, bool) {
	t, err := s.site()
	if err != nil {
		s.broken(w, r, err)
		return nil, false
	}
	return t, true
}

func (s *Docs) broken(w http.ResponseWriter, r *http.Request, err error) {
	s.Log.LogAttrs(r.Context(), slog.LevelError, "documents cannot be shown", slog.Any("error", err))
	http.Error(w, "The documents cannot be shown right now.", http.StatusInternalServerError)
}

// missing says that there is no such page, and what there is that sounds like it.
func (s *Docs) missing(w http.ResponseWriter, r *http.Request) {
	t, ok := s.ready(w, r)
	if !ok {
		return
	}
	words := strings.NewReplacer("/docs/", " ", "/problems/", " ", "/", " ", "-", " ", ".md", " ").Replace(r.URL.Path)
	words = strings.ToValidUTF8(words[:min(len(words), maxQuery)], "")
	page, err := s.execute(view{Title: "No such page", Path: "/docs/404", Nav: t.navigation(nil), Results: t.search().find(words), Missing: true})
	if err != nil {
		s.broken(w, r, err)
		return
	}
	page.write(w, r, http.StatusNotFound, "no-store")
}
