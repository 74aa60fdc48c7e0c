// Package markdown renders our own Markdown as HTML: headings with anchors, tables that scroll, highlighted code,
// blocks in several languages as tabs, notes, and state diagrams as tables. The result needs no script. Raw HTML in a
// document is dropped. Start reading at Render.
package markdown

import (
	"bytes"
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// Heading is a heading that can be linked to.
type Heading struct {
	Level    int
	ID, Text string
}

// Passage is the text below one heading, for search.
type Passage struct {
	// ID is that of the heading; empty for the text before the first one.
	ID, Heading, Text string
	// Code is the content of code blocks.
	Code string
}

// Document is a rendered document.
type Document struct {
	// Title is the first heading of level 1, which HTML does not contain.
	Title string
	// Lead is the first paragraph as plain text.
	Lead string
	HTML template.HTML
	// Headings are those of levels 2 and 3.
	Headings []Heading
	Passages []Passage
	// Links are the destinations of all links, as written.
	Links []string
}

// Options control how a document is rendered.
type Options struct {
	// Link maps a destination to an address; an empty result removes the link and keeps its text. Nil keeps all links.
	Link func(destination string) string
	// Prefix starts the ids of headings and tabs, so that one page can have several texts.
	Prefix string
	// Plain skips the HTML: enough for search, and much faster.
	Plain bool
}

// Render renders a document.
func Render(source []byte, o Options) (Document, error) {
	md := goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(&writer{prefix: o.Prefix}, 100))),
	)
	ctx := parser.NewContext(parser.WithIDs(&slugs{prefix: o.Prefix, used: map[string]bool{}}))
	root := md.Parser().Parse(text.NewReader(source), parser.WithContext(ctx))
	doc := Document{}
	doc.read(root, source, o)
	if o.Plain {
		return doc, nil
	}
	arrange(root, source)
	var out bytes.Buffer
	if err := md.Renderer().Render(&out, source, root); err != nil {
		return doc, fmt.Errorf("render Markdown: %w", err)
	}
	doc.HTML = template.HTML(out.String()) // The renderer escapes text and drops raw HTML.
	return doc, nil
}

// read collects title, lead, headings and passages of a tree, and rewrites its links.
func (d *Document) read(root ast.Node, source []byte, o Options) {
	d.Passages = []Passage{{}}
	for node := root.FirstChild(); node != nil; {
		next := node.NextSibling()
		switch n := node.(type) {
		case *ast.Heading:
			words := Text(n, source)
			if n.Level == 1 && d.Title == "" {
				d.Title = words
				root.RemoveChild(root, n)
				break
			}
			heading := Heading{Level: n.Level, Text: words}
			if at, ok := n.AttributeString("id"); ok {
				heading.ID = string(at.([]byte)) // Set by the parser.
			}
			if n.Level <= 3 {
				d.Headings = append(d.Headings, heading)
			}
			d.Passages = append(d.Passages, Passage{ID: heading.ID, Heading: words})
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			d.Passages[len(d.Passages)-1].Code += string(code(n, source)) + "\n"
		default:
			words := Text(n, source)
			if _, ok := n.(*ast.Paragraph); ok && d.Lead == "" {
				d.Lead = words
			}
			last := &d.Passages[len(d.Passages)-1]
			last.Text = strings.TrimSpace(last.Text + "\n" + words)
		}
		node = next
	}
	d.relink(root, o.Link)
}

// relink collects all links and replaces their destinations.
func (d *Document) relink(root ast.Node, address func(string) string) {
	var unlinked []*ast.Link
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // The walker returns no error.
		link, ok := n.(*ast.Link)
		if !ok || !entering {
			return ast.WalkContinue, nil
		}
		to := string(link.Destination)
		d.Links = append(d.Links, to)
		if address != nil {
			if at := address(to); at != "" {
				link.Destination = []byte(at)
			} else {
				unlinked = append(unlinked, link)
			}
		}
		return ast.WalkContinue, nil
	})
	for _, link := range unlinked {
		parent := link.Parent()
		for child := link.FirstChild(); child != nil; {
			next := child.NextSibling()
			parent.InsertBefore(parent, link, child)
			child = next
		}
		parent.RemoveChild(parent, link)
	}
}

// Text returns the plain text below a node.
func Text(node ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // The walker returns no error.
		if !entering {
			if n.Type() == ast.TypeBlock && b.Len() > 0 {
				b.WriteByte('\n')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			b.Write(code(n, source))
		case *ast.AutoLink:
			b.Write(n.Label(source))
		}
		return ast.WalkContinue, nil
	})
	return strings.TrimSpace(b.String())
}

// code returns the content of a code block.
func code(n ast.Node, source []byte) []byte {
	var b bytes.Buffer
	for i := range n.Lines().Len() {
		at := n.Lines().At(i)
		b.Write(at.Value(source))
	}
	return b.Bytes()
}

// fact matches the markers around a figure that `make generate` fills in. They are within a line of text.
var fact = regexp.MustCompile(`<!-- /?fact[^>]*-->`)

// Uncommented returns a document without its HTML comments, which are for the programs that check it. Comments in code
// blocks stay.
func Uncommented(source []byte) []byte {
	var b bytes.Buffer
	fence, comment := "", false
	for line := range bytes.Lines(source) {
		text := strings.TrimSpace(string(line))
		switch {
		case comment:
			comment = !strings.Contains(text, "-->")
			continue
		case fence != "":
			if text == fence {
				fence = ""
			}
		case strings.HasPrefix(text, "```"):
			fence = text[:len(text)-len(strings.TrimLeft(text, "`"))]
		case strings.HasPrefix(text, "<!--"):
			comment = !strings.Contains(text, "-->")
			continue
		}
		if fence == "" {
			line = fact.ReplaceAll(line, nil)
		}
		b.Write(line)
	}
	return b.Bytes()
}

// slugs generates ids of headings like GitHub, so that links to them work in both places.
type slugs struct {
	prefix string
	used   map[string]bool
}

// Generate returns the id of a heading.
func (s *slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	base := s.prefix + Slug(string(value))
	id := base
	for n := 1; s.used[id]; n++ {
		id = fmt.Sprintf("%s-%d", base, n)
	}
	s.used[id] = true
	return []byte(id)
}

// Put records an id that the document sets itself.
func (s *slugs) Put(value []byte) { s.used[string(value)] = true }

// links matches links in a heading, of which only the text counts.
var links = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// Slug returns the id of a heading.
func Slug(heading string) string {
	var b strings.Builder
	heading = links.ReplaceAllString(heading, "$1")
	for _, r := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case r == ' ', r == '-':
			b.WriteByte('-')
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r > 127 && r != '—' && r != '–' && r != '…' && r != '→':
			b.WriteRune(r)
		}
	}
	if b.Len() == 0 {
		return "section"
	}
	return b.String()
}
