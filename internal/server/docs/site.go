package docs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/stagedoor/stagedoor"
	"github.com/stagedoor/stagedoor/docs"
	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/docs/markdown"
	"github.com/stagedoor/stagedoor/internal/server/docs/reference"
	"github.com/stagedoor/stagedoor/internal/tenant/org"
)

// site is the set of all pages.
type site struct {
	// pages are in reading order.
	pages  []*page
	byPath map[string]*page
	// byFile finds the page of a Markdown file.
	byFile map[string]*page
	search func() *index
	// texts are llms.txt and similar files.
	texts func() map[string]*staticResponse
}

// page is one page of the site.
type page struct {
	path, label, title, lead string
	// group is its heading in the navigation; parent is the page that it belongs to, or nil.
	group   string
	parent  *page
	readers readers
	// file is its Markdown file; empty for a generated page.
	file string
	// source is its Markdown.
	source []byte
	// generated is the page of the reference; nil for a file.
	generated *reference.Page
	// kind is the problem that it documents; nil for other pages.
	kind *problem.Kind
	// html renders the page once.
	html func() (*staticResponse, error)
}

// builtSite is a site, or why it could not be built, for a version of the plans; 0 for none.
type builtSite struct {
	version int64
	site    *site
	err     error
}

// site returns the site with the current plans.
func (s *Docs) site() (*site, error) {
	plans, version := s.deps.Plans.All()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.built.version != version {
		t, err := s.build(plans)
		s.built = builtSite{version, t, err}
	}
	return s.built.site, s.built.err
}

// build collects the pages with their titles. Their HTML is rendered on demand.
func (s *Docs) build(plans []org.PlanLimits) (*site, error) {
	t := &site{byPath: map[string]*page{}, byFile: map[string]*page{}}
	openAPI, err := s.deps.OpenAPI()
	if err != nil {
		return nil, err
	}
	made, err := reference.Build(openAPI, plans)
	if err != nil {
		return nil, err
	}
	for _, g := range nav {
		for _, e := range g.entries {
			if err := t.addEntry(g, e, made); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range t.pages {
		p.html = sync.OnceValues(func() (*staticResponse, error) { return s.render(t, p) })
	}
	t.search = sync.OnceValue(t.index)
	t.texts = sync.OnceValue(func() map[string]*staticResponse { return s.texts(t) })
	return t, nil
}

// addEntry adds the pages of an entry of the navigation: a file, or a generated page with those below it.
func (t *site) addEntry(g group, e entry, made []reference.Page) error {
	if e.file != "" {
		p, err := t.addFile(g, e, nil)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // A test finds it. Readers still get the other pages.
		}
		if err != nil || e.file != "problems/README.md" {
			return err
		}
		return t.addProblems(g, p)
	}
	var parent *page
	for i := range made {
		m := &made[i]
		if m.Path != e.path && !strings.HasPrefix(m.Path, e.path+"/") {
			continue
		}
		p := &page{path: m.Path, label: m.Label, title: m.Title, lead: m.Lead, group: g.title, readers: g.readers, parent: parent, source: m.Markdown(), generated: m}
		if m.Path == e.path {
			p.label, parent = e.label, p
		}
		t.add(p)
	}
	if parent == nil {
		return fmt.Errorf("no generated page %s", e.path)
	}
	return nil
}

// addFile adds a Markdown file.
func (t *site) addFile(g group, e entry, parent *page) (*page, error) {
	source, err := readFile(e.file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", e.file, err)
	}
	doc, err := markdown.Render(source, markdown.Options{Link: nil, Prefix: "", Plain: true})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", e.file, err)
	}
	p := &page{path: e.path, label: e.label, title: doc.Title, lead: doc.Lead, group: g.title, readers: g.readers, parent: parent, file: e.file, source: markdown.Uncommented(source)}
	if p.path == "" {
		p.path = pathOf(e.file)
	}
	p.label = cmp.Or(p.label, doc.Title)
	t.byFile[e.file] = p
	t.add(p)
	return p, nil
}

func (t *site) addProblems(g group, parent *page) error {
	for _, k := range problem.All() {
		p, err := t.addFile(g, entry{file: "problems/" + k.Code + ".md", path: "", label: k.Code}, parent)
		if err != nil {
			return err
		}
		p.kind = &k
	}
	return nil
}

func (t *site) add(p *page) {
	t.pages = append(t.pages, p)
	t.byPath[p.path] = p
}

// readFile reads a document of docs/, or one at the top of the repository.
func readFile(name string) ([]byte, error) {
	if top, ok := strings.CutPrefix(name, "../"); ok {
		return stagedoor.Files.ReadFile(top)
	}
	return docs.Files.ReadFile(name)
}

// pathOf returns the address of a file's page: README.md stands for its folder.
func pathOf(file string) string {
	return strings.TrimSuffix("/docs/"+strings.TrimSuffix(strings.TrimSuffix(file, ".md"), "README"), "/")
}

// address returns a function that maps links in a document to addresses of the site, relative to its file. It returns
// an empty string for links to other files of the repository, which readers of the site do not have.
func (t *site) address(from *page) func(string) string {
	return func(to string) string {
		if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") || strings.HasPrefix(to, "#") {
			return to
		}
		target, anchor, _ := strings.Cut(to, "#")
		if anchor != "" {
			anchor = "#" + anchor
		}
		if code, ok := strings.CutPrefix(target, "/problems/"); ok && t.byPath["/docs/problems/"+code] != nil {
			return "/docs/problems/" + code + anchor
		}
		if target == "/problems" {
			return "/docs/problems" + anchor
		}
		if strings.HasPrefix(target, "/") || from.file == "" {
			return to
		}
		file := path.Join(path.Dir(from.file), target)
		if p := t.byFile[file]; p != nil {
			return p.path + anchor
		}
		if p := t.byFile[path.Join(file, "README.md")]; p != nil {
			return p.path + anchor
		}
		if info, err := fs.Stat(docs.Files, file); err == nil && !info.IsDir() && !strings.HasSuffix(file, ".md") {
			return "/docs/" + file
		}
		return ""
	}
}

func (t *site) children(of *page) (list []*page) {
	for _, p := range t.pages {
		if p.parent == of {
			list = append(list, p)
		}
	}
	return list
}
