package markdown

import (
	"bytes"
	"html"
	"strconv"
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// writer renders the nodes that look other than goldmark's own.
type writer struct {
	prefix string
	groups int
}

// RegisterFuncs says which nodes these are.
func (w *writer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, w.heading)
	r.Register(ast.KindFencedCodeBlock, w.fenced)
	r.Register(ast.KindCodeBlock, w.fenced)
	r.Register(ast.KindHTMLBlock, nothing)
	r.Register(ast.KindRawHTML, nothing)
	r.Register(extast.KindTable, w.table)
	r.Register(extast.KindTableCell, w.cell)
	r.Register(kindTabs, w.tabs)
	r.Register(kindNote, w.note)
	r.Register(kindEdges, w.edges)
}

// nothing leaves raw HTML out.
func nothing(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
	return ast.WalkSkipChildren, nil
}

// heading writes one with a link to itself.
func (w *writer) heading(out util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.Heading) // registered for this kind
	level := strconv.Itoa(n.Level)
	if entering {
		id := ""
		if at, ok := n.AttributeString("id"); ok {
			id = string(at.([]byte)) // the parser sets it so
		}
		say(out, `<h`, level, ` id="`, html.EscapeString(id), `">`)
		if !hasLink(n) {
			say(out, `<a class="anchor" href="#`, html.EscapeString(id), `">`)
		}
		return ast.WalkContinue, nil
	}
	if !hasLink(n) {
		say(out, "</a>")
	}
	say(out, "</h", level, ">\n")
	return ast.WalkContinue, nil
}

// hasLink says that a heading leads elsewhere, and so cannot be a link to itself.
func hasLink(n ast.Node) bool {
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		if child.Kind() == ast.KindLink {
			return true
		}
	}
	return false
}

// scrollsFrom is the length of a line from which a block may scroll on the narrowest screen.
const scrollsFrom = 34

// fenced writes a block of code. One that may scroll can be reached by the keyboard.
func (w *writer) fenced(out util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	language := ""
	if f, ok := node.(*ast.FencedCodeBlock); ok {
		language = string(f.Language(source))
	}
	Code(out, language, code(node, source))
	return ast.WalkSkipChildren, nil
}

// Code writes a block of code in a language.
func Code(out util.BufWriter, language string, content []byte) {
	name := label(language, content)
	say(out, `<div class="code"><pre`)
	for line := range bytes.Lines(content) {
		if len(line) > scrollsFrom {
			say(out, ` tabindex="0" role="group" aria-label="`, html.EscapeString(name), ` code"`)
			break
		}
	}
	say(out, `><code>`)
	highlight(out, language, strings.TrimRight(string(content), "\n"))
	say(out, "</code></pre></div>\n")
}

// table writes a table in a box of its own that scrolls.
func (w *writer) table(out util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		say(out, `<div class="table" tabindex="0" role="group" aria-label="Table"><table>`, "\n")
	} else {
		say(out, "</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// cell writes a cell of a table. An empty one in the head is no heading.
func (w *writer) cell(out util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	name := "td"
	if node.Parent().Kind() == extast.KindTableHeader && node.HasChildren() {
		name = "th"
	}
	if !entering {
		say(out, "</", name, ">\n")
		return ast.WalkContinue, nil
	}
	say(out, "<", name)
	if at := node.(*extast.TableCell).Alignment; at == extast.AlignRight || at == extast.AlignCenter {
		say(out, ` align="`, at.String(), `"`) // a style would be refused by the page's policy
	}
	say(out, ">")
	return ast.WalkContinue, nil
}

// tabs writes code in several languages: radio buttons choose, the style sheet shows. The first label is shown to begin with.
func (w *writer) tabs(out util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*tabs) // registered for this kind
	w.groups++
	name := w.prefix + "code" + strconv.Itoa(w.groups)
	say(out, `<fieldset class="tabs"><legend>Language</legend>`)
	for i, label := range n.labels {
		id := name + "-" + strconv.Itoa(i+1)
		say(out, `<input type="radio" name="`, name, `" id="`, id, `" value="`, label, `"`)
		if i == 0 {
			say(out, " checked")
		}
		say(out, `><label for="`, id, `">`, label, `</label>`)
	}
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		if _, err := w.fenced(out, source, child, true); err != nil {
			return ast.WalkStop, err
		}
	}
	say(out, "</fieldset>\n")
	return ast.WalkSkipChildren, nil
}

// note writes a paragraph set apart.
func (w *writer) note(out util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*note) // registered for this kind
	if entering {
		say(out, `<div class="note `, strings.ToLower(n.word), `"><p class="word">`, n.word, "</p>\n")
	} else {
		say(out, "</div>\n")
	}
	return ast.WalkContinue, nil
}

// edges writes a state diagram as a table; a state that several rows begin with is named once.
func (w *writer) edges(out util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*edges) // registered for this kind
	say(out, `<div class="table" tabindex="0" role="group" aria-label="State machine"><table><thead><tr><th>from</th><th>when</th><th>to</th></tr></thead><tbody>`)
	for _, e := range n.list {
		say(out, "<tr><td>", state(e.from, "start"), "</td><td>", html.EscapeString(e.when), "</td><td>", state(e.to, "end"), "</td></tr>\n")
	}
	say(out, "</tbody></table></div>\n")
	return ast.WalkSkipChildren, nil
}

func state(name, terminal string) string {
	if name == "[*]" {
		return "<em>" + terminal + "</em>"
	}
	return "<code>" + html.EscapeString(name) + "</code>"
}

// say writes words; a buffer takes them all.
func say(out util.BufWriter, words ...string) {
	for _, word := range words {
		_, _ = out.WriteString(word)
	}
}
