package markdown

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// Kinds of our own nodes.
var (
	kindTabs  = ast.NewNodeKind("Tabs")
	kindNote  = ast.NewNodeKind("Note")
	kindEdges = ast.NewNodeKind("Edges")
)

// tabs is the same code in several languages.
type tabs struct {
	ast.BaseBlock
	labels []string
}

func (*tabs) Kind() ast.NodeKind { return kindTabs }

func (t *tabs) Dump(source []byte, level int) { ast.DumpHelper(t, source, level, nil, nil) }

// note is a highlighted paragraph.
type note struct {
	ast.BaseBlock
	word string
}

func (*note) Kind() ast.NodeKind { return kindNote }

func (n *note) Dump(source []byte, level int) { ast.DumpHelper(n, source, level, nil, nil) }

// edges is a state diagram as a table of its transitions.
type edges struct {
	ast.BaseBlock
	list []edge
}

// edge is one transition of a state diagram.
type edge struct{ from, when, to string }

func (*edges) Kind() ast.NodeKind { return kindEdges }

func (e *edges) Dump(source []byte, level int) { ast.DumpHelper(e, source, level, nil, nil) }

// arrange replaces code blocks, quotations and state diagrams in a tree with tabs, notes and tables.
func arrange(parent ast.Node, source []byte) {
	for node := parent.FirstChild(); node != nil; {
		switch n := node.(type) {
		case *ast.FencedCodeBlock:
			if list := diagram(n, source); list != nil {
				table := &edges{list: list}
				parent.ReplaceChild(parent, n, table)
				node = table
				break
			}
			node = groupTabs(parent, n, source)
		case *ast.Blockquote:
			if word := noteWord(n, source); word != "" {
				node = replaceWithNote(parent, n, word)
			}
		case *ast.List, *ast.ListItem:
			arrange(n, source)
		}
		node = node.NextSibling()
	}
}

// groupTabs moves a code block and the following ones in other languages into tabs, and returns the node that is now
// there.
func groupTabs(parent ast.Node, first *ast.FencedCodeBlock, source []byte) ast.Node {
	blocks, labels := []ast.Node{}, []string{}
	for node := ast.Node(first); node != nil; node = node.NextSibling() {
		block, ok := node.(*ast.FencedCodeBlock)
		if !ok {
			break
		}
		label := label(string(block.Language(source)), code(block, source))
		if !slices.Contains(languages, label) || slices.Contains(labels, label) {
			break
		}
		blocks, labels = append(blocks, block), append(labels, label)
	}
	if len(blocks) < 2 {
		return first
	}
	t := &tabs{labels: labels}
	parent.InsertBefore(parent, first, t)
	for _, b := range blocks {
		t.AppendChild(t, b)
	}
	return t
}

// languages can be alternatives of each other.
var languages = []string{"curl", "CLI", "Shell", "TypeScript", "JavaScript", "Go", "Python"}

// label returns the name of a block's language for readers.
func label(language string, content []byte) string {
	switch language {
	case "sh", "bash", "shell":
		for line := range bytes.Lines(content) {
			switch {
			case bytes.HasPrefix(line, []byte("#")), len(bytes.TrimSpace(line)) == 0:
				continue
			case bytes.HasPrefix(line, []byte("curl ")):
				return "curl"
			case bytes.HasPrefix(line, []byte("stagedoor ")):
				return "CLI"
			}
			break
		}
		return "Shell"
	case "ts", "typescript", "tsx":
		return "TypeScript"
	case "js", "javascript", "mjs":
		return "JavaScript"
	case "go":
		return "Go"
	case "python", "py":
		return "Python"
	case "json", "yaml", "html", "http", "sql", "css", "toml", "ini":
		return strings.ToUpper(language)
	}
	return "Text"
}

var edgeLine = regexp.MustCompile(`^\s*(\[\*\]|\w+)\s*-->\s*(\[\*\]|\w+)\s*(?::\s*(.*))?$`)

// diagram returns the transitions of a state diagram; nil for any other block.
func diagram(n *ast.FencedCodeBlock, source []byte) []edge {
	content := code(n, source)
	if string(n.Language(source)) != "mermaid" || !bytes.HasPrefix(bytes.TrimSpace(content), []byte("stateDiagram")) {
		return nil
	}
	list := []edge{}
	for line := range strings.Lines(string(content)) {
		if m := edgeLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil {
			list = append(list, edge{from: m[1], when: m[3], to: m[2]})
		}
	}
	return list
}

var noteWords = map[string]string{"[!NOTE]": "Note", "[!TIP]": "Tip", "[!IMPORTANT]": "Important", "[!WARNING]": "Warning", "[!CAUTION]": "Warning"}

// noteWord returns the kind of note that a quotation is; empty for none.
func noteWord(n *ast.Blockquote, source []byte) string {
	first, ok := n.FirstChild().(*ast.Paragraph)
	if !ok || first.Lines().Len() == 0 {
		return ""
	}
	line := first.Lines().At(0)
	return noteWords[string(bytes.TrimSpace(line.Value(source)))]
}

// replaceWithNote replaces a quotation with a note and drops its first line.
func replaceWithNote(parent ast.Node, quote *ast.Blockquote, word string) ast.Node {
	n := &note{word: word}
	parent.InsertBefore(parent, quote, n)
	first := quote.FirstChild()
	for child := first.FirstChild(); child != nil; {
		next, text := child.NextSibling(), false
		if t, ok := child.(*ast.Text); ok {
			text = t.SoftLineBreak() || t.HardLineBreak()
		}
		first.RemoveChild(first, child)
		if text {
			break
		}
		child = next
	}
	for child := first; child != nil; {
		next := child.NextSibling()
		if child.HasChildren() {
			n.AppendChild(n, child)
		}
		child = next
	}
	parent.RemoveChild(parent, quote)
	return n
}
