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

// writer renders the nodes that differ from goldmark's own output.
type writer struct {
	prefix string
	groups int
}

func (w *writer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHeading, w.heading)
	r.Register(ast.KindFencedCodeBlock, w.fenced)
	r.Register(ast.KindCodeBlock, w.fenced)
	r.Register(ast.KindHTMLBlock, skipHTML)
	r.Register(ast.KindRawHTML, skipHTML)
	r.Register(extast.KindTable, w.table)
	r.Register(extast.KindTableCell, w.cell)
	r.Register(kindTabs, w.tabs)
	r.Register(kindNote, w.note)
	r.Register(kindEdges, w.edges)
}

// skipHTML drops raw HTML.
func skipHTML(util.BufWriter, []byte, ast.Node, bool) (ast.WalkStatus, error) {
	return ast.WalkSkipChildren, nil
}

// heading writes a heading that links to itself.
func (w *writer) heading(out util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*ast.Heading) // Registered for this kind.
	level := strconv.Itoa(n.Level)
	if entering {
		id := ""
		if at, ok := n.AttributeString("id"); ok {
			id = string(at.([]byte)) // Set by the parser.
		}
		emit(out, `<h`, level, ` id="`, html.EscapeString(id), `">`)
		if !hasLink(n) {
			emit(out, `<a class="anchor" href="#`, html.EscapeString(id), `">`)
		}
		return ast.WalkContinue, nil
	}
	if !hasLink(n) {
		emit(out, "</a>")
	}
	emit(out, "</h", level, ">\n")
	return ast.WalkContinue, nil
}

// hasLink reports whether a heading contains a link, so that it cannot be a link to itself.
func hasLink(n ast.Node) bool {
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		if child.Kind() == ast.KindLink {
			return true
		}
	}
	return false
}

// scrollsFrom is the line length from which a block may scroll on the narrowest screen.
const scrollsFrom = 34

// fenced writes a code block.
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

// Code writes a code block in a language. A block that may scroll can be reached with the keyboard.
func Code(out util.BufWriter, language string, content []byte) {
	name := label(language, content)
	emit(out, `<div class="code"><pre`)
	for line := range bytes.Lines(content) {
		if len(line) > scrollsFrom {
			emit(out, ` tabindex="0" role="group" aria-label="`, html.EscapeString(name), ` code"`)
			break
		}
	}
	emit(out, `><code>`)
	highlight(out, language, strings.TrimRight(string(content), "\n"))
	emit(out, "</code></pre></div>\n")
}

// table writes a table in a box that scrolls.
func (w *writer) table(out util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		emit(out, `<div class="table" tabindex="0" role="group" aria-label="Table"><table>`, "\n")
	} else {
		emit(out, "</table></div>\n")
	}
	return ast.WalkContinue, nil
}

// cell writes a cell of a table. An empty cell in the header row is not a th.
func (w *writer) cell(out util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	name := "td"
	if node.Parent().Kind() == extast.KindTableHeader && node.HasChildren() {
		name = "th"
	}
	if !entering {
		emit(out, "</", name, ">\n")
		return ast.WalkContinue, nil
	}
	emit(out, "<", name)
	if at := node.(*extast.TableCell).Alignment; at == extast.AlignRight || at == extast.AlignCenter {
		emit(out, ` align="`, at.String(), `"`) // The policy of the page refuses style attributes.
	}
	emit(out, ">")
	return ast.WalkContinue, nil
}

// tabs writes code in several languages. Radio buttons select one, and the style sheet shows it; the first is selected.
func (w *writer) tabs(out util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*tabs) // Registered for this kind.
	w.groups++
	name := w.prefix + "code" + strconv.Itoa(w.groups)
	emit(out, `<fieldset class="tabs"><legend>Language</legend>`)
	for i, label := range n.labels {
		id := name + "-" + strconv.Itoa(i+1)
		emit(out, `<input type="radio" name="`, name, `" id="`, id, `" value="`, label, `"`)
		if i == 0 {
			emit(out, " checked")
		}
		emit(out, `><label for="`, id, `">`, label, `</label>`)
	}
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		if _, err := w.fenced(out, source, child, true); err != nil {
			return ast.WalkStop, err
		}
	}
	emit(out, "</fieldset>\n")
	return ast.WalkSkipChildren, nil
}

func (w *writer) note(out util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	n := node.(*note) // Registered for this kind.
	if entering {
		emit(out, `<div class="note `, strings.ToLower(n.word), `"><p class="word">`, n.word, "</p>\n")
	} else {
		emit(out, "</div>\n")
	}
	return ast.WalkContinue, nil
}

// edges writes a state diagram as a table.
func (w *writer) edges(out util.BufWriter, _ []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	n := node.(*edges) // Registered for this kind.
	emit(out, `<div class="table" tabindex="0" role="group" aria-label="State machine"><table><thead><tr><th>from</th><th>when</th><th>to</th></tr></thead><tbody>`)
	for _, e := range n.list {
		emit(out, "<tr><td>", state(e.from, "start"), "</td><td>", html.EscapeString(e.when), "</td><td>", state(e.to, "end"), "</td></tr>\n")
	}
	emit(out, "</tbody></table></div>\n")
	return ast.WalkSkipChildren, nil
}

func state(name, terminal string) string {
	if name == "[*]" {
		return "<em>" + terminal + "</em>"
	}
	return "<code>" + html.EscapeString(name) + "</code>"
}

// emit writes strings. Writing to the buffer does not fail.
func emit(out util.BufWriter, words ...string) {
	for _, word := range words {
		_, _ = out.WriteString(word)
	}
}
