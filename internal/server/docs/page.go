package docs

import (
	"bytes"
	"fmt"
	"html/template"
	"strings"

	"github.com/stagedoor/stagedoor/internal/base/problem"
	"github.com/stagedoor/stagedoor/internal/server/docs/markdown"
	"github.com/stagedoor/stagedoor/internal/server/docs/reference"
)

// view is the data of the template.
type view struct {
	Title, Description, Group string
	// Path is the address of the page, Canonical the same with the host.
	Path, Canonical string
	// Wide pages have code next to the text and no table of contents.
	Wide bool
	Body template.HTML
	// Contents are the headings of the page.
	Contents []markdown.Heading
	Items    []itemView
	Kind     *problem.Kind
	Nav      []navGroup
	// Readers links to the start pages of the other readers.
	Readers  []link
	Crumb    *link
	Previous *link
	Next     *link
	// File is the source in the repository; empty for a generated page.
	File string
	// Query is the search query, and Results what was found.
	Query   string
	Results []result
	Missing bool
}

type link struct {
	Label, Path string
	Here        bool
}

// navGroup is a group of the navigation as shown on one page.
type navGroup struct {
	Title string
	// Open shows its pages.
	Open  bool
	Links []navLink
}

type navLink struct {
	link
	// Below are the pages that belong to it, shown while the reader is among them.
	Below []link
}

type itemView struct {
	reference.Item
	// Try is the address in the dashboard at which the method can be called; empty for none.
	Try   string
	Facts []template.HTML
	Body  template.HTML
	Folds []foldView
	Side  template.HTML
}

type foldView struct {
	Title string
	Open  bool
	Body  template.HTML
}

// render renders a page as HTML.
func (s *Docs) render(t *site, p *page) (*staticResponse, error) {
	v := t.view(p)
	v.Canonical = s.deps.PublicURL + p.path
	r := &pageRenderer{link: t.address(p)}
	if p.generated != nil {
		v.Wide = len(p.generated.Items) > 0
		v.Body = r.render("", p.generated.Intro)
		v.Contents = r.headings
		for _, i := range p.generated.Items {
			v.Items = append(v.Items, r.item(i))
		}
	} else {
		doc, err := markdown.Render(p.source, markdown.Options{Link: r.link, Prefix: "", Plain: false})
		r.err = err
		v.Body, v.Contents = doc.HTML, doc.Headings
	}
	if r.err != nil {
		return nil, fmt.Errorf("render %s: %w", p.path, r.err)
	}
	return s.execute(v)
}

func (s *Docs) execute(v view) (*staticResponse, error) { return s.executeTemplate("page.html", v) }

func (s *Docs) executeTemplate(name string, v view) (*staticResponse, error) {
	var out bytes.Buffer
	if err := s.templates.ExecuteTemplate(&out, name, v); err != nil {
		return nil, fmt.Errorf("render %s: %w", v.Path, err)
	}
	return newStaticResponse("text/html; charset=utf-8", out.Bytes()), nil
}

// pageRenderer renders the parts of a generated page. It keeps the first error.
type pageRenderer struct {
	link     func(string) string
	headings []markdown.Heading
	err      error
}

func (r *pageRenderer) render(prefix, text string) template.HTML {
	if text == "" || r.err != nil {
		return ""
	}
	doc, err := markdown.Render([]byte(text), markdown.Options{Link: r.link, Prefix: prefix, Plain: false})
	r.headings, r.err = append(r.headings, doc.Headings...), err
	return doc.HTML
}

// inline renders text without a paragraph around it.
func (r *pageRenderer) inline(text string) template.HTML {
	html := strings.TrimSpace(string(r.render("", text)))
	return template.HTML(strings.TrimSuffix(strings.TrimPrefix(html, "<p>"), "</p>")) // From the escaped output of render.
}

func (r *pageRenderer) item(i reference.Item) itemView {
	v := itemView{Item: i, Body: r.render(i.ID+"-", i.Body), Side: r.render(i.ID+"-", i.Side)}
	if i.Mono && i.Verb != "" {
		v.Try = "/app/explorer/" + i.Title
	}
	for _, fact := range i.Facts {
		v.Facts = append(v.Facts, r.inline(fact))
	}
	for _, f := range i.Folds {
		v.Folds = append(v.Folds, foldView{Title: f.Title, Open: f.Open, Body: r.render(i.ID+"-"+markdown.Slug(f.Title)+"-", f.Body)})
	}
	return v
}

// view returns what all pages share: navigation, neighbours, title.
func (t *site) view(p *page) view {
	v := view{Title: p.title, Description: p.lead, Group: p.group, Path: p.path, Kind: p.kind, File: strings.TrimPrefix("docs/"+p.file, "docs/../"), Nav: t.navigation(p), Readers: readersOf(p)}
	if p.file == "" {
		v.File = ""
	}
	if p.parent != nil {
		v.Crumb = &link{Label: p.parent.label, Path: p.parent.path}
	}
	for i, other := range t.pages {
		if other != p {
			continue
		}
		if i > 0 && t.pages[i-1].readers == p.readers {
			v.Previous = &link{Label: t.pages[i-1].label, Path: t.pages[i-1].path}
		}
		if i+1 < len(t.pages) && t.pages[i+1].readers == p.readers {
			v.Next = &link{Label: t.pages[i+1].label, Path: t.pages[i+1].path}
		}
	}
	return v
}

// readersOf returns links to where each kind of reader starts, as seen from a page, or from none if at is nil.
func readersOf(at *page) []link {
	links := make([]link, len(audiences))
	for i, a := range audiences {
		links[i] = link{Label: a.name, Path: a.start, Here: at != nil && at.readers == readers(i)}
	}
	return links
}

// navigation returns the list of pages for the readers of one of them, or for customers if at is nil. On start pages all
// common groups are open; on others only the reader's own.
func (t *site) navigation(at *page) []navGroup {
	var groups []navGroup
	for _, g := range nav {
		if at == nil && g.readers != customers || at != nil && g.readers != at.readers {
			continue
		}
		shown := navGroup{Title: g.title, Open: g.readers != customers || at == nil && !g.folded || at != nil && (at.group == g.title || !g.folded && at.group == nav[0].title)}
		for _, p := range t.pages {
			if p.group != g.title || p.parent != nil {
				continue
			}
			shown.Links = append(shown.Links, navLink{link: link{Label: p.label, Path: p.path, Here: p == at}, Below: t.below(p, at)})
		}
		groups = append(groups, shown)
	}
	return groups
}

// below returns the pages to show below one in the navigation, as seen from a page.
func (t *site) below(p, at *page) (list []link) {
	switch {
	case at == nil || at != p && at.parent != p:
	case p.file == "":
		for _, child := range t.children(p) {
			list = append(list, link{Label: child.label, Path: child.path, Here: child == at})
		}
	case at.parent == p: // Of the many problems, show only the current one.
		list = append(list, link{Label: at.label, Path: at.path, Here: true})
	}
	return list
}
