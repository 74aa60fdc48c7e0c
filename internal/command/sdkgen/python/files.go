// Package python generates the Python library. Start at Files.
package python

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/stagedoor/stagedoor/internal/command/sdkgen/model"
)

// maxWidth is the maximum length of a line.
const maxWidth = 120

// keywords are words that cannot be names. Soft keywords, such as type and match, can be.
var keywords = map[string]bool{
	"False": true, "None": true, "True": true, "and": true, "as": true, "assert": true, "async": true, "await": true,
	"break": true, "class": true, "continue": true, "def": true, "del": true, "elif": true, "else": true, "except": true,
	"finally": true, "for": true, "from": true, "global": true, "if": true, "import": true, "in": true, "is": true,
	"lambda": true, "nonlocal": true, "not": true, "or": true, "pass": true, "raise": true, "return": true, "try": true,
	"while": true, "with": true, "yield": true,
}

// Files returns the Python library. Types are in separate modules that calls do not import at run time, so
// that programs without type checking do not pay for creating hundreds of classes. Each resource is imported
// when it is first used.
func Files(m *model.Model) (map[string][]byte, error) {
	p := &generator{model: m, files: map[string][]byte{}}
	p.nameEnums()
	p.types()
	p.params()
	p.events()
	p.problems()
	for _, r := range m.Resources {
		p.resource(r)
	}
	p.account()
	var groups []*model.Group
	for _, g := range m.Groups {
		if g.HasJSON() {
			p.group(g)
			groups = append(groups, g)
		}
	}
	p.client(groups)
	return p.files, p.err
}

type generator struct {
	model *model.Model
	files map[string][]byte
	// enums holds the names of long enumerations by their values, joined with commas.
	enums map[string]string
	// err is the first error.
	err error
}

func (p *generator) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// save assembles a file. Its imports are known only after the body is written.
func (p *generator) save(path, doc string, f *file) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n", model.Header)
	b.WriteString(docstring(doc, 0))
	b.WriteString("\nfrom __future__ import annotations\n\n")
	checking := f.imports(true)
	if checking != "" {
		f.use("typing", "TYPE_CHECKING")
	}
	b.WriteString(f.imports(false))
	if checking != "" {
		b.WriteString("\nif TYPE_CHECKING:\n" + checking)
	}
	b.Write(f.body.Bytes())
	p.files[path] = b.Bytes()
}

// file is a module that is being written.
type file struct {
	body bytes.Buffer
	// always and checked hold the imported names by module: at run time, and for type checkers only.
	always, checked map[string][]string
}

func newFile() *file {
	return &file{always: map[string][]string{}, checked: map[string][]string{}}
}

func (f *file) printf(format string, args ...any) { fmt.Fprintf(&f.body, format, args...) }

func (f *file) use(module, name string) { f.always[module] = append(f.always[module], name) }

func (f *file) check(module, name string) { f.checked[module] = append(f.checked[module], name) }

// imports returns the import lines, the standard library first.
func (f *file) imports(checked bool) string {
	from, indent := f.always, ""
	if checked {
		from, indent = f.checked, "    "
	}
	var standard, own []string
	for module := range from {
		if strings.HasPrefix(module, ".") {
			own = append(own, module)
		} else {
			standard = append(standard, module)
		}
	}
	var b strings.Builder
	for _, modules := range [][]string{standard, own} {
		if len(modules) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		slices.Sort(modules)
		for _, module := range modules {
			names := slices.Clone(from[module])
			slices.Sort(names)
			names = slices.Compact(names)
			b.WriteString(fold(indent+"from "+module+" import ", names, "", indent))
		}
	}
	return b.String()
}

// fold writes a list on one line, or one item per line if it does not fit. Without an end it is an import, which needs
// parentheses only in the second form.
func fold(start string, items []string, end, indent string) string {
	line := start + strings.Join(items, ", ") + end
	if len(line) <= maxWidth {
		return line + "\n"
	}
	if end == "" {
		start, end = start+"(", ")"
	}
	var b strings.Builder
	b.WriteString(start + "\n")
	for _, item := range items {
		b.WriteString(indent + "    " + item + ",\n")
	}
	b.WriteString(indent + end + "\n")
	return b.String()
}

// docstring returns a docstring, wrapped and indented by depth.
func docstring(text string, depth int) string {
	indent := strings.Repeat(" ", depth)
	text = strings.ReplaceAll(strings.TrimSpace(text), `\`, `\\`)
	if strings.HasSuffix(text, `"`) {
		text += " "
	}
	lines := paragraphs(text, maxWidth-depth)
	if len(lines) == 1 && len(lines[0])+depth+6 <= maxWidth {
		return indent + `"""` + lines[0] + `"""` + "\n"
	}
	lines = paragraphs(text, maxWidth-depth-3)
	var b strings.Builder
	b.WriteString(indent + `"""` + lines[0] + "\n")
	for _, line := range lines[1:] {
		if line == "" {
			b.WriteString("\n")
			continue
		}
		b.WriteString(indent + line + "\n")
	}
	b.WriteString(indent + `"""` + "\n")
	return b.String()
}

// paragraphs wraps a text. An indented line keeps its indentation; its continuation is indented by 4 more.
func paragraphs(text string, width int) []string {
	var lines []string
	for _, paragraph := range strings.Split(text, "\n") {
		words := strings.Fields(paragraph)
		if len(words) == 0 {
			lines = append(lines, "")
			continue
		}
		indent := strings.Repeat(" ", len(paragraph)-len(strings.TrimLeft(paragraph, " ")))
		line := indent + words[0]
		for _, word := range words[1:] {
			if len(line)+1+len(word) > width {
				lines = append(lines, line)
				line = indent + strings.Repeat(" ", min(4, len(indent))) + word
				continue
			}
			line += " " + word
		}
		lines = append(lines, line)
	}
	return lines
}

// Snake returns a Python name: chat_id for chatId, get_qr for getQR, from_ for from.
func Snake(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) {
			begins := i > 0 && (!unicode.IsUpper(runes[i-1]) || (i+1 < len(runes) && unicode.IsLower(runes[i+1])))
			if begins && runes[i-1] != '_' {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	if keywords[b.String()] {
		b.WriteByte('_')
	}
	return b.String()
}

// camel converts a Python name like the library's runtime: chatId for chat_id.
func camel(name string) string {
	first, rest, _ := strings.Cut(strings.TrimRight(name, "_"), "_")
	if rest == "" {
		return first
	}
	return first + model.Title(rest)
}

// identifier reports whether a name is a valid Python identifier.
func identifier(name string) bool {
	for i, r := range name {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return name != "" && !keywords[name]
}
